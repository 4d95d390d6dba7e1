"""Layers, heads, queries and keys as users name them."""

from __future__ import annotations

import unicodedata

import pytest

from attncli.errors import UsageProblem
from attncli.model.load import Model
from attncli.selection import Heads, choose_heads, find_occurrences, find_tokens, parse_indexes
from attncli.tokenize import TextTokenizer
from tests.toys import byte_level, metaspace, word_tokenizer


@pytest.mark.parametrize(
    ("text", "indexes"),
    [
        ("3", (3,)),
        ("-1", (5,)),
        ("0-2", (0, 1, 2)),
        ("4,0,4", (0, 4)),
        ("1-2,-1", (1, 2, 5)),
        ("-2--1", (4, 5)),
        ("2--1", (2, 3, 4, 5)),
        (" all ", (0, 1, 2, 3, 4, 5)),
    ],
)
def test_indexes_ranges_and_negatives_resolve(text: str, indexes: tuple[int, ...]) -> None:
    assert parse_indexes(text, 6, "layer") == indexes


@pytest.mark.parametrize("text", ["6", "-7", "0-6", "99999999"])
def test_index_out_of_range_names_the_option_and_the_valid_range(text: str) -> None:
    with pytest.raises(UsageProblem, match=rf"--layer {text}: .*0 to 5.*-1 to -6"):
        parse_indexes(text, 6, "layer")


@pytest.mark.parametrize("text", ["", "x", "1.5", "1-", "²", "0x1", "1 2", ",", "9" * 40])
def test_other_spellings_are_refused(text: str) -> None:
    with pytest.raises(UsageProblem, match="expected a number"):
        parse_indexes(text, 6, "layer")


def test_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(UsageProblem, match="ends before it begins"):
        parse_indexes("3-1", 6, "layer")


def test_layer_and_head_in_one_name() -> None:
    assert choose_heads(None, "3.1", 6, 12) == Heads((3,), (1,))
    assert choose_heads(None, "-1.-2", 6, 12) == Heads((5,), (10,))
    assert choose_heads("-3", "3.1", 6, 12) == Heads((3,), (1,))


def test_layer_that_contradicts_the_head_is_refused() -> None:
    with pytest.raises(UsageProblem, match=r"--layer 2 and --head 3\.1"):
        choose_heads("2", "3.1", 6, 12)


def test_each_part_of_a_layer_and_head_has_its_own_range() -> None:
    with pytest.raises(UsageProblem, match=r"layers are 0 to 5"):
        choose_heads(None, "6.1", 6, 12)
    with pytest.raises(UsageProblem, match=r"heads are 0 to 11"):
        choose_heads(None, "1.12", 6, 12)


@pytest.mark.parametrize(
    ("layer", "head", "said"),
    [
        (None, None, "max over all layers and heads"),
        ("3", "1", "L3 H1"),
        ("0-2,5", None, "max over L0-2,5, all heads"),
        (None, "1,3", "max over all layers, H1,3"),
    ],
)
def test_selection_is_described_in_words(layer: str | None, head: str | None, said: str) -> None:
    assert choose_heads(layer, head, 6, 12, "max").describe(6, 12) == said


def test_word_finds_all_its_occurrences_and_an_ordinal_one_of_them(minilm: Model) -> None:
    encoded = minilm.encode("the dog saw the cat")
    assert find_tokens(encoded, "the", "query") == (1, 4)
    assert find_tokens(encoded, "the#2", "query") == (4,)
    with pytest.raises(UsageProblem, match=r"2 of 'the', so #1 to #2"):
        find_tokens(encoded, "the#3", "query")
    with pytest.raises(UsageProblem, match=r"so #1 to #2"):
        find_tokens(encoded, "the#0", "query")


def test_number_is_a_token_index_and_a_number_with_ordinal_a_word(minilm: Model) -> None:
    encoded = minilm.encode("I ate 2 of 12 jam")
    assert find_tokens(encoded, "2", "query") == (2,)
    assert find_tokens(encoded, "2#1", "query") == (3,)
    assert find_tokens(encoded, "-1", "query") == (7,)
    with pytest.raises(UsageProblem, match=r"--key 8: valid tokens are 0 to 7"):
        find_tokens(encoded, "8", "key")


def test_typed_hash_sign_is_found_before_it_is_read_as_an_ordinal(minilm: Model) -> None:
    encoded = minilm.encode("C#2 and C")
    assert find_tokens(encoded, "C#2", "query") == (1, 2, 3)


def test_word_of_several_pieces_and_a_phrase_give_all_their_tokens(minilm: Model) -> None:
    encoded = minilm.encode("an unbelievableness was there")
    pieces = tuple(t.index for t in encoded.tokens if t.word == 1)
    assert len(pieces) > 1
    assert find_tokens(encoded, "unbelievableness", "query") == pieces
    assert find_tokens(encoded, "unbelievableness was", "query") == (*pieces, pieces[-1] + 1)


def test_special_token_is_found_by_its_name(minilm: Model) -> None:
    encoded = minilm.encode("the dog")
    assert find_tokens(encoded, "[CLS]", "key") == (0,)
    assert find_tokens(encoded, "[SEP]", "key") == (3,)


def test_case_is_kept_apart_where_the_model_does_and_not_where_it_does_not(minilm: Model) -> None:
    cased = TextTokenizer(word_tokenizer(["[UNK]", "Jam", "jam"])).encode("Jam jam")
    assert find_tokens(cased, "jam", "query") == (1,)
    assert find_tokens(cased, "JAM", "query") == (0, 1)
    assert find_tokens(minilm.encode("Jam jam"), "jam", "query") == (1, 2)


@pytest.mark.parametrize(("typed", "asked"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_composed_and_decomposed_accents_find_each_other(typed: str, asked: str) -> None:
    encoded = byte_level().encode(unicodedata.normalize(typed, "a café"))
    found = find_tokens(encoded, unicodedata.normalize(asked, "café"), "query")
    assert found == encoded.tokens_by_word()[1]


def test_words_with_and_without_leading_space_mark_are_both_found() -> None:
    encoded = byte_level(("d", "o"), ("do", "g"), ("Ġ", "dog")).encode("dog dog")
    assert [t.token for t in encoded.tokens] == ["dog", "Ġdog"]
    assert find_tokens(encoded, "dog", "query") == (0, 1)


def test_word_of_an_unspaced_script_is_found_without_the_lone_space_mark() -> None:
    encoded = metaspace("▁", "東京", "は").encode("東京は")
    assert find_tokens(encoded, "東京", "query") == (1,)


def test_missing_word_lists_the_words_and_suggests_a_close_one(minilm: Model) -> None:
    with pytest.raises(UsageProblem) as caught:
        find_tokens(minilm.encode("the question was hard"), "qestion", "query")
    assert "--query qestion" in str(caught.value)
    assert "the question was hard" in str(caught.value)
    assert "Did you mean question?" in str(caught.value)


def test_part_of_a_word_is_no_occurrence(minilm: Model) -> None:
    assert find_occurrences(minilm.encode("the theory"), "the") == [(1,)]
    assert find_occurrences(minilm.encode("the theory"), " ") == []
