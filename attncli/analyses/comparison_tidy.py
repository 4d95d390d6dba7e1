"""The numbers of `attn compare` as one long table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from attncli.analyses.columns import state_names
from attncli.results import Column, Table

if TYPE_CHECKING:
    from attncli.analyses.comparison import Comparison

Row = tuple[Any, ...]


def tidy(comparison: Comparison) -> Table:
    """Return one line for each pair, or occurrence and anchor or neighbour, and state.

    The matrix of similarities comes as the pairs on one side of its diagonal.
    """
    columns = [
        Column("kind"),
        Column("a", "int"),
        Column("b"),
        Column("word"),
        Column("state"),
        Column("cosine", "cosine"),
        Column("baseline", "cosine"),
        Column("adjusted", "cosine"),
        Column("top_dimension_share", "fraction"),
    ]
    rows = [
        *_pairs(comparison),
        *_words(comparison),
        *_matrix(comparison),
        *_anchors(comparison),
        *_neighbours(comparison),
    ]
    return Table("compare", "", columns, rows)


def _pairs(comparison: Comparison) -> Iterator[Row]:
    for pair in comparison.pairs:
        word = comparison.occurrences[pair.a].word
        for i, name in enumerate(state_names(comparison.card.layers)):
            base = None if pair.baseline is None else float(pair.baseline[i])
            cosine = float(pair.cosine[i])
            adjusted = None if base is None else cosine - base
            share = float(pair.top_dimension_share[i])
            yield "pair", pair.a, pair.b, word, name, cosine, base, adjusted, share


def _words(comparison: Comparison) -> Iterator[Row]:
    for word in comparison.self_similarity:
        adjusted = word.adjusted
        for i, name in enumerate(state_names(comparison.card.layers)):
            base = None if word.baseline is None else float(word.baseline[i])
            over = None if adjusted is None else float(adjusted[i])
            cosine = float(word.cosine[i])
            yield "self-similarity", None, None, word.word, name, cosine, base, over, None


def _matrix(comparison: Comparison) -> Iterator[Row]:
    made = comparison.similarity
    if made is None:
        return
    for a, occurrence in enumerate(comparison.occurrences):
        for b in range(a + 1, len(comparison.occurrences)):
            cosine = float(made.matrix[a, b])
            yield "similarity", a, b, occurrence.word, made.name, cosine, None, None, None


def _anchors(comparison: Comparison) -> Iterator[Row]:
    for anchor in comparison.anchors:
        for at, values in enumerate(anchor.cosine):
            word = comparison.occurrences[at].word
            for name, value in zip(state_names(comparison.card.layers), values, strict=True):
                yield "anchor", at, anchor.name, word, name, float(value), None, None, None


def _neighbours(comparison: Comparison) -> Iterator[Row]:
    for at, states in enumerate(comparison.neighbours):
        word = comparison.occurrences[at].word
        for name, found in zip(state_names(comparison.card.layers), states, strict=True):
            for near in found:
                yield "neighbour", at, near.token, word, name, near.cosine, None, None, None
