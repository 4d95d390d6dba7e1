"""The result of `attn heads --contrast` and `--swap`: heads ranked by what changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attncli.analyses.head_links import json_or_none
from attncli.analyses.head_measures import describe_choice, head_name
from attncli.display import display
from attncli.numbers import to_json
from attncli.results import Column, ModelCard, Table, document, text_record
from attncli.selection import Heads
from attncli.tokenize import Encoded

Array = np.ndarray

Question = Literal["contrast", "swap"]
RANKED = 12
"""Heads that are listed unasked."""
HINT = "--top, -l and -H choose, -f csv has all"


@dataclass(frozen=True, slots=True)
class HeadChange:
    """One head in two texts."""

    layer: int
    head: int
    weight_a: float
    """From the one word to the other, in the first text; of the pair that changed most where no
    words were given."""
    weight_b: float
    variation: float | None = None
    """Mean total variation of the aligned words' rows; None where words were given."""
    words: tuple[tuple[str, str], tuple[str, str]] | None = None
    """Query and key of the pair that changed most, in each text; None where words were given."""

    @property
    def change(self) -> float:
        """Weight in the second text minus that in the first."""
        return self.weight_b - self.weight_a

    @property
    def size(self) -> float:
        """What heads are ranked by."""
        return abs(self.change) if self.variation is None else self.variation


@dataclass(frozen=True, slots=True)
class LayerChange:
    """The heads of one layer together."""

    layer: int
    variation: float
    """Mean over the chosen heads."""
    head: int
    """The head with the largest variation."""
    largest: float
    state: float
    """Mean of 1 - cosine of the aligned words' states after this layer."""


@dataclass(frozen=True, slots=True)
class HeadChanges:
    """The result of `attn heads` for two texts."""

    card: ModelCard
    question: Question
    texts: tuple[Encoded, Encoded]
    heads: Heads
    from_: str | None
    to: str | None
    top: int | None
    changes: tuple[HeadChange, ...]
    """Largest first."""
    layers: tuple[LayerChange, ...]
    """Empty where words were given."""
    embedding: float | None
    """Mean of 1 - cosine of the aligned words' embeddings."""
    words: int
    """Pairs of words that stand side by side."""
    rows: int
    """Pairs whose rows were compared."""
    notes: tuple[str, ...]
    line: int | None = None
    swapped: str | None = None

    @property
    def random(self) -> bool:
        """True when the weights mean nothing."""
        return self.card.random

    def headline(self) -> str:
        """Say in one line which model, which heads, and what is compared."""
        what = "A against B"
        if self.swapped is not None:
            what = f"A against its copy B with {display(self.swapped)} exchanged"
        if self.from_ is not None and self.to is not None:
            what = f"{display(self.from_)} → {display(self.to)}, {what}"
        return f"{self.card.headline()} · {describe_choice(self.heads, self.card)} · {what}"

    def record(self) -> dict[str, Any]:
        """Return the JSON document (schema attn.heads)."""
        return {
            **document("heads", self.card),
            **({} if self.line is None else {"line": self.line}),
            "question": self.question,
            "texts": [text_record(text) for text in self.texts],
            "selection": {
                "layers": list(self.heads.layers),
                "heads": list(self.heads.heads),
                "from": self.from_,
                "to": self.to,
                "swap": self.swapped,
                "top": self.top,
            },
            "words": self.words,
            "rows": self.rows,
            "changes": [_change_record(change) for change in self.changes],
            "embedding": json_or_none(self.embedding),
            "by_layer": [
                {
                    "layer": row.layer,
                    "variation": to_json(row.variation),
                    "head": row.head,
                    "largest": to_json(row.largest),
                    "state": to_json(row.state),
                }
                for row in self.layers
            ],
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table]:
        """Return the texts, the heads with the largest change first, and the layers."""
        texts = Table(
            "texts",
            "",
            [Column(""), Column("")],
            [(letter, text.text) for letter, text in zip("AB", self.texts, strict=True)],
        )
        return [texts, self._heads(), *([self._layers()] if self.layers else [])]

    def tidy(self) -> Table:
        """Return one line a head."""
        columns = [
            *(Column("layer", "int"), Column("head", "int"), Column("variation", "fraction")),
            *(Column(name) for name in ("query_a", "key_a", "query_b", "key_b")),
            *(Column(name, "number") for name in ("weight_a", "weight_b", "change")),
        ]
        rows = []
        for c in self.changes:
            words = [None] * 4 if c.words is None else [w for pair in c.words for w in pair]
            numbers = c.weight_a, c.weight_b, c.change
            rows.append((c.layer, c.head, c.variation, *words, *numbers))
        return Table("heads", "", columns, rows)

    def arrays(self) -> dict[str, Array]:
        """Return the numbers in the order of the ranking, and those of the layers."""
        names = ["layer", "head", "weight_a", "weight_b", "change"]
        names += ["variation"] if self.layers else []
        found = {name: np.array([getattr(c, name) for c in self.changes]) for name in names}
        for name in ("layer", "variation", "head", "largest", "state") if self.layers else ():
            found[f"by_layer_{name}"] = np.array([getattr(row, name) for row in self.layers])
        return {**found, "random": np.array(self.card.random)}

    def _heads(self) -> Table:
        limit = RANKED if self.top is None else len(self.changes)
        weights = [
            Column("weight in A", "fraction", "fraction", priority=80),
            Column("in B", "fraction", "fraction", priority=80),
            Column("change", "number", "weight", priority=85),
        ]
        if self.from_ is not None:
            rows = [
                (head_name(c.layer, c.head), c.weight_a, c.weight_b, c.change) for c in self.changes
            ]
            title = "heads by the change of the weight, largest first: fractions of a row"
            return Table("changes", title, [Column("head"), *weights], rows, (), "", HINT, limit)
        columns = [Column("head"), Column("differs", "fraction", "total variation", priority=95)]
        columns += [Column("query → key that changed most", priority=70), *weights]
        cells = [
            (
                head_name(c.layer, c.head),
                c.variation,
                _pair_text(c),
                c.weight_a,
                c.weight_b,
                c.change,
            )
            for c in self.changes
        ]
        title = "heads by how much their rows differ: ½ Σ|α − α'|, mean over the words"
        return Table("changes", title, columns, cells, (), "", HINT, limit)

    def _layers(self) -> Table:
        columns = [
            Column("layer"),
            Column("differs", "fraction", "total variation, mean over heads"),
            Column("most", priority=80),
            Column("largest", "fraction", "total variation", priority=80),
            Column("words moved", "number", "1 - cosine, mean over words", 3),
        ]
        rows: list[tuple[Any, ...]] = [("embedding", None, None, None, self.embedding)]
        rows += [
            (
                f"L{row.layer}",
                row.variation,
                head_name(row.layer, row.head),
                row.largest,
                row.state,
            )
            for row in self.layers
        ]
        title = "layers: mean over heads, the head that differs most, 1 − cosine of the words"
        return Table("layers", title, columns, rows, hint=HINT)


def _pair_text(change: HeadChange) -> str:
    if change.words is None:
        return ""
    (query_a, key_a), (query_b, key_b) = change.words
    return f"{_both(query_a, query_b)} → {_both(key_a, key_b)}"


def _both(a: str, b: str) -> str:
    return a if a == b else f"{a}/{b}"


def _change_record(change: HeadChange) -> dict[str, Any]:
    pair = None
    if change.words is not None:
        (query_a, key_a), (query_b, key_b) = change.words
        pair = {"query": [query_a, query_b], "key": [key_a, key_b]}
    return {
        "layer": change.layer,
        "head": change.head,
        "variation": json_or_none(change.variation),
        "pair": pair,
        "weight_a": to_json(change.weight_a),
        "weight_b": to_json(change.weight_b),
        "change": to_json(change.change),
    }
