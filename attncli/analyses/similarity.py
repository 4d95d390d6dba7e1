"""How alike many vectors are: over all pairs, without making the pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli._shapes import Float
from attncli.numbers import to_json

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class SelfSimilarity:
    """How alike a word stays over all its places."""

    word: str
    n: int
    """Places."""
    cosine: Float[Array, " state"]
    """Mean cosine over all pairs of places."""
    baseline: Float[Array, " state"] | None
    """Mean cosine of random pairs of words; None when the sample gives none."""

    @property
    def adjusted(self) -> Float[Array, " state"] | None:
        """The mean cosine minus the baseline; None without one."""
        return None if self.baseline is None else self.cosine - self.baseline

    def record(self) -> dict[str, Any]:
        """Return the JSON form."""
        baseline, adjusted = self.baseline, self.adjusted
        return {
            "word": self.word,
            "occurrences": self.n,
            "cosine": to_json(self.cosine),
            "baseline": None if baseline is None else to_json(baseline),
            "adjusted": None if adjusted is None else to_json(adjusted),
        }


@dataclass(frozen=True, slots=True)
class Similarity:
    """The cosines of all occurrences to each other at one state."""

    state: int
    name: str
    """Name of the state, such as L5."""
    matrix: Float[Array, "occurrence occurrence"]

    def record(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"state": self.name, "matrix": to_json(self.matrix)}


def self_similarity(vectors: Float[Array, "occurrence state d"]) -> Float[Array, " state"]:
    """Return the mean cosine over all pairs of occurrences, at each state.

    With u the vectors divided by their lengths, Σ_{a≠b} cos(a, b) = |Σ u|² - Σ |u|², so
    SelfSim = (|Σ u|² - n) / (n² - n): n vectors are added up, and no pair is made. A vector of
    zeros has cosine 0 to every other, and takes part with |u|² = 0.

    Source: Ethayarajh 2019, section 3.2 (SelfSim).
    """
    n, n_states = vectors.shape[:2]
    found = np.empty(n_states, np.float32)
    for state in range(n_states):
        units = unit_vectors(vectors[:, state].astype(np.float64))
        total = units.sum(axis=0)
        found[state] = (total @ total - np.einsum("nd,nd->", units, units)) / (n * n - n)
    return np.clip(found, -1, 1)


def cosine_matrix(vectors: Float[Array, "row d"]) -> Float[Array, "row row"]:
    """Return the cosine of every vector to every other, -1…1; 0 to a vector of zeros."""
    units = unit_vectors(vectors.astype(np.float64))
    return np.clip(units @ units.T, -1, 1).astype(np.float32)


def unit_vectors(vectors: Float[Array, "row d"]) -> Float[Array, "row d"]:
    """Divide each vector by its length; a vector of zeros stays."""
    lengths = np.sqrt(np.einsum("rd,rd->r", vectors, vectors))[:, None]
    found: Array = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return found


def group_similarities(
    words: Sequence[str],
    groups: Sequence[Sequence[int]],
    vectors: Float[Array, "occurrence state d"],
    baseline: Float[Array, " state"] | None,
) -> tuple[SelfSimilarity, ...]:
    """Return the self-similarity of each word that stands at two places or more.

    Args:
        words: of each occurrence.
        groups: numbers of the occurrences of each word.
        vectors: of each occurrence.
        baseline: mean cosine of random pairs.
    """
    return tuple(
        SelfSimilarity(words[group[0]], len(group), self_similarity(vectors[list(group)]), baseline)
        for group in groups
        if len(group) > 1
    )
