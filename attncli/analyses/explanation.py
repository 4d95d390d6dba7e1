"""The result of `attn explain`: one row of attention step by step, ready for any format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli._shapes import Float
from attncli.analyses.sides import Sides
from attncli.display import display
from attncli.numbers import format_fraction, to_json
from attncli.results import Column, Label, ModelCard, Table, document, text_record

Array = np.ndarray

STRIP = 6
"""Values of a vector that tables show."""


@dataclass(frozen=True, slots=True)
class Vector:
    """A named vector of one step."""

    name: str
    what: str
    """For people: which vector it is."""
    values: Float[Array, " width"]

    @property
    def length(self) -> float:
        """Euclidean length."""
        return float(np.sqrt(np.einsum("d,d->", self.values, self.values)))

    def record(self) -> dict[str, Any]:
        """Return the JSON form, with all values."""
        return {"name": self.name, "length": to_json(self.length), "values": to_json(self.values)}

    def strip(self) -> str:
        """Return the first values, shortly."""
        shown = " ".join(format_fraction(float(value)) for value in self.values[:STRIP])
        return f"{shown} …" if len(self.values) > STRIP else shown


@dataclass(frozen=True, slots=True)
class Number:
    """A named number of one step."""

    name: str
    what: str
    value: float | None
    """None where there is none: the score of a masked key."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A table of one step: one row a dimension, or a key."""

    name: str
    columns: Sequence[Column]
    fields: Sequence[str]
    """Name of each column in JSON."""
    rows: Sequence[Sequence[Any]]
    """All rows, in the order in which they are shown."""
    shown: int
    """Rows that tables show; the rest is in the last of them or in JSON."""
    rest: Sequence[Any] | None = None
    """One row that stands for those that are not shown."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the walk."""

    name: str
    title: str
    sentence: str
    formula: str
    vectors: tuple[Vector, ...] = ()
    numbers: tuple[Number, ...] = ()
    listing: Listing | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result of `attn explain` for one text."""

    card: ModelCard
    sides: Sides
    layer: int
    head: int
    kv_head: int
    query: int
    key: int
    steps: tuple[Step, ...]
    brief: bool
    notes: tuple[str, ...]
    line: int | None = None

    @property
    def random(self) -> bool:
        """True when the weights mean nothing."""
        return self.card.random

    @property
    def names(self) -> tuple[str, str]:
        """Return query and key as tables name them."""
        return _name(self.sides.queries.tokens[self.query]), _name(self.sides.keys.tokens[self.key])

    def headline(self) -> str:
        """Say in one line which row of which head is explained."""
        query, key = self.names
        card = self.card.headline(reads_source=self.sides.is_cross)
        return f"{card} · L{self.layer} H{self.head} · from “{query}” to “{key}”"

    def record(self) -> dict[str, Any]:
        """Return the JSON document (schema attn.explain)."""
        line = {} if self.line is None else {"line": self.line}
        target = self.sides.target
        return {
            **document("explain", self.card),
            **line,
            **text_record(self.sides.source),
            "target": None if target is None else text_record(target),
            "selection": {
                "attention": self.sides.attention,
                "layer": self.layer,
                "head": self.head,
                "kv_head": self.kv_head,
                "query": self.query,
                "key": self.key,
            },
            "steps": [self._step_record(step) for step in self.steps],
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table]:
        """Return what people read: a table or two for each step."""
        shown: list[Table] = []
        for number, step in enumerate(self.steps, 1):
            shown += self._shown(number, step)
        return shown

    def tidy(self) -> Table:
        """Return one line for each number."""
        columns = [
            Column("step"),
            Column("name"),
            Column("index", "int"),
            Column("field"),
            Column("value", "number"),
        ]
        rows: list[tuple[Any, ...]] = []
        for step in self.steps:
            for vector in step.vectors:
                rows += [
                    (step.name, vector.name, at, "value", float(value))
                    for at, value in enumerate(vector.values)
                ]
            for number in step.numbers:
                rows.append((step.name, number.name, None, "value", number.value))
            if step.listing is not None:
                for row in step.listing.rows:
                    for field, value in zip(step.listing.fields, row, strict=True):
                        if isinstance(value, float):
                            rows.append((step.name, step.listing.name, row[0], field, value))
        return Table("explain", "", columns, rows)

    def arrays(self) -> dict[str, Array]:
        """Return every vector as STEP/NAME, and every column of numbers of a list likewise."""
        found: dict[str, Array] = {
            "query": np.array(self.query),
            "key": np.array(self.key),
            "layer": np.array(self.layer),
            "head": np.array(self.head),
            "random": np.array(self.card.random),
        }
        for step in self.steps:
            for vector in step.vectors:
                found[f"{step.name}/{vector.name}"] = vector.values
            for number in step.numbers:
                value = -np.inf if number.value is None else number.value
                found[f"{step.name}/{number.name}"] = np.array(value)
            if step.listing is not None:
                for at, field in enumerate(step.listing.fields):
                    column = [-np.inf if row[at] is None else row[at] for row in step.listing.rows]
                    if all(isinstance(value, int | float) for value in column):
                        found[f"{step.name}/{step.listing.name}/{field}"] = np.array(column)
        return found

    def _step_record(self, step: Step) -> dict[str, Any]:
        listing = step.listing
        return {
            "name": step.name,
            "title": step.title,
            "sentence": step.sentence,
            "formula": step.formula,
            "vectors": [vector.record() for vector in step.vectors],
            "numbers": {
                number.name: None if number.value is None else to_json(number.value)
                for number in step.numbers
            },
            **({} if listing is None else {"list": _list_record(listing)}),
        }

    def _shown(self, number: int, step: Step) -> list[Table]:
        title = f"{number} · {step.title}"
        text = () if self.brief else (step.sentence, step.formula)
        found = []
        if step.vectors:
            columns = [
                Column("vector"),
                Column("width", "int", priority=60),
                Column("length", "number", "Euclidean"),
                Column("first values", priority=50),
            ]
            rows = [[v.what, len(v.values), v.length, v.strip()] for v in step.vectors]
            found.append(Table(f"{step.name}.vectors", title, columns, rows, text=text))
        listing = step.listing
        if listing is not None:
            rows = [list(row) for row in listing.rows[: listing.shown]]
            rows += [] if listing.rest is None else [list(listing.rest)]
            first = not found
            found.append(
                Table(
                    f"{step.name}.{listing.name}",
                    title if first else "",
                    listing.columns,
                    rows,
                    text=text if first else (),
                )
            )
        if step.numbers:
            first = not found
            found.append(
                Table(
                    f"{step.name}.numbers",
                    title if first else "",
                    [Column("number"), Column("value", "number", digits=3)],
                    [[number.what, number.value] for number in step.numbers],
                    text=text if first else (),
                )
            )
        return found


def _list_record(listing: Listing) -> dict[str, Any]:
    return {
        "name": listing.name,
        "rows": [
            {
                field: value.text if isinstance(value, Label) else _json(value)
                for field, value in zip(listing.fields, row, strict=True)
            }
            for row in listing.rows
        ],
        **(
            {}
            if listing.rest is None
            else {
                "rest": {
                    field: _json(value)
                    for field, value in zip(listing.fields, listing.rest, strict=True)
                    if isinstance(value, float)
                }
            }
        ),
    }


def _json(value: Any) -> Any:
    return to_json(value) if isinstance(value, float) else value


def _name(token: Any) -> str:
    return display(token.text.strip() or token.token)
