"""The result of `attn inspect`: what each query of a text attends to, ready for any format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attncli._shapes import Float
from attncli.analyses.excess import Telling
from attncli.analyses.sides import Sides
from attncli.analyses.units import Unit
from attncli.numbers import to_json
from attncli.results import (
    Column,
    Label,
    Matrix,
    ModelCard,
    Table,
    count,
    document,
    pair_arrays,
    text_record,
)
from attncli.selection import By, Heads, View
from attncli.tokenize import Encoded

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class TopKey:
    """A key of one query."""

    unit: Unit
    weight: float
    contribution: float | None
    """None where contributions cannot be told."""
    measure: float | None = None
    """Rollout or value-zeroing, the one that was asked for."""


@dataclass(frozen=True, slots=True)
class QueryRow:
    """What one query attends to."""

    unit: Unit
    by_contribution: tuple[TopKey, ...]
    """Non-special keys with the largest contribution, largest first; none where they cannot be
    told."""
    by_weight: tuple[TopKey, ...]
    special_weight: float
    """Weight on all special tokens together, before any is hidden (the largest, if `max`)."""
    telling: Telling | None
    """The head that says most; its key is a unit. None in cross-attention."""
    uniform: float | None = None
    """Weight of each key if the query weighed all that it can see alike (mean over layers); None
    where the engine does not tell what it sees."""
    by_measure: tuple[TopKey, ...] = ()
    """Keys with the largest rollout or value-zeroing, when one of them was asked for."""

    def by(self, by: By) -> tuple[TopKey, ...]:
        """Return the keys with the largest of a measure."""
        if by == "weight":
            return self.by_weight
        return self.by_contribution if by == "contribution" else self.by_measure


@dataclass(frozen=True, slots=True)
class Inspection:
    """The result of `attn inspect` for one text, or one source and its target."""

    card: ModelCard
    sides: Sides
    """Which attention it is, and the texts of rows and columns."""
    heads: Heads
    view: View
    query_units: tuple[Unit, ...]
    """All rows; tokens, unless words are merged or specials folded or hidden."""
    key_units: tuple[Unit, ...]
    """All columns; the same as the rows unless they are another text."""
    queries: tuple[int, ...]
    """Units that are shown as rows."""
    keys: tuple[int, ...]
    """Units that are shown as columns."""
    weights: Float[Array, "query key"]
    """Attention weights of the head, or their mean or maximum over the chosen heads."""
    contributions: Float[Array, "query key"] | None
    """Shares of each row, see reduction.py; None where the engine cannot tell values."""
    scores: Float[Array, "query key"] | None
    """Scaled scores before the softmax, masked -inf; only of a single head, token by token."""
    measure: Float[Array, "query key"] | None
    """Rollout or value-zeroing, the one that orders keys; None for the other measures."""
    rows: tuple[QueryRow, ...]
    shift: Float[Array, "token state"]
    """Cosine of each token of the rows' text to its own state 0, at every state."""
    notes: tuple[str, ...]
    line: int | None = None
    has_sink: bool = False
    """A learned sink takes a share of each row of the chosen layers that no key gets."""
    by_head: dict[str, Array] = field(default_factory=dict)
    """Matrices of every chosen head, [layer, head, query, key], only when asked for."""

    @property
    def encoded(self) -> Encoded:
        """The user's text."""
        return self.sides.source

    @property
    def units(self) -> tuple[Unit, ...]:
        """All rows, which are all columns too unless those are another text."""
        return self.query_units

    @property
    def random(self) -> bool:
        """True when the weights mean nothing."""
        return self.card.random

    def headline(self) -> str:
        """Say in one line which model read what, and what is shown."""
        shown = self.heads.describe(self.card.layers, self.card.heads)
        n_queries, n_keys = len(self.sides.queries.tokens), len(self.sides.keys.tokens)
        if self.sides.is_cross:
            tokens = f"{count(n_queries, 'target token')} and {count(n_keys, 'source token')}"
        elif self.sides.target is not None:
            tokens = count(n_queries, "target token")
        else:
            tokens = f"{n_queries} tokens{'' if self.encoded.pair is None else ' of two texts'}"
        card = self.card.headline(reads_source=self.sides.is_cross)
        return f"{card} · {tokens} · {shown}"

    def record(self) -> dict[str, Any]:
        """Return the JSON document (schema attn.inspect)."""
        line = {} if self.line is None else {"line": self.line}
        selection = {
            "attention": self.sides.attention,
            "layers": list(self.heads.layers),
            "heads": list(self.heads.heads),
            "reduce": None if self.heads.single else self.heads.reduce,
            **self.view.record(),
        }
        return {
            **document("inspect", self.card),
            **line,
            **text_record(self.sides.source),
            "target": self._target_record(),
            "selection": selection,
            **(self._units_record(self.key_units) if self.sides.keys is self.encoded else {}),
            "queries": list(self.queries),
            "keys": list(self.keys),
            "scores": None if self.scores is None else to_json(self.scores),
            "weights": to_json(self.weights),
            "contributions": None if self.contributions is None else to_json(self.contributions),
            **({} if self.measure is None else {self._measure_name: to_json(self.measure)}),
            "top": [self._top_record(row) for row in self.rows],
            "shift": [
                {"token": index, "cosine": values}
                for index, values in enumerate(to_json(self.shift))
            ],
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table | Matrix]:
        """Return what people read: scores and weights of a head, top keys, shift."""
        from attncli.analyses.inspection_tables import tables

        return tables(self)

    def tidy(self) -> Table:
        """Return one line for each query and key."""
        # which text of a pair each stands in
        pair = self.encoded.pair is not None
        columns = [
            Column("query", "int"),
            Column("query_text", "label"),
            *([Column("query_part", "int")] if pair else []),
            Column("key", "int"),
            Column("key_text", "label"),
            *([Column("key_part", "int")] if pair else []),
            Column("weight", "fraction"),
            Column("contribution", "fraction"),
            Column("score", "number"),
        ]
        if self.measure is not None:
            columns.append(Column(self._measure_name, "fraction"))
        rows = []
        for i, query in enumerate(self.queries):
            for j, key in enumerate(self.keys):
                score = None if self.scores is None else float(self.scores[i, j])
                units = self.query_units[query], self.key_units[key]
                of_query, of_key = (
                    [unit.index, _label(unit), *([unit.part] if pair else [])] for unit in units
                )
                share = None if self.contributions is None else float(self.contributions[i, j])
                numbers = float(self.weights[i, j]), share, score
                more = [] if self.measure is None else [float(self.measure[i, j])]
                rows.append((*of_query, *of_key, *numbers, *more))
        return Table("inspect", "", columns, rows)

    def arrays(self) -> dict[str, Array]:
        """Return matrices of the reduction and, as weights_by_head etc., of every chosen head."""
        scores = {} if self.scores is None else {"scores": self.scores}
        shares = {} if self.contributions is None else {"contributions": self.contributions}
        source, target = self.sides.source, self.sides.target
        texts = _text_arrays("", source, self.key_units if self.sides.keys is source else None)
        if target is not None:
            texts |= _text_arrays("target_", target, self.query_units)
        return {
            **texts,
            "queries": np.array(self.queries),
            "keys": np.array(self.keys),
            "layers": np.array(self.heads.layers),
            "heads": np.array(self.heads.heads),
            "weights": self.weights,
            **shares,
            **scores,
            **({} if self.measure is None else {self._measure_name: self.measure}),
            **{f"{name}_by_head": values for name, values in self.by_head.items()},
            "shift": self.shift,
            "random": np.array(self.card.random),
        }

    @property
    def _measure_name(self) -> str:
        return self.view.by.replace("-", "_")

    @property
    def _plain(self) -> bool:
        """True when rows and columns are the tokens themselves."""
        return not self.view.words and self.view.special == "show"

    def _units_record(self, units: tuple[Unit, ...]) -> dict[str, Any]:
        return {} if self._plain else {"units": [unit.record() for unit in units]}

    def _target_record(self) -> dict[str, Any] | None:
        if self.sides.target is None:
            return None
        return {**text_record(self.sides.target), **self._units_record(self.query_units)}

    def _top_record(self, row: QueryRow) -> dict[str, Any]:
        telling = row.telling
        return {
            "query": row.unit.index,
            "text": row.unit.text,
            "keys": [
                {
                    "key": key.unit.index,
                    "text": key.unit.text,
                    "weight": to_json(key.weight),
                    "contribution": None if key.contribution is None else to_json(key.contribution),
                    **({} if key.measure is None else {self._measure_name: to_json(key.measure)}),
                }
                for key in row.by(self.view.by)
            ],
            "special_weight": to_json(row.special_weight),
            "uniform_weight": None if row.uniform is None else to_json(row.uniform),
            "telling": None
            if telling is None
            else {
                "layer": telling.layer,
                "head": telling.head,
                "key": telling.key,
                "text": self.key_units[telling.key].text,
                "weight": to_json(telling.weight),
                "excess": to_json(telling.excess),
            },
        }


def _label(unit: Unit) -> Label:
    return Label(unit.text, unit.special, unit.index)


def _text_arrays(prefix: str, text: Encoded, units: tuple[Unit, ...] | None) -> dict[str, Array]:
    """Return the arrays that describe a text; its units only where it is rows or columns."""
    arrays = {
        f"{prefix}tokens": np.array([token.token for token in text.tokens]),
        f"{prefix}ids": np.array(text.ids),
    }
    arrays |= pair_arrays(text)
    if units is not None:
        arrays[f"{prefix}units"] = np.array([unit.text for unit in units])
    return arrays
