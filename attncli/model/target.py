"""What the decoder of an encoder-decoder reads of a target text: its tokens, one place later.

A decoder learns to give token i of the target after it has read the start token and tokens
0 to i - 1, so the last token of the target (mostly the end of the text) is never read.
Reference: `shift_tokens_right` and `_shift_right` in the modeling files of transformers.
"""

from __future__ import annotations

from dataclasses import replace

from attncli.tokenize import Encoded, Token


def shift_right(target: Encoded, start: int, piece: str, *, whole: bool = False) -> Encoded:
    """Return a target as its decoder reads it.

    Args:
        target: the encoded target, with the special tokens of its tokenizer.
        start: id of the token that stands first.
        piece: that token as the vocabulary spells it.
        whole: read all of the text, without what the tokenizer puts at its end: what follows is
            then the token after the text.
    """
    read = target.tokens[:-1]
    if whole:
        read = target.tokens
        while read and read[-1].added:
            read = read[:-1]
    first = Token(0, start, piece, "", 0, 0, special=True, word=None, part=None)
    moved = [replace(token, index=token.index + 1) for token in read]
    kept = sorted({token.word for token in moved if token.word is not None})
    number = {old: new for new, old in enumerate(kept)}
    renumbered = [
        token if token.word is None else replace(token, word=number[token.word]) for token in moved
    ]
    last = target.tokens[-1]
    notes = list(target.notes)
    if not last.special and not whole:
        notes.append(f"the decoder never reads the last token, here {last.text!r}")
    return replace(
        target,
        tokens=(first, *renumbered),
        words=tuple(target.words[old] for old in kept),
        notes=tuple(notes),
    )
