"""What a comparison is made of: occurrences of a word, pairs of them, what each reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attncli._shapes import Float
from attncli.selection import By
from attncli.words import same_form

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Occurrence:
    """The word at one place."""

    text: int
    """Number of the text it stands in."""
    word: str
    """As typed there."""
    tokens: tuple[int, ...]
    start: int
    end: int

    @property
    def key(self) -> str:
        """What all occurrences of the same word have in common: letter case and spaces aside."""
        return " ".join(same_form(self.word).casefold().split())


@dataclass(frozen=True, slots=True)
class Pair:
    """Two occurrences of the same word."""

    a: int
    b: int
    cosine: Float[Array, " state"]
    baseline: Float[Array, " state"] | None
    """Mean cosine of random pairs of words at that state; None when the sample gives none."""
    top_dimension_share: Float[Array, " state"]


@dataclass(frozen=True, slots=True)
class Anchor:
    """Something each occurrence is compared with."""

    name: str
    """The word, or the word and the sentence that holds it, as typed."""
    cosine: Float[Array, "occurrence state"]


@dataclass(frozen=True, slots=True)
class Reading:
    """How much one occurrence reads from one word of its text."""

    word: int
    """Index of the word in its text; -1 for all special tokens together."""
    text: str
    weight: float
    contribution: float | None
    """None where the engine cannot tell it."""
    measure: float | None = None
    """Rollout or value-zeroing, where one of them is asked for."""


@dataclass(frozen=True, slots=True)
class Change:
    """A key before and after: what the word reads from it in the one text and in the other."""

    a: Reading | None
    b: Reading | None

    @property
    def weight(self) -> float:
        """Weight in b minus weight in a; a key that is missing counts 0."""
        return (self.b.weight if self.b else 0.0) - (self.a.weight if self.a else 0.0)

    @property
    def contribution(self) -> float | None:
        """Contribution in b minus contribution in a; None where they cannot be told."""
        return self._difference("contribution")

    @property
    def measure(self) -> float | None:
        """Change of rollout or value-zeroing; None unless one of them is asked for."""
        return self._difference("measure")

    def by(self, measure: By) -> float:
        """Return the change of a measure, of the weight where the other cannot be told."""
        found = self.contribution if measure == "contribution" else self.measure
        return self.weight if measure == "weight" or found is None else found

    def _difference(self, name: str) -> float | None:
        a, b = (getattr(side, name) if side else 0.0 for side in (self.a, self.b))
        return None if a is None or b is None else b - a


@dataclass(frozen=True, slots=True)
class Aligned:
    """Two words in the same place of two texts; one is None where a text has no match."""

    a: int | None
    b: int | None
    cosine: Float[Array, " state"] | None


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A token of the vocabulary whose input embedding points where a vector does."""

    id: int
    token: str
    """The piece as the vocabulary spells it."""
    label: str
    """How tables show it."""
    cosine: float


def place_names(occurrences: Sequence[Occurrence]) -> list[str]:
    """Name occurrences shortly: A, B, … by text, A.1 and A.2 where a text has two of a word."""
    n = Counter((o.text, o.key) for o in occurrences)
    seen: Counter[tuple[int, str]] = Counter()
    names = []
    for o in occurrences:
        place = (o.text, o.key)
        seen[place] += 1
        name = text_name(o.text)
        names.append(name if n[place] == 1 else f"{name}.{seen[place]}")
    return names


def text_name(number: int) -> str:
    """Name a text: A to Z, then T26, T27, …."""
    return chr(ord("A") + number) if number < 26 else f"T{number}"
