"""Rows and columns of a result: tokens, or words, with special tokens shown, folded or hidden.

Merging rule: the weight to a word is the sum over its pieces, the weight from a word the mean
over its pieces, so rows still sum to 1. Source: Clark et al. 2019, section 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli._shapes import Float
from attncli.display import display, labels, marked
from attncli.results import Label
from attncli.selection import Special, View
from attncli.tokenize import Encoded

Array = np.ndarray

FOLDED = "[specials]"


@dataclass(frozen=True, slots=True)
class Unit:
    """One row or column."""

    index: int
    text: str
    """Exact text, as typed (the piece itself for a special token)."""
    label: str
    """How tables show it."""
    tokens: tuple[int, ...]
    special: bool
    part: int | None = 0
    """Text it stands in, as of its tokens."""

    def shown(self) -> Label:
        """Return the label for tables, numbered as -q takes it: by its first token."""
        return Label(self.label, self.special, self.tokens[0])

    def record(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "index": self.index,
            "text": self.text,
            "tokens": list(self.tokens),
            "special": self.special,
        }


def make_units(encoded: Encoded, view: View) -> list[Unit]:
    """Return all units of a text, in reading order; folded specials stand last.

    With `special="hide"` the special tokens have no unit.
    """
    shown = labels(encoded.tokens)
    groups: list[tuple[str, str, tuple[int, ...], bool, int | None]] = []
    of_word = encoded.tokens_by_word()
    for token, label in zip(encoded.tokens, shown, strict=True):
        if token.special and view.special != "show":
            continue
        if view.words and token.word is not None:
            members = of_word[token.word]
            if token.index == members[0]:
                text = encoded.words[token.word].text
                label = marked(display(text), token.part)
                groups.append((text, label, members, False, token.part))
        else:
            text = token.token if token.special else token.text
            groups.append((text, label, (token.index,), token.special, token.part))
    specials = tuple(token.index for token in encoded.tokens if token.special)
    if view.special == "fold" and specials:
        groups.append((FOLDED, FOLDED, specials, True, None))
    return [Unit(i, *group) for i, group in enumerate(groups)]


def merge_keys(
    values: Float[Array, "row token"], units: Sequence[Unit]
) -> Float[Array, "row unit"]:
    """Sum the columns of each unit's tokens."""
    if _is_identity(units, values.shape[1]):
        return values
    owner = np.zeros((values.shape[1], len(units)), np.float32)
    for place, unit in enumerate(units):
        owner[list(unit.tokens), place] = 1
    return values @ owner


def merge_queries(
    values: Float[Array, "row key"], rows: Sequence[int], units: Sequence[Unit]
) -> Float[Array, "unit key"]:
    """Average the rows of each unit's tokens; `rows` says which token each row belongs to."""
    place = {token: at for at, token in enumerate(rows)}
    merged = [values[[place[token] for token in unit.tokens]].mean(axis=0) for unit in units]
    return np.stack(merged) if merged else values[:0]


def renormalise(values: Float[Array, "... key"]) -> Float[Array, "... key"]:
    """Scale each row to sum to 1; a row of zeros stays as it is."""
    total = values.sum(axis=-1, keepdims=True)
    return np.divide(values, total, out=np.zeros_like(values), where=total > 0)


def describe_specials(special: Special, *, rescaled: bool) -> str:
    """Say what was done to special tokens, or nothing when they are shown."""
    hidden = "special tokens hidden"
    return {
        "show": "",
        "fold": "special tokens folded into one",
        "hide": f"{hidden}, rows scaled to sum to 1 again" if rescaled else hidden,
    }[special]


def _is_identity(units: Sequence[Unit], n: int) -> bool:
    return len(units) == n and all(unit.tokens == (i,) for i, unit in enumerate(units))
