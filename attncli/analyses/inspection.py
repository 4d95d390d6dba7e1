"""The result of `attn inspect`: what each query of one text attends to, ready for any format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attncli._shapes import Float
from attncli.analyses.columns import state_columns
from attncli.analyses.excess import Telling
from attncli.analyses.units import Unit
from attncli.display import display, labels, quoted
from attncli.numbers import format_fraction, to_json
from attncli.results import (
    Column,
    Label,
    Matrix,
    ModelCard,
    Share,
    Table,
    document,
    text_record,
)
from attncli.selection import Heads, View
from attncli.tokenize import Encoded

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class TopKey:
    """A key of one query."""

    unit: Unit
    weight: float
    contribution: float


@dataclass(frozen=True, slots=True)
class QueryRow:
    """What one query attends to."""

    unit: Unit
    by_contribution: tuple[TopKey, ...]
    """Non-special keys with the largest contribution, largest first."""
    by_weight: tuple[TopKey, ...]
    special_weight: float
    """Share of the weight on special tokens, before any of them is hidden."""
    telling: Telling | None
    """The head that says most; its key is a unit."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """The result of `attn inspect` for one text."""

    card: ModelCard
    encoded: Encoded
    heads: Heads
    view: View
    units: tuple[Unit, ...]
    """All rows and columns; tokens, unless words are merged or specials folded or hidden."""
    queries: tuple[int, ...]
    """Units that are rows."""
    keys: tuple[int, ...]
    """Units that are columns."""
    weights: Float[Array, "query key"]
    """Attention weights of the head, or their mean or maximum over the chosen heads."""
    contributions: Float[Array, "query key"]
    """Shares of each row, see reduction.py."""
    scores: Float[Array, "query key"] | None
    """Scaled scores before the softmax, masked -inf; only of a single head, token by token."""
    rows: tuple[QueryRow, ...]
    shift: Float[Array, "token state"]
    """Cosine of each token to its own state 0, at every state."""
    notes: tuple[str, ...]
    line: int | None = None
    has_sink: bool = False
    """A learned sink takes a share of each row of the chosen layers that no key gets."""
    by_head: dict[str, Array] = field(default_factory=dict)
    """Matrices of every chosen head, [layer, head, query, key], only when asked for."""

    @property
    def random(self) -> bool:
        """True when the weights mean nothing."""
        return self.card.random

    def headline(self) -> str:
        """Say in one line which model read what, and what is shown."""
        shown = self.heads.describe(self.card.layers, self.card.heads)
        return f"{self.card.headline()} · {len(self.encoded.tokens)} tokens · {shown}"

    def record(self) -> dict[str, Any]:
        """Return the JSON document (schema attn.inspect)."""
        units = {} if self._plain else {"units": [unit.record() for unit in self.units]}
        line = {} if self.line is None else {"line": self.line}
        selection = {
            "layers": list(self.heads.layers),
            "heads": list(self.heads.heads),
            "reduce": None if self.heads.single else self.heads.reduce,
            **self.view.record(),
        }
        return {
            **document("inspect", self.card),
            **line,
            **text_record(self.encoded),
            "selection": selection,
            **units,
            "queries": list(self.queries),
            "keys": list(self.keys),
            "scores": None if self.scores is None else to_json(self.scores),
            "weights": to_json(self.weights),
            "contributions": to_json(self.contributions),
            "top": [self._top_record(row) for row in self.rows],
            "shift": [
                {"token": index, "cosine": values}
                for index, values in enumerate(to_json(self.shift))
            ],
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table | Matrix]:
        """Return what people read: scores and weights of a head, top keys, shift."""
        if len(self.queries) == 1:
            return [self._row_table(), self._top_table(), self._shift_table()]
        shown: list[Table | Matrix] = []
        queries = [self.units[i].shown() for i in self.queries]
        keys = [self.units[i].shown() for i in self.keys]
        hint = "--query WORD shows one row, -f csv all numbers"
        if self.scores is not None:
            title = "scores: scaled q·k, before the softmax"
            shown.append(Matrix("scores", title, "score", queries, keys, self.scores, hint=hint))
        title = f"attention weights: fractions{self._sums_note()}"
        shown.append(Matrix("weights", title, "fraction", queries, keys, self.weights, hint=hint))
        return [*shown, self._top_table(), self._shift_table()]

    def tidy(self) -> Table:
        """Return one line for each query and key."""
        columns = [
            Column("query", "int"),
            Column("query_text", "label"),
            Column("key", "int"),
            Column("key_text", "label"),
            Column("weight", "fraction"),
            Column("contribution", "fraction"),
            Column("score", "number"),
        ]
        rows = []
        for i, query in enumerate(self.queries):
            for j, key in enumerate(self.keys):
                score = None if self.scores is None else float(self.scores[i, j])
                rows.append(
                    (
                        query,
                        self._label(query),
                        key,
                        self._label(key),
                        float(self.weights[i, j]),
                        float(self.contributions[i, j]),
                        score,
                    )
                )
        return Table("inspect", "", columns, rows)

    def arrays(self) -> dict[str, Array]:
        """Return matrices of the reduction and, as weights_by_head etc., of every chosen head."""
        scores = {} if self.scores is None else {"scores": self.scores}
        return {
            "tokens": np.array([token.token for token in self.encoded.tokens]),
            "ids": np.array(self.encoded.ids),
            "units": np.array([unit.text for unit in self.units]),
            "queries": np.array(self.queries),
            "keys": np.array(self.keys),
            "layers": np.array(self.heads.layers),
            "heads": np.array(self.heads.heads),
            "weights": self.weights,
            "contributions": self.contributions,
            **scores,
            **{f"{name}_by_head": values for name, values in self.by_head.items()},
            "shift": self.shift,
            "random": np.array(self.card.random),
        }

    @property
    def _plain(self) -> bool:
        """True when rows and columns are the tokens themselves."""
        return not self.view.words and self.view.special == "show"

    def _label(self, unit: int) -> Label:
        return Label(self.units[unit].text, self.units[unit].special, unit)

    def _sums_note(self) -> str:
        if self.heads.reduce == "max" and not self.heads.single:
            return ", largest over the chosen heads (rows do not sum to 1)"
        if len(self.keys) < len(self.units):
            return ", only the chosen keys (rows do not sum to 1)"
        if self.has_sink and self.view.special != "hide":
            return ", rows sum to less than 1 (a learned sink takes the rest)"
        return ", rows sum to 1"

    def _top_record(self, row: QueryRow) -> dict[str, Any]:
        telling = row.telling
        keys = row.by_weight if self.view.by == "weight" else row.by_contribution
        return {
            "query": row.unit.index,
            "text": row.unit.text,
            "keys": [
                {
                    "key": key.unit.index,
                    "text": key.unit.text,
                    "weight": to_json(key.weight),
                    "contribution": to_json(key.contribution),
                }
                for key in keys
            ],
            "special_weight": to_json(row.special_weight),
            "telling": None
            if telling is None
            else {
                "layer": telling.layer,
                "head": telling.head,
                "key": telling.key,
                "text": self.units[telling.key].text,
                "weight": to_json(telling.weight),
                "excess": to_json(telling.excess),
            },
        }

    def _row_table(self) -> Table:
        """One query, read downwards: each key with its numbers."""
        columns = [Column("", "int"), Column("key", "label")]
        if self.scores is not None:
            columns.append(Column("score", "number", "scaled q·k"))
        columns += [
            Column("weight", "fraction", "fraction"),
            Column("weight as a bar", "bar", priority=50),
            Column("contribution", "fraction", "share of the row's output"),
        ]
        rows: list[list[Any]] = []
        for j, key in enumerate(self.keys):
            score = [] if self.scores is None else [float(self.scores[0, j])]
            weight, share = float(self.weights[0, j]), float(self.contributions[0, j])
            rows.append([key, self.units[key].shown(), *score, weight, weight, share])
        query = display(self.units[self.queries[0]].text)
        title = f"from {query}: weights are fractions{self._sums_note()}"
        importance = [float(value) for value in self.weights[0]]
        return Table("row", title, columns, rows, importance, "-f csv has all")

    def _top_table(self) -> Table:
        has_specials = any(token.special for token in self.encoded.tokens)
        columns = [Column("query", "label")]
        if len(self.queries) > 1:
            columns += [
                Column("keys by contribution", "shares", "share of the row's output"),
                Column("keys by weight", "shares", "fraction", priority=60),
            ]
        if has_specials:
            columns.append(Column("sinks", "fraction", "weight on special tokens", priority=80))
        columns.append(Column("telling head", "text", "its weight", priority=90))
        rows, important = [], []
        only_special = all(row.unit.special for row in self.rows)
        for row in self.rows:
            if row.unit.special and not only_special:
                continue
            cells: list[Any] = [row.unit.shown()]
            if len(self.queries) > 1:
                cells += [
                    tuple(Share(key.unit.shown(), key.contribution) for key in row.by_contribution),
                    tuple(Share(key.unit.shown(), key.weight) for key in row.by_weight),
                ]
            if has_specials:
                cells.append(row.special_weight)
            cells.append(_describe_telling(row.telling, self.units))
            rows.append(cells)
            important.append(0.0 if row.telling is None else row.telling.excess)
        title = "what each query attends to (special tokens apart, their share under sinks)"
        if not has_specials:
            title = "what each query attends to"
        if len(self.queries) == 1:
            title = "the head that tells most" + (" and the share of sinks" if has_specials else "")
        return Table(
            "top", title, columns, rows, important, "--query WORD chooses rows, -f json has all"
        )

    def _shift_table(self) -> Table:
        columns = [Column("token", "label")]
        columns += state_columns(self.card.layers, "cosine to the token's own embedding")
        wanted = {token for query in self.queries for token in self.units[query].tokens}
        shown = labels(self.encoded.tokens)
        tokens = [
            t
            for t in self.encoded.tokens
            if t.index in wanted and not (t.special and len(wanted) > 1)
        ]
        rows = [
            [
                Label(shown[token.index], token.special, token.index),
                *map(float, self.shift[token.index]),
            ]
            for token in tokens
        ]
        important = [1 - float(self.shift[token.index, -1]) for token in tokens]
        title = "how far each token moved: cosine to its own embedding, after each layer"
        return Table(
            "shift", title, columns, rows, important, "--query WORD chooses rows, -f json has all"
        )


def _describe_telling(telling: Telling | None, units: Sequence[Unit]) -> str:
    if telling is None:
        return "–"
    key = quoted(units[telling.key].label)
    return f"L{telling.layer} H{telling.head} → {key} {format_fraction(telling.weight)}"
