"""Text from users and model files made safe and visible for people.

Control characters, bidirectional overrides and invisible characters are shown escaped, so that
no text can move the cursor, colour the screen or reorder a line. JSON keeps the exact text.
"""

from __future__ import annotations

import unicodedata

from attncli.tokenize import SECOND_TEXT, Token

_SHOWN = {"\n": "\u23ce", "\r": "\u240d", "\t": "\u21e5", "\u00a0": "\u2423"}
_JOINERS = "\u200c\u200d"


def display(text: str) -> str:
    """Return the text with everything escaped that a terminal would act on or not show."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(text, at) for at in range(len(text)))


def token_label(token: Token, previous: Token | None = None) -> str:
    """Return how tables show a token: what the user typed there, pieces of a word marked.

    A piece that continues a word begins with "##" (as WordPiece spells it) or "·"; bytes of a
    character that is spread over several tokens are shown as <0xF0>. Tokens of the second text of
    a pair are marked behind.
    """
    return marked(_own_label(token, previous), token.part)


def marked(label: str, part: int | None) -> str:
    """Return a label that says when it is of the second text of a pair."""
    return label + SECOND_TEXT if part == 1 else label


def _own_label(token: Token, previous: Token | None) -> str:
    if previous is not None and previous.part != token.part:
        # spans of another text say nothing about this one
        previous = None
    if token.special:
        return display(token.token)
    shares = previous is not None and token.start < previous.end and token.text and previous.text
    if _is_partial(token) or shares:
        return _as_bytes(token.token) or display(token.text)
    text = token.text.strip(" ")
    if not text:
        return "\u2423" if not token.text.strip("\u2581\u0120 ") else display(token.text)
    continues = previous is not None and token.word is not None and token.word == previous.word
    if token.token.startswith("##") and continues:
        return "##" + display(text)
    return ("\u00b7" if continues else "") + display(text)


def quoted(label: str) -> str:
    """Return a label that stands before a number; a lone mark in quotes, since ". .12" misleads."""
    speaks = any(char.isalnum() for char in label.removesuffix(SECOND_TEXT))
    return label if speaks else f"'{label}'"


def vocabulary_label(id_: int, piece: str | None, surface: str | None, *, special: bool) -> str:
    """Return how tables show a token of the vocabulary: spaces that it brings as "␣".

    Args:
        id_: shown as #ID where the vocabulary has no such token (a padded row of the table).
        piece: the token as the vocabulary spells it.
        surface: what it adds to a text; None for parts of a character.
        special: it is a control token.
    """
    if piece is None:
        return f"#{id_}"
    if special:
        return display(piece)
    if surface is None:
        return display(piece) if piece.isascii() else _as_bytes(piece) or display(piece)
    if not surface or piece.startswith("##"):
        return display(piece)
    marked = piece[0] in "\u0120\u2581 "
    shown = surface if marked or not surface.strip() else surface.lstrip(" ")
    core = shown.strip(" ")
    before = len(shown) - len(shown.lstrip(" "))
    after = len(shown) - before - len(core) if core else 0
    return "\u2423" * before + display(core) + "\u2423" * after


def labels(tokens: tuple[Token, ...]) -> list[str]:
    """Return the labels of all tokens of a text."""
    before = (None, *tokens[:-1])
    return [token_label(token, previous) for token, previous in zip(tokens, before, strict=True)]


def _visible(text: str, at: int) -> str:
    char = text[at]
    if char in _SHOWN:
        return _SHOWN[char]
    if char in _JOINERS and 0 < at < len(text) - 1:
        return char
    category = unicodedata.category(char)
    if (category[0] == "C" and category != "Co") or category in ("Zl", "Zp"):
        return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"
    if category == "Zs" and char != " ":
        return "\u2423"
    # a mark with nothing before it would stick to the neighbouring column
    return "\u25cc" + char if category == "Mn" and at == 0 else char


def _is_partial(token: Token) -> bool:
    """True when a byte-level piece holds bytes that are no whole characters."""
    raw = _bytes_of(token.token)
    if raw is None or token.token.isascii():
        return False
    try:
        raw.decode()
    except UnicodeDecodeError:
        return True
    return False


def _as_bytes(piece: str) -> str:
    raw = _bytes_of(piece)
    return "".join(f"<0x{byte:02X}>" for byte in raw) if raw is not None else ""


def _bytes_of(piece: str) -> bytes | None:
    """Undo the byte-level spelling of GPT-2's vocabulary; None when the piece is not spelled so."""
    try:
        return bytes(_BYTE_OF[char] for char in piece)
    except KeyError:
        return None


def _byte_alphabet() -> dict[str, int]:
    """Printable bytes stand for themselves, the others for code points from 256 on."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    moved = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {
        chr(256 + i): byte for i, byte in enumerate(moved)
    }


_BYTE_OF = _byte_alphabet()
