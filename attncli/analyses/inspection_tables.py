"""The tables of `attn inspect`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attncli.analyses.columns import state_columns
from attncli.analyses.excess import Telling
from attncli.analyses.inspection import Inspection, QueryRow
from attncli.analyses.units import Unit
from attncli.display import display, labels, marked, quoted
from attncli.numbers import format_fraction
from attncli.results import Column, Label, Matrix, Share, Table
from attncli.selection import By

MATRIX_HINT = "--query WORD shows one row, -f csv all numbers"
ROWS_HINT = "--query WORD chooses rows, -f json has all"
MEANING: dict[By, str] = {
    "weight": "fraction",
    "contribution": "share of the row's output",
    "rollout": "share of the input, through all layers below",
    "value-zeroing": "share of what the state turns without the key's value",
}
MOST_SIDE_BY_SIDE = 4
"""Chosen queries that are read downwards, each in a column of its own."""


def tables(result: Inspection) -> list[Table | Matrix]:
    """Return the tables in reading order: scores and weights of a head, top keys, shift."""
    shown: list[Table | Matrix] = []
    if len(result.queries) == 1:
        shown.append(_row(result))
    elif len(result.queries) <= MOST_SIDE_BY_SIDE < len(result.query_units):
        shown.append(_rows_side_by_side(result))
    else:
        if result.scores is not None:
            title = "scores: scaled q·k, before the softmax"
            shown.append(_matrix(result, "scores", title, "score", result.scores))
        name, title, values = "weights", "attention weights: fractions", result.weights
        if result.measure is not None:
            name, values = result.view.by.replace("-", "_"), result.measure
            title = f"{result.view.by}: {MEANING[result.view.by]}"
        title += _sums_note(result, of_weights=result.measure is None)
        shown.append(_matrix(result, name, title, "fraction", _unseen_masked(result, values)))
    top = _top(result)
    return [*shown, *([top] if len(top.columns) > 1 else []), _shift(result)]


def _matrix(result: Inspection, name: str, title: str, unit: str, values: Any) -> Matrix:
    queries = [result.query_units[i].shown() for i in result.queries]
    keys = [result.key_units[i].shown() for i in result.keys]
    sides = "rows query, columns key"
    if result.sides.is_cross:
        sides = "rows query in the target text, columns key in the source text"
    shading = result.view.shade
    return Matrix(
        name, title, unit, queries, keys, values, hint=MATRIX_HINT, sides=sides, shading=shading
    )


def _unseen_masked(result: Inspection, values: np.ndarray) -> np.ndarray:
    """Put -inf where a causal model cannot see: a 0 there would read as a choice."""
    if not result.card.causal or result.sides.is_cross:
        return values
    last = np.array([max(result.query_units[query].tokens) for query in result.queries])
    first = np.array([min(result.key_units[key].tokens) for key in result.keys])
    return np.where(first[None, :] > last[:, None], -np.inf, values)


def _sums_note(result: Inspection, *, of_weights: bool = True) -> str:
    if of_weights and result.heads.reduce == "max" and not result.heads.single:
        return ", largest over the chosen heads (rows do not sum to 1)"
    if len(result.keys) < len(result.key_units):
        return ", only the chosen keys (rows do not sum to 1)"
    if of_weights and result.has_sink and result.view.special != "hide":
        return ", rows sum to less than 1 (a learned sink takes the rest)"
    return ", rows sum to 1"


def _row(result: Inspection) -> Table:
    """One query, read downwards: each key with its numbers."""
    name = "key in the source" if result.sides.is_cross else "key"
    columns = [Column("", "int"), Column(name, "label")]
    if result.scores is not None:
        columns.append(Column("score", "number", "scaled q·k"))
    columns += [
        Column("weight", "fraction", "fraction"),
        Column("weight as a bar", "bar", priority=50),
    ]
    if result.contributions is not None:
        columns.append(Column("contribution", "fraction", "share of the row's output"))
    if result.measure is not None:
        columns.append(Column(result.view.by, "fraction", MEANING[result.view.by]))
    rows: list[list[Any]] = []
    for j, key in enumerate(result.keys):
        score = [] if result.scores is None else [float(result.scores[0, j])]
        weight = float(result.weights[0, j])
        share = [] if result.contributions is None else [float(result.contributions[0, j])]
        share += [] if result.measure is None else [float(result.measure[0, j])]
        unit = result.key_units[key]
        rows.append([unit.tokens[0], unit.shown(), *score, weight, weight, *share])
    chosen = result.query_units[result.queries[0]]
    query = marked(display(chosen.text.strip()), chosen.part)
    where = " in the target text" if result.sides.is_cross else ""
    title = f"from “{query}”{where}: weights are fractions{_sums_note(result)}"
    importance = [float(value) for value in result.weights[0]]
    return Table("row", title, columns, rows, importance, "the largest weights", "-f csv has all")


def _rows_side_by_side(result: Inspection) -> Table:
    """A few queries, read downwards: the weight of each key in a column a query."""
    name = "key in the source" if result.sides.is_cross else "key"
    queries = [result.query_units[query] for query in result.queries]
    columns = [Column("", "int"), Column(name, "label")]
    columns += [
        Column(f"{unit.tokens[0]} {unit.label}", "fraction", "fraction") for unit in queries
    ]
    values, title, which = result.weights, "attention weights: fractions", "the largest weights"
    if result.measure is not None:
        values, which = result.measure, f"the largest {result.view.by}"
        title = f"{result.view.by}: {MEANING[result.view.by]}"
    rows = [
        [unit.tokens[0], unit.shown(), *map(float, values[:, j])]
        for j, unit in ((j, result.key_units[key]) for j, key in enumerate(result.keys))
    ]
    importance = [float(value) for value in values.max(axis=0)]
    sums = _sums_note(result, of_weights=result.measure is None)
    title = f"{title}{sums} · one column a query".replace("rows sum", "columns sum")
    return Table("rows", title, columns, rows, importance, which, "-f csv has all")


def _top(result: Inspection) -> Table:
    """Each query with its top keys, the share of sinks and the telling head, where there is one."""
    cross, several = result.sides.is_cross, len(result.queries) > 1
    measures = _measures(result)
    uniform = result.card.causal and not cross and result.rows[0].uniform is not None
    has_specials = any(token.special for token in result.sides.keys.tokens)
    # where words repeat, their place tells them apart
    numbered = len({row.unit.label for row in result.rows}) < len(result.rows)
    columns = [Column("", "int")] if numbered else []
    columns.append(Column("query", "label"))
    if several:
        keys = "source keys" if cross else "keys"
        # the measure that was asked for stands first and stays longest
        columns += [
            Column(f"{keys} by {by}", "shares", MEANING[by], priority=60 if at else 100)
            for at, by in enumerate(measures)
        ]
    if has_specials:
        columns.append(Column("sinks", "fraction", "weight on special tokens", priority=80))
    if uniform:
        columns.append(Column("1/n", "fraction", "weight of each key it sees, if all alike", 2, 55))
    if not cross:
        columns.append(Column("telling head", "text", "its weight", priority=90))
    rows, important = [], []
    only_special = all(row.unit.special for row in result.rows)
    for row in result.rows:
        if row.unit.special and not only_special:
            continue
        cells: list[Any] = [row.unit.tokens[0], row.unit.shown()][not numbered :]
        if several:
            cells += [_shares(row, by) for by in measures]
        if has_specials:
            cells.append(row.special_weight)
        if uniform:
            cells.append(row.uniform)
        if not cross:
            cells.append(_describe_telling(row.telling, result.key_units))
        rows.append(cells)
        best = row.by_weight[0].weight if cross and row.by_weight else 0.0
        important.append(best if row.telling is None else row.telling.excess)
    title = _top_title(cross=cross, several=several, has_specials=has_specials)
    which = "the most telling heads" if not cross else "the largest weights"
    return Table("top", title, columns, rows, important, which, ROWS_HINT)


def _measures(result: Inspection) -> list[By]:
    """Return the measures whose top keys are listed: the one asked for first."""
    known: list[By] = ["contribution", "weight"] if result.contributions is not None else ["weight"]
    return [result.view.by, *(by for by in known if by != result.view.by)]


def _shares(row: QueryRow, by: By) -> tuple[Share, ...]:
    value = {"weight": "weight", "contribution": "contribution"}.get(by, "measure")
    return tuple(Share(key.unit.shown(), getattr(key, value)) for key in row.by(by))


def _top_title(*, cross: bool, several: bool, has_specials: bool) -> str:
    if several:
        what = "target token reads in the source" if cross else "query attends to"
        apart = " (special tokens apart, their share under sinks)" if has_specials else ""
        return f"what each {what}{apart}"
    if cross:
        return "the share of sinks"
    return "the head that tells most" + (" and the share of sinks" if has_specials else "")


def _shift(result: Inspection) -> Table:
    columns = [Column("", "int"), Column("token", "label")]
    columns += state_columns(result.card.layers, "cosine to the token's own embedding")
    text = result.sides.queries
    wanted = {token for query in result.queries for token in result.query_units[query].tokens}
    shown = labels(text.tokens)
    tokens = [t for t in text.tokens if t.index in wanted and not (t.special and len(wanted) > 1)]
    rows = [
        [token.index, Label(shown[token.index], token.special), *map(float, cosines)]
        for token, cosines in ((token, result.shift[token.index]) for token in tokens)
    ]
    # the same rows as of the table before, where not all fit
    telling = {
        token: row.telling.excess
        for row in result.rows
        if row.telling is not None
        for token in row.unit.tokens
    }
    important = [telling.get(token.index, 0.0) for token in tokens]
    which = "token" if result.sides.target is None else "target token"
    title = f"how far each {which} moved: cosine to its own embedding, after each layer"
    chosen = "the most telling heads"
    return Table("shift", title, columns, rows, important, chosen, ROWS_HINT)


def _describe_telling(telling: Telling | None, units: Sequence[Unit]) -> str:
    if telling is None:
        return "–"
    key = quoted(units[telling.key].label)
    return f"L{telling.layer} H{telling.head} → {key} {format_fraction(telling.weight)}"
