"""Tables of `attn compare` on many places of a word: self-similarity, matrix, neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attncli.analyses.columns import state_columns, state_names
from attncli.numbers import format_fraction
from attncli.results import Column, Label, Matrix, Share, Table

if TYPE_CHECKING:
    from attncli.analyses.comparison import Comparison

HINT = "--json has all"


def cosine_name(comparison: Comparison) -> str:
    """Say which cosine it is."""
    return "cosine" if comparison.centre is None else "mean-centred cosine"


def self_similarity(comparison: Comparison) -> Table:
    """Return the mean cosine over all pairs of places of each word."""
    words = comparison.self_similarity
    columns = [Column("word", "label"), Column("places", "int"), Column("", priority=95)]
    columns += state_columns(comparison.card.layers, "cosine")
    rows: list[list[Any]] = [
        [Label(word.word), word.n, "mean", *map(float, word.cosine)] for word in words
    ]
    importance = [float(word.n) for word in words]
    if words[0].baseline is not None:
        rows.append([Label(""), "", "random", *map(float, words[0].baseline)])
    if len(words) == 1 and words[0].adjusted is not None:
        rows.append([Label(""), "", "adjusted", *map(float, words[0].adjusted)])
    # what the others are measured by stays
    importance += [float("inf")] * (len(rows) - len(words))
    title = (
        f"self-similarity of a word: {cosine_name(comparison)}, the mean over all pairs of its"
        " places (random: mean of unrelated words, adjusted: what is left)"
    )
    return Table("self_similarity", title, columns, rows, importance, "the most places", HINT)


def similarity(comparison: Comparison, names: Sequence[str]) -> Matrix:
    """Return the cosines of all places to each other at one state.

    Args:
        comparison: the result.
        names: of the occurrences.
    """
    made = comparison.similarity
    assert made is not None
    several = len(comparison.words) > 1
    labels = [
        Label(f"{o.word} {name}" if several else name, index=at)
        for at, (o, name) in enumerate(zip(comparison.occurrences, names, strict=True))
    ]
    title = f"similarity: {cosine_name(comparison)} at {made.name}"
    if comparison.baseline is not None:
        title += f", of unrelated words {format_fraction(float(comparison.baseline[made.state]))}"
    return Matrix(
        "similarity",
        title,
        "cosine",
        labels,
        labels,
        made.matrix,
        hint=HINT,
        sides="rows and columns: places",
        shading="cosine",
    )


def neighbours(comparison: Comparison, names: Sequence[str]) -> Table:
    """Return the tokens that each place is nearest to, state by state.

    Args:
        comparison: the result.
        names: of the occurrences.
    """
    states = state_names(comparison.card.layers)
    # where not all fit, the states that narrow tables keep
    kept = [column.priority for column in state_columns(comparison.card.layers, "")]
    columns = [
        Column("word", "label", priority=80),
        Column("in"),
        Column("state"),
        Column("nearest tokens", "shares"),
    ]
    rows = []
    for o, name, found in zip(comparison.occurrences, names, comparison.neighbours, strict=True):
        for state, near in zip(states, found, strict=True):
            cells = tuple(Share(Label(n.label), n.cosine) for n in near)
            rows.append([Label(o.word), name, state, cells])
    important = [float(priority) for _ in names for priority in kept]
    title = (
        "tokens of the vocabulary nearest to the word's state: cosine to the rows of the input "
        "embedding"
    )
    return Table("neighbours", title, columns, rows, important, "the outermost states", HINT)
