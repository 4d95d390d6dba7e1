"""Two texts, or what two places read, word by word."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

import numpy as np

from attncli._shapes import Float
from attncli.analyses.baseline import word_states
from attncli.analyses.comparison_parts import Aligned, Change, Occurrence, Reading
from attncli.analyses.gather import Reader
from attncli.analyses.reduction import cosine
from attncli.analyses.units import make_units, merge_keys
from attncli.selection import View
from attncli.tokenize import Encoded

Array = np.ndarray

ALIKE = 0.5
"""Texts are shown side by side when at least this part of their words is shared, in order."""


def readings_of(text: Encoded, reader: Reader) -> list[Reading]:
    """Return what an occurrence reads from each word, and from the special tokens together."""
    units = make_units(text, View(words=True, special="fold"))

    def merged(rows: Array) -> Array:
        return merge_keys(rows, units).mean(axis=0)

    weights = merged(reader.reduction.weights)
    shares = reader.reduction.contributions
    contributions = None if shares is None else merged(shares)
    measure = None if reader.measuring is None else merged(reader.measuring.shares())
    readings = []
    for i, (unit, weight) in enumerate(zip(units, weights, strict=True)):
        word = text.tokens[unit.tokens[0]].word
        at = -1 if word is None else word
        share = None if contributions is None else float(contributions[i])
        more = None if measure is None else float(measure[i])
        readings.append(Reading(at, unit.text, float(weight), share, more))
    return readings


def changes_between(
    texts: Sequence[Encoded], a: Occurrence, in_a: list[Reading], b: Occurrence, in_b: list[Reading]
) -> tuple[Change, ...]:
    """Pair the keys of two occurrences: same words in the same order, the rest alone."""
    if a.text == b.text:
        return tuple(Change(x, y) for x, y in zip(in_a, in_b, strict=True))
    return tuple(
        Change(None if i is None else in_a[i], None if j is None else in_b[j])
        for i, j in align([r.text for r in in_a], [r.text for r in in_b])
    )


def align(a: Sequence[str], b: Sequence[str]) -> list[tuple[int | None, int | None]]:
    """Align two lists of words; words replaced one for one stand side by side."""
    matcher = SequenceMatcher(
        None, [w.casefold() for w in a], [w.casefold() for w in b], autojunk=False
    )
    rows: list[tuple[int | None, int | None]] = []
    for tag, a0, a1, b0, b1 in matcher.get_opcodes():
        if tag == "equal" or (tag == "replace" and a1 - a0 == b1 - b0 and a1 - a0 <= 3):
            rows += list(zip(range(a0, a1), range(b0, b1), strict=True))
        else:
            rows += [(i, None) for i in range(a0, a1)]
            rows += [(None, j) for j in range(b0, b1)]
    return rows


def side_by_side(
    texts: Sequence[Encoded], stacked: Sequence[Float[Array, "state _ d_model"]]
) -> tuple[Aligned, ...]:
    """Return two texts word by word, with the cosine of each word to its partner.

    Empty when less than ALIKE of the words are shared, in order.
    """
    words = [[word.text for word in text.words] for text in texts]
    rows = align(*words)
    shared = sum(
        i is not None and j is not None and words[0][i].casefold() == words[1][j].casefold()
        for i, j in rows
    )
    if shared < ALIKE * max(map(len, words)):
        return ()
    tokens = [text.tokens_by_word() for text in texts]
    found = []
    for i, j in rows:
        both = None
        if i is not None and j is not None:
            both = cosine(
                word_states(stacked[0], tokens[0][i]), word_states(stacked[1], tokens[1][j])
            )
        found.append(Aligned(i, j, both))
    return tuple(found)
