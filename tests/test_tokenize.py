"""Spans, surface text, specials and words of tokens, on tokenizers made here."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE, WordLevel

from attncli.errors import InputProblem, ModelProblem
from attncli.model.load import Model
from attncli.tokenize import Encoded, TextTokenizer
from tests.toys import byte_level, metaspace, word_tokenizer


def words_of(encoded: Encoded) -> list[str | None]:
    """Return the word of each token."""
    return [None if t.word is None else encoded.words[t.word].text for t in encoded.tokens]


def test_added_specials_have_no_text_and_no_word() -> None:
    encoded = TextTokenizer(word_tokenizer()).encode("the dog")
    assert [t.text for t in encoded.tokens] == ["", "the", "dog", ""]
    assert [t.special for t in encoded.tokens] == [True, False, False, True]
    assert [t.added for t in encoded.tokens] == [True, False, False, True]
    assert words_of(encoded) == [None, "the", "dog", None]


def test_typed_control_token_is_flagged_but_counts_as_typed() -> None:
    encoded = TextTokenizer(word_tokenizer()).encode("the [SEP] dog")
    typed = encoded.tokens[2]
    assert (typed.token, typed.special, typed.added, typed.word) == ("[SEP]", True, False, None)
    assert "[SEP]" in encoded.notes[0]
    assert "--literal-specials" in encoded.notes[0]


def test_literal_specials_reads_control_tokens_as_characters_for_that_text_only() -> None:
    tokenizer = TextTokenizer(word_tokenizer())
    literal = tokenizer.encode("the [SEP] dog", literal_specials=True)
    assert [t.token for t in literal.tokens if t.special] == ["[CLS]", "[SEP]"]
    assert [t.text for t in literal.tokens if not t.special] == ["the", "[", "SEP", "]", "dog"]
    assert sum(t.special for t in tokenizer.encode("the [SEP] dog").tokens) == 3


def test_unknown_word_is_an_ordinary_token_with_a_note() -> None:
    tokenizer = word_tokenizer()
    tokenizer.add_special_tokens(["[UNK]"])
    encoded = TextTokenizer(tokenizer).encode("the zebra")
    zebra = encoded.tokens[2]
    assert (zebra.text, zebra.special, words_of(encoded)[2]) == ("zebra", False, "zebra")
    assert any("zebra" in note for note in encoded.notes)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_word_covers_an_accent_typed_in_one_or_two_code_points(form: str, minilm: Model) -> None:
    text = unicodedata.normalize(form, "the café was")
    encoded = minilm.encode(text)
    word = encoded.words[1]
    assert text[word.start : word.end] == unicodedata.normalize(form, "café")
    assert [t.token for t in encoded.tokens if t.word == 1] == ["cafe"]


def test_pieces_of_one_emoji_belong_to_one_word() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    encoded = byte_level().encode(f"a {family} b")
    assert {word.text for word in encoded.words} == {"a", family, "b"}
    members = [t for t in encoded.tokens if t.word == 1 and t.text.strip()]
    assert len(members) == len(family.encode())


def test_leading_space_belongs_to_the_piece_and_not_to_the_word() -> None:
    encoded = byte_level(("d", "o"), ("do", "g"), ("Ġ", "dog")).encode("dog dog")
    assert [t.text for t in encoded.tokens] == ["dog", " dog"]
    assert words_of(encoded) == ["dog", "dog"]
    assert [(w.start, w.end) for w in encoded.words] == [(0, 3), (4, 7)]


def test_lone_space_mark_before_a_cjk_word_has_no_text_and_no_word() -> None:
    encoded = metaspace("▁", "東京", "は").encode("東京は")
    mark = encoded.tokens[0]
    assert (mark.token, mark.text, mark.word) == ("▁", "", None)
    assert [t.text for t in encoded.tokens[1:]] == ["東京", "は"]


def test_typed_spaces_of_their_own_token_keep_their_text() -> None:
    encoded = byte_level(("Ġ", "Ġ")).encode("a   b")
    assert [t.text for t in encoded.tokens] == ["a", "  ", " ", "b"]
    assert words_of(encoded) == ["a", None, None, "b"]


def test_words_invented_by_a_normaliser_do_not_exist() -> None:
    # NFKC writes the one character ㍿ as four, and ½ as three
    tokenizer = word_tokenizer(["[UNK]", "株", "式", "会", "社", "1", "2", "the"])
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    encoded = TextTokenizer(tokenizer).encode("㍿ ½")
    assert [word.text for word in encoded.words] == ["㍿", "½"]
    assert {t.text for t in encoded.tokens if t.word == 0} == {"㍿"}
    assert sum(t.word == 0 for t in encoded.tokens) == 4


def test_words_without_a_token_are_left_out_and_the_rest_renumbered(minilm: Model) -> None:
    # BERT's normaliser deletes U+0007
    encoded = minilm.encode("the \u0007 dog")
    assert [word.text for word in encoded.words] == ["the", "dog"]
    assert encoded.tokens_by_word() == [(1,), (2,)]


def test_padding_and_truncation_of_a_tokenizer_file_are_switched_off(tmp_path: Path) -> None:
    tokenizer = word_tokenizer()
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    encoded = TextTokenizer.from_file(tmp_path / "tokenizer.json").encode("the dog sees a cat")
    assert [t.text for t in encoded.tokens] == ["", "the", "dog", "sees", "a", "cat", ""]


def test_lower_casing_is_noticed() -> None:
    plain, lower = word_tokenizer(), word_tokenizer()
    lower.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    assert not TextTokenizer(plain).encode("the").lowercased
    assert TextTokenizer(lower).encode("the").lowercased


def test_vocab_size_counts_added_tokens() -> None:
    tokenizer = word_tokenizer()
    before = TextTokenizer(tokenizer).vocab_size
    tokenizer.add_tokens([AddedToken("quux")])
    assert TextTokenizer(tokenizer).vocab_size == before + 1


@pytest.mark.parametrize(
    ("text", "part"),
    [("", "empty"), (" \t\n\u3000", "only white space"), ("a \ud800 b", "lone surrogate")],
)
def test_text_that_cannot_be_encoded_is_an_input_problem(text: str, part: str) -> None:
    with pytest.raises(InputProblem, match=part):
        TextTokenizer(word_tokenizer()).encode(text)


@pytest.mark.parametrize(
    "model", [WordLevel({"the": 0}, unk_token="[UNK]"), BPE({"the": 0}, [])], ids=["words", "bpe"]
)
def test_text_outside_a_vocabulary_without_unknown_token_is_an_input_problem(
    model: WordLevel | BPE,
) -> None:
    with pytest.raises(InputProblem, match="vocabulary"):
        TextTokenizer(Tokenizer(model)).encode("zebra")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"null", b"\xff\xfe", json.dumps({"model": {"type": "X"}}).encode()]
)
def test_unusable_tokenizer_file_is_a_one_line_model_problem(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(ModelProblem) as caught:
        TextTokenizer.from_file(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_tokenizer_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelProblem, match=r"tokenizer\.json: cannot be read"):
        TextTokenizer.from_file(tmp_path / "tokenizer.json")


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=25))
def test_any_text_gives_spans_within_it_and_words_that_overlap_their_tokens(
    minilm: Model, text: str
) -> None:
    for tokenizer in (minilm.tokenizer, byte_level(("Ġ", "a"))):
        try:
            encoded = tokenizer.encode(text)
        except InputProblem:
            assert not text.strip()
            continue
        for token in encoded.tokens:
            assert 0 <= token.start <= token.end <= len(text)
            if token.word is not None:
                word = encoded.words[token.word]
                assert max(word.start, token.start) < min(word.end, token.end)
        assert all(encoded.tokens_by_word())


def decoding(tokenizer: Tokenizer, decoder: decoders.Decoder) -> TextTokenizer:
    tokenizer.decoder = decoder
    return TextTokenizer(tokenizer)


def test_surface_of_a_token_keeps_its_leading_space() -> None:
    byte = BPE({"\u0120": 0, "a": 1, "\u0120a": 2, "\u00f0": 3}, [("\u0120", "a")])
    found = decoding(Tokenizer(byte), decoders.ByteLevel())
    assert [found.surface(i) for i in range(5)] == [" ", "a", " a", None, None]
    pieces = Tokenizer(WordLevel({"\u2581a": 0, "b": 1}, unk_token="b"))
    found = decoding(pieces, decoders.Metaspace())
    assert [found.surface(i) for i in range(2)] == [" a", "b"]
    words = Tokenizer(WordLevel({"a": 0, "##b": 1, ".": 2}, unk_token="a"))
    found = decoding(words, decoders.WordPiece())
    assert [found.surface(i) for i in range(3)] == [" a", "b", "."]


@pytest.mark.parametrize(
    ("specials", "mask"),
    [
        (["[CLS]", "[MASK]"], "[MASK]"),
        (["<s>", "<mask>"], "<mask>"),
        (["<|mask|>"], "<|mask|>"),
        (["[CLS]", "[MASKED]"], None),
        (["[MASK]", "<mask>"], None),
    ],
)
def test_mask_is_found_among_control_tokens(specials: list[str], mask: str | None) -> None:
    tokenizer = Tokenizer(WordLevel({"mask": 0}, unk_token="mask"))
    tokenizer.add_special_tokens(specials)
    assert TextTokenizer(tokenizer).mask == mask
