"""Words as the eye sees them, whatever a tokenizer makes of them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.words import same_form, split_words

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
THUMB = "\U0001f44d\U0001f3fd"
GERMANY, FRANCE = "\U0001f1e9\U0001f1ea", "\U0001f1eb\U0001f1f7"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I like jam.", ["I", "like", "jam", "."]),
        ("don't stop", ["don't", "stop"]),
        ("the dogs' bowl", ["the", "dogs", "'", "bowl"]),
        ("l’été", ["l’été"]),
        ("3.14 and 1,000.", ["3.14", "and", "1,000", "."]),
        ("end.Next", ["end", ".", "Next"]),
        ("state-of-the-art", ["state", "-", "of", "-", "the", "-", "art"]),
        ("wait... what?!", ["wait", "...", "what", "?", "!"]),
        ("snake_case", ["snake_case"]),
        ("(jam)", ["(", "jam", ")"]),
        ("x=y+1", ["x", "=", "y", "+", "1"]),
        ("a\u3000b\u00a0c", ["a", "b", "c"]),
    ],
)
def test_words_and_punctuation_come_apart_where_a_reader_would_part_them(
    text: str, words: list[str]
) -> None:
    assert [word.text for word in split_words(text)] == words


def test_decomposed_accent_stays_on_its_letter() -> None:
    text = unicodedata.normalize("NFD", "café crème")
    assert [same_form(word.text) for word in split_words(text)] == ["café", "crème"]


def test_apostrophe_after_a_decomposed_accent_joins_as_after_a_composed_one() -> None:
    composed = "l’été’s"
    decomposed = unicodedata.normalize("NFD", composed)
    assert len(split_words(composed)) == len(split_words(decomposed)) == 1


@pytest.mark.parametrize("emoji", [FAMILY, THUMB, GERMANY, "❤\ufe0f", "1\ufe0f\u20e3"])
def test_emoji_of_several_code_points_is_one_word(emoji: str) -> None:
    assert [word.text for word in split_words(f"a {emoji} b")] == ["a", emoji, "b"]


def test_emoji_typed_together_are_words_of_their_own() -> None:
    assert [w.text for w in split_words(GERMANY + FRANCE)] == [GERMANY, FRANCE]
    assert [w.text for w in split_words("\U0001f600\U0001f601")] == ["\U0001f600", "\U0001f601"]
    assert [w.text for w in split_words(f"so{FAMILY}")] == ["so", FAMILY]


def test_devanagari_signs_do_not_break_a_word() -> None:
    assert [word.text for word in split_words("हिन्दी भाषा")] == ["हिन्दी", "भाषा"]


@given(st.text(max_size=30))
def test_words_are_the_text_without_its_white_space(text: str) -> None:
    words = split_words(text)
    assert all(text[word.start : word.end] == word.text for word in words)
    ends = [0, *(word.end for word in words)]
    assert all(word.start >= end for word, end in zip(words, ends, strict=False))
    assert "".join(word.text for word in words) == "".join(text.split())
