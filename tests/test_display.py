"""What people see of tokens: safe, visible, and true to what was typed."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.display import display, labels, vocabulary_label
from attncli.model.load import Model
from tests.toys import byte_level, metaspace


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("jam", "jam"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("a\u202eb", "a\\u202eb"),
        ("a\nb\tc", "a⏎b⇥c"),
        ("\ufeffa", "\\ufeffa"),
        ("a\u2028b\u2029c", "a\\u2028b\\u2029c"),
        ("\ue000", "\ue000"),
        ("a\u00a0b\u2003c", "a␣b␣c"),
        ("\u0301", "◌\u0301"),
        ("e\u0301", "e\u0301"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\ue0041"),
    ],
)
def test_what_a_terminal_would_act_on_or_hide_is_escaped(text: str, shown: str) -> None:
    assert display(text) == shown


def test_joiner_inside_an_emoji_stays_and_a_lone_one_is_escaped() -> None:
    assert display("\U0001f468\u200d\U0001f469") == "\U0001f468\u200d\U0001f469"
    assert display("\u200d") == "\\u200d"


@given(st.text(max_size=20))
def test_nothing_shown_can_move_the_cursor_or_fail_to_print(text: str) -> None:
    shown = display(text)
    shown.encode()
    inner = shown.replace("\u200c", "").replace("\u200d", "")
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp") for c in inner)


def test_pieces_that_continue_a_word_are_marked(minilm: Model) -> None:
    encoded = minilm.encode("unbelievableness was")
    shown = labels(encoded.tokens)
    assert shown[0] == "[CLS]"
    assert not shown[1].startswith("##")
    assert all(label.startswith("##") for label in shown[2:-2])
    assert shown[-2] == "was"


def test_labels_keep_the_case_that_was_typed(minilm: Model) -> None:
    assert labels(minilm.encode("The JAM").tokens) == ["[CLS]", "The", "JAM", "[SEP]"]


def test_typed_hash_marks_are_no_continuation(minilm: Model) -> None:
    assert labels(minilm.encode("##ing").tokens)[1:-1] == ["#", "·#", "ing"]


def test_byte_level_pieces_show_text_without_their_space_mark() -> None:
    tokenizer = byte_level(("d", "o"), ("do", "g"), ("Ġ", "dog"), ("Ġ", "s"))
    assert labels(tokenizer.encode("dog dogs so").tokens) == ["dog", "dog", "·s", "s", "·o"]


def test_bytes_of_a_split_character_are_shown_as_bytes() -> None:
    assert labels(byte_level().encode("é").tokens) == ["<0xC3>", "<0xA9>"]
    shown = labels(byte_level().encode("\U0001f600").tokens)
    assert shown == ["<0xF0>", "<0x9F>", "<0x98>", "<0x80>"]


def test_whole_non_ascii_character_in_one_piece_is_shown_as_itself() -> None:
    assert labels(byte_level(("Ã", "©")).encode("aé").tokens) == ["a", "·é"]


def test_lone_space_mark_is_visible() -> None:
    assert labels(metaspace("▁", "東京").encode("東京").tokens) == ["␣", "東京"]


@pytest.mark.parametrize(
    ("piece", "surface", "special", "shown"),
    [
        ("\u0120jam", " jam", False, "␣jam"),
        ("\u2581jam", " jam", False, "␣jam"),
        ("jam", "jam", False, "jam"),
        # a vocabulary of words or of WordPiece marks no spaces
        ("jam", " jam", False, "jam"),
        ("##s", "s", False, "##s"),
        ("\u010a", "\n", False, "⏎"),
        ("\u0120", " ", False, "␣"),
        ("\u2581\u2581", "  ", False, "␣␣"),
        ("\u2581a\u2581", " a ", False, "␣a␣"),
        # parts of a character, in either spelling
        ("\u00f0\u0141", None, False, "<0xF0><0x9F>"),
        ("<0xF0>", None, False, "<0xF0>"),
        ("[unused1]", "[unused1]", False, "[unused1]"),
        ("</s>", " </s>", True, "</s>"),
        ("a\x1b[31m", "a\x1b[31m", False, "a\\x1b[31m"),
        ("x", "", False, "x"),
        (None, None, False, "#7"),
    ],
)
def test_token_of_the_vocabulary_shows_the_space_it_brings(
    piece: str | None, surface: str | None, special: bool, shown: str
) -> None:
    assert vocabulary_label(7, piece, surface, special=special) == shown
