"""What the decoder reads of a target: start token first, the last token left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from attncli.errors import InputProblem, ModelProblem
from attncli.model.target import shift_right
from attncli.tokenize import TextTokenizer
from tests.seq2seq import TARGET, seq2seq, tokenizer


def pieces(model, text: str) -> list[str]:
    return [token.token for token in model.encode_target(text).tokens]


def test_start_token_stands_first_and_the_end_is_not_read(tmp_path: Path) -> None:
    target = seq2seq(tmp_path).encode_target(TARGET)
    assert [token.token for token in target.tokens] == ["<pad>", "der", "hund", "sieht", "eine"]
    assert [token.index for token in target.tokens] == list(range(5))
    assert target.ids[0] == 0
    assert (target.tokens[0].special, target.tokens[0].text) == (True, "")
    assert [word.text for word in target.words] == TARGET.split()
    assert [target.text[token.start : token.end] for token in target.tokens[1:]] == TARGET.split()


@pytest.mark.parametrize(
    ("template", "start", "expected"),
    [
        ("$A </s>", 1, ["</s>", "der", "hund"]),
        ("<pad> $A </s>", 1, ["</s>", "<pad>", "der", "hund"]),
        ("$A </s> en_XX", None, ["en_XX", "der", "hund", "</s>"]),
        ("en_XX $A </s>", 1, ["</s>", "en_XX", "der", "hund"]),
    ],
    ids=["end first", "begin kept", "language wrapped", "language second"],
)
def test_special_tokens_of_the_tokenizer_are_moved_like_all_others(
    template: str, start: int | None, expected: list[str], tmp_path: Path
) -> None:
    model = seq2seq(tmp_path, "mbart", template, decoder_start_token_id=start)
    assert pieces(model, "der hund") == expected


def test_last_word_is_not_read_when_no_end_is_added(tmp_path: Path) -> None:
    target = seq2seq(tmp_path, template="$A").encode_target("der hund sieht")
    assert [token.token for token in target.tokens] == ["<pad>", "der", "hund"]
    assert [word.text for word in target.words] == ["der", "hund"]
    assert any("'sieht'" in note for note in target.notes)


def test_word_stays_whole_numbered_when_its_last_piece_goes() -> None:
    encoded = TextTokenizer(tokenizer("$A")).encode("der hund.")
    moved = shift_right(encoded, 0, "<pad>")
    assert [token.word for token in moved.tokens] == [None, 0, 1]
    assert len(moved.words) == 2


def test_target_without_a_known_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelProblem, match="decoder_start_token_id is None"):
        seq2seq(tmp_path, decoder_start_token_id=None).encode_target(TARGET)
    with pytest.raises(ModelProblem, match="decoder_start_token_id is 4000"):
        seq2seq(tmp_path, decoder_start_token_id=4000).encode_target(TARGET)


def test_target_in_a_vocabulary_that_is_not_there_is_refused(tmp_path: Path) -> None:
    model = seq2seq(tmp_path, "marian-untied")
    assert model.encode(TARGET).tokens
    with pytest.raises(ModelProblem, match="vocabulary of its own"):
        model.encode_target(TARGET)


def test_target_longer_than_the_positions_is_refused(tmp_path: Path) -> None:
    model = seq2seq(tmp_path, "bart")
    assert len(model.encode_target("der " * 15).tokens) == 16
    with pytest.raises(InputProblem, match="The target has 17 tokens"):
        model.encode_target("der " * 16)


def test_empty_target_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputProblem, match="The target is empty"):
        seq2seq(tmp_path).encode_target(" ")


def test_piece_model_for_targets_that_is_not_read_is_told(tmp_path: Path) -> None:
    model = seq2seq(tmp_path, "marian")
    assert not any("target.spm" in note for note in model.encode_target(TARGET).notes)
    (tmp_path / "target.spm").write_bytes(b"")
    assert any("target.spm" in note for note in model.encode_target(TARGET).notes)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("$A </s>", ["<pad>", "der", "hund"]),
        ("$A </s> en_XX", ["<pad>", "der", "hund"]),
        ("en_XX $A </s>", ["<pad>", "en_XX", "der", "hund"]),
        ("$A", ["<pad>", "der", "hund"]),
    ],
)
def test_whole_target_is_read_without_what_the_tokenizer_puts_at_its_end(
    template: str, expected: list[str]
) -> None:
    encoded = TextTokenizer(tokenizer(template)).encode("der hund")
    shifted = shift_right(encoded, 0, "<pad>", whole=True)
    assert [token.token for token in shifted.tokens] == expected
    assert [token.index for token in shifted.tokens] == list(range(len(expected)))
    assert [word.text for word in shifted.words] == ["der", "hund"]
    assert shifted.notes == ()
