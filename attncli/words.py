"""Words as the eye sees them in the typed text, independent of any tokenizer.

White space separates words and punctuation marks stand alone, except an apostrophe between
letters and a point or comma between digits. Combining marks, joiners and emoji sequences stay
whole. A tokenizer's own word numbers are not used: they count pieces that a normaliser made up,
and split accents that were typed as two code points.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

_CHUNK = re.compile(r"\S+")
_APOSTROPHES = "'\u2019\u02bc"
_ZERO_WIDTH_JOINER = "\u200d"


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a text."""

    text: str
    start: int
    """First code point in the text."""
    end: int
    """One past the last code point."""
    part: int = 0
    """Text it stands in: 1 for the second of a pair."""


def split_words(text: str) -> list[Word]:
    """Return the words of a text in order."""
    words: list[Word] = []
    for chunk in _CHUNK.finditer(text):
        if chunk[0].isalnum():
            words.append(Word(chunk[0], chunk.start(), chunk.end()))
        else:
            words += _split_chunk(chunk[0], chunk.start())
    return words


def same_form(text: str) -> str:
    """Return the form under which accents typed in one or two code points are equal."""
    return unicodedata.normalize("NFC", text)


def _split_chunk(chunk: str, offset: int) -> list[Word]:
    words: list[Word] = []
    start, previous = 0, ""
    for at, char in enumerate(chunk):
        kind = _kind(chunk, at)
        if at and not _continues(kind, previous, chunk, at):
            words.append(Word(chunk[start:at], offset + start, offset + at))
            start = at
        # a mark belongs to what it stands on and does not change what that is
        previous = (
            previous
            if kind == "mark" and at
            else f"punctuation{char}"
            if kind == "punctuation"
            else kind
        )
    words.append(Word(chunk[start:], offset + start, offset + len(chunk)))
    return words


def _continues(kind: str, previous: str, chunk: str, at: int) -> bool:
    if kind == "mark":
        return True
    if chunk[at - 1] == _ZERO_WIDTH_JOINER:
        return True
    if kind == "letter":
        return previous in ("letter", "mark")
    if kind == "flag":
        return previous == "flag" and _flags_before(chunk, at) % 2 == 1
    return kind == "punctuation" and previous == f"punctuation{chunk[at]}"


def _kind(chunk: str, at: int) -> str:
    char = chunk[at]
    category = unicodedata.category(char)
    if category[0] in "LN" or category == "Pc" or _joins(chunk, at):
        return "letter"
    if category[0] == "M" or category in ("Sk", "Cf"):
        return "mark"
    if "\U0001f1e6" <= char <= "\U0001f1ff":
        return "flag"
    return "symbol" if category == "So" else "punctuation"


def _joins(chunk: str, at: int) -> bool:
    """An apostrophe between letters, a point or comma between digits."""
    if not 0 < at < len(chunk) - 1:
        return False
    before, after = chunk[at - 1], chunk[at + 1]
    if chunk[at] in _APOSTROPHES:
        return (before.isalpha() or unicodedata.category(before) == "Mn") and after.isalpha()
    return chunk[at] in ".," and before.isdigit() and after.isdigit()


def _flags_before(chunk: str, at: int) -> int:
    count = 0
    while at > count and "\U0001f1e6" <= chunk[at - 1 - count] <= "\U0001f1ff":
        count += 1
    return count
