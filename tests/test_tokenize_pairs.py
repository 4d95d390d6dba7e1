"""Pairs of texts: which text a token, a span and a word belong to, on tokenizers made here."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.processors import RobertaProcessing

from attncli.analyses.units import make_units
from attncli.display import labels
from attncli.errors import InputProblem, UsageProblem
from attncli.model.load import Model
from attncli.selection import View, find_occurrences, find_tokens
from attncli.tokenize import SECOND_TEXT, Encoded, TextTokenizer
from tests.toys import byte_level, metaspace, word_tokenizer

DOGS = TextTokenizer(word_tokenizer())


def pair() -> Encoded:
    """Return [CLS] the dog sees [SEP] a cat sees dog [SEP]."""
    return DOGS.encode("the dog sees", "a cat  sees dog")


def test_tokens_say_which_text_they_stand_in_and_which_type_they_read() -> None:
    tokens = pair().tokens
    assert [t.part for t in tokens] == [None, 0, 0, 0, None, 1, 1, 1, 1, None]
    assert [t.type for t in tokens] == [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert [(t.start, t.end) for t in tokens[5:9]] == [(0, 1), (2, 5), (7, 11), (12, 15)]


def test_words_are_numbered_through_both_texts() -> None:
    encoded = pair()
    assert [(w.text, w.part) for w in encoded.words][2:5] == [("sees", 0), ("a", 1), ("cat", 1)]
    assert encoded.tokens_by_word() == [(1,), (2,), (3,), (5,), (6,), (7,), (8,)]


def test_words_without_a_token_are_left_out_of_either_text(minilm: Model) -> None:
    # BERT's normaliser deletes U+0007
    encoded = minilm.encode("the \u0007 dog", "\u0007 a \u0007 cat")
    assert [(w.text, w.part) for w in encoded.words] == [
        ("the", 0),
        ("dog", 0),
        ("a", 1),
        ("cat", 1),
    ]
    assert encoded.tokens_by_word() == [(1,), (2,), (4,), (5,)]


def test_one_text_is_encoded_as_before() -> None:
    encoded = DOGS.encode("the dog")
    assert encoded.pair is None
    assert encoded.types == [0, 0, 0, 0]
    assert encoded.notes == ()
    assert labels(encoded.tokens) == ["[CLS]", "the", "dog", "[SEP]"]


def test_ordinal_counts_over_both_texts() -> None:
    assert find_tokens(pair(), "sees", "query") == (3, 7)
    assert find_tokens(pair(), "dog#2", "query") == (8,)
    with pytest.raises(UsageProblem, match="the texts have 2 of 'dog'"):
        find_tokens(pair(), "dog#3", "query")


def test_phrase_does_not_run_from_one_text_into_the_other() -> None:
    assert find_occurrences(pair(), "cat sees") == [(6, 7)]
    assert find_occurrences(pair(), "sees a") == []


@pytest.mark.parametrize("wanted", ["東", "京東"])
def test_unspaced_text_is_found_within_one_text_only(wanted: str) -> None:
    encoded = metaspace("▁", "東", "京", "は").encode("東京", "東は")
    expected = {"東": [(1,), (4,)], "京東": []}[wanted]
    assert find_occurrences(encoded, wanted) == expected


def test_labels_mark_the_second_text_and_pieces_do_not_continue_the_first() -> None:
    encoded = byte_level().encode("ab", "cd")
    assert labels(encoded.tokens) == ["a", "·b", "c²", "·d²"]
    assert SECOND_TEXT in encoded.notes[0]


def test_bytes_of_an_emoji_in_the_second_text_are_shown_as_bytes() -> None:
    encoded = byte_level().encode("abcd", "\U0001f600")
    assert labels(encoded.tokens)[4:] == [f"<0x{byte:02X}>²" for byte in "\U0001f600".encode()]


def test_merged_words_and_folded_specials_keep_the_texts_apart() -> None:
    units = make_units(pair(), View(words=True, special="fold"))
    assert [unit.label for unit in units] == [
        *("the", "dog", "sees", "a²", "cat²", "sees²", "dog²"),
        "[specials]",
    ]
    assert [unit.part for unit in units] == [0, 0, 0, 1, 1, 1, 1, None]
    assert units[-1].tokens == (0, 4, 9)


def test_typed_control_token_stands_in_its_text() -> None:
    typed = DOGS.encode("the", "a [SEP] cat").tokens[4]
    assert (typed.token, typed.part, typed.start, typed.added) == ("[SEP]", 1, 2, False)


def test_types_are_what_the_tokenizer_gives() -> None:
    tokenizer = word_tokenizer()
    tokenizer.post_processor = RobertaProcessing(("[SEP]", 2), ("[CLS]", 1))
    encoded = TextTokenizer(tokenizer).encode("the dog", "a")
    assert [t.part for t in encoded.tokens] == [None, 0, 0, None, None, 1, None]
    assert encoded.types == [0] * 7


def test_texts_with_nothing_between_are_said_to_be_read_as_one() -> None:
    (_, note) = byte_level().encode("a", "b").notes
    assert "nothing between the two texts" in note
    assert len(pair().notes) == 1


def test_text_of_which_no_token_is_left_is_named(minilm: Model) -> None:
    (note,) = minilm.encode("the dog", "\u0007").notes
    assert note.startswith("the second text has no token")


@pytest.mark.parametrize(
    ("text", "part"),
    [("", r"second text \(--pair\) is empty"), (" \t", "only white"), ("\ud800", "surrogate")],
)
def test_second_text_that_cannot_be_encoded_is_an_input_problem(text: str, part: str) -> None:
    with pytest.raises(InputProblem, match=part):
        DOGS.encode("the dog", text)


def test_word_outside_the_vocabulary_is_named_from_either_text() -> None:
    with pytest.raises(InputProblem, match="zebra"):
        TextTokenizer(word_tokenizer(["the", "dog"])).encode("the dog", "dog zebra")


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=15)


@given(TEXTS, TEXTS)
def test_spans_and_words_of_any_pair_point_into_their_own_text(
    minilm: Model, first: str, second: str
) -> None:
    for tokenizer in (minilm.tokenizer, byte_level(("Ġ", "a"))):
        try:
            encoded = tokenizer.encode(first, second)
        except InputProblem:
            assert not first.strip() or not second.strip()
            continue
        alone = [tokenizer.encode(text) for text in (first, second)]
        for part, (text, own) in enumerate(zip((first, second), alone, strict=True)):
            tokens = [t for t in encoded.tokens if t.part == part]
            assert [(t.id, t.text, t.start, t.end) for t in tokens] == [
                (t.id, t.text, t.start, t.end) for t in own.tokens if t.part == 0
            ]
            assert [w.text for w in encoded.words if w.part == part] == [w.text for w in own.words]
            for token in tokens:
                assert token.text in ("", text[token.start : token.end])
                if token.word is not None:
                    word = encoded.words[token.word]
                    assert word.part == part
                    assert text[word.start : word.end] == word.text
                    assert max(word.start, token.start) < min(word.end, token.end)
        assert all(t.part is not None or t.added for t in encoded.tokens)
