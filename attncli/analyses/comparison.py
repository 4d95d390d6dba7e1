"""The result of `attn compare`: one word in several contexts, ready for any format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli._shapes import Float
from attncli.analyses.columns import state_names
from attncli.analyses.comparison_parts import (
    Aligned,
    Anchor,
    Change,
    Occurrence,
    Pair,
    Reading,
)
from attncli.analyses.comparison_tables import tables
from attncli.numbers import to_json
from attncli.results import Column, ModelCard, Table, document, token_record
from attncli.selection import By, Heads, View
from attncli.tokenize import Encoded

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of `attn compare`."""

    card: ModelCard
    texts: tuple[Encoded, ...]
    heads: Heads
    view: View
    words: tuple[str, ...]
    """The words that are followed."""
    occurrences: tuple[Occurrence, ...]
    pairs: tuple[Pair, ...]
    baseline: Float[Array, " state"] | None
    """Mean cosine of random pairs of words at each state, the measure of all cosines here."""
    anchors: tuple[Anchor, ...]
    changed: tuple[tuple[Change, ...], ...]
    """For each pair, every key in reading order; empty when there are too many pairs."""
    aligned: tuple[Aligned, ...]
    """Words of two texts side by side; empty unless there are two alike enough."""
    states: Float[Array, "occurrence state d_model"]
    notes: tuple[str, ...]

    @property
    def random(self) -> bool:
        """True when the weights mean nothing."""
        return self.card.random

    def headline(self) -> str:
        """Say in one line which words of how many texts are compared."""
        words = ", ".join(self.words[:4]) + (", …" if len(self.words) > 4 else "")
        count = "1 text" if len(self.texts) == 1 else f"{len(self.texts)} texts"
        return f"{self.card.headline()} · {words} in {count}"

    def record(self) -> dict[str, Any]:
        """Return the JSON document (schema attn.compare)."""
        selection = {
            "layers": list(self.heads.layers),
            "heads": list(self.heads.heads),
            "reduce": None if self.heads.single else self.heads.reduce,
            "words": list(self.words),
            "by": self.view.by,
        }
        return {
            **document("compare", self.card),
            "texts": [
                {
                    "text": text.text,
                    "tokens": [token_record(token) for token in text.tokens],
                    "words": [word.text for word in text.words],
                }
                for text in self.texts
            ],
            "selection": selection,
            "occurrences": [
                {
                    "text": o.text,
                    "word": o.word,
                    "tokens": list(o.tokens),
                    "start": o.start,
                    "end": o.end,
                }
                for o in self.occurrences
            ],
            "layers": state_names(self.card.layers),
            "baseline": None if self.baseline is None else to_json(self.baseline),
            "pairs": [_pair_record(pair) for pair in self.pairs],
            "anchors": [
                {"anchor": anchor.name, "cosine": to_json(anchor.cosine)} for anchor in self.anchors
            ],
            "changed": [
                {
                    "a": pair.a,
                    "b": pair.b,
                    "keys": [_change_record(c) for c in by_change(changes, self.view.by)],
                }
                for pair, changes in zip(self.pairs, self.changed, strict=bool(self.changed))
            ],
            "aligned": [
                {
                    "a": row.a,
                    "b": row.b,
                    "cosine": None if row.cosine is None else to_json(row.cosine),
                }
                for row in self.aligned
            ],
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table]:
        """Return what people read: places, cosines, anchors, changed keys, words side by side."""
        return tables(self)

    def tidy(self) -> Table:
        """Return one line for each pair, or occurrence and anchor, and state."""
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
        rows: list[tuple[Any, ...]] = []
        for pair in self.pairs:
            for i, name in enumerate(state_names(self.card.layers)):
                base = None if pair.baseline is None else float(pair.baseline[i])
                cosine = float(pair.cosine[i])
                adjusted = None if base is None else cosine - base
                share = float(pair.top_dimension_share[i])
                word = self.occurrences[pair.a].word
                rows.append(("pair", pair.a, pair.b, word, name, cosine, base, adjusted, share))
        for anchor in self.anchors:
            for at, values in enumerate(anchor.cosine):
                for name, value in zip(state_names(self.card.layers), values, strict=True):
                    word = self.occurrences[at].word
                    rows.append(
                        ("anchor", at, anchor.name, word, name, float(value), None, None, None)
                    )
        return Table("compare", "", columns, rows)

    def arrays(self) -> dict[str, Array]:
        """Return the vectors of the occurrences and all cosines."""
        found: dict[str, Array] = {
            "words": np.array([o.word for o in self.occurrences]),
            "texts": np.array([o.text for o in self.occurrences]),
            "states": self.states,
            "pairs": np.array([(pair.a, pair.b) for pair in self.pairs]).reshape(-1, 2),
            "random": np.array(self.card.random),
        }
        if self.pairs:
            found["cosine"] = np.stack([pair.cosine for pair in self.pairs])
            found["top_dimension_share"] = np.stack([p.top_dimension_share for p in self.pairs])
        if self.baseline is not None:
            found["baseline"] = self.baseline
        if self.anchors:
            found["anchors"] = np.array([anchor.name for anchor in self.anchors])
            found["anchor_cosine"] = np.stack([anchor.cosine for anchor in self.anchors])
        return found


def by_change(changes: Sequence[Change], by: By) -> list[Change]:
    """Return changes with the largest first."""
    return sorted(changes, key=lambda c: -abs(c.by(by)))


def _pair_record(pair: Pair) -> dict[str, Any]:
    baseline = pair.baseline
    return {
        "a": pair.a,
        "b": pair.b,
        "cosine": to_json(pair.cosine),
        "baseline": None if baseline is None else to_json(baseline),
        "adjusted": None if baseline is None else to_json(pair.cosine - baseline),
        "top_dimension_share": to_json(pair.top_dimension_share),
    }


def _json(number: float | None) -> Any:
    return None if number is None else to_json(number)


def _change_record(change: Change) -> dict[str, Any]:
    def side(reading: Reading | None) -> dict[str, Any] | None:
        if reading is None:
            return None
        return {
            "word": None if reading.word < 0 else reading.word,
            "text": reading.text,
            "weight": to_json(reading.weight),
            "contribution": _json(reading.contribution),
        }

    return {
        "a": side(change.a),
        "b": side(change.b),
        "weight_change": to_json(change.weight),
        "contribution_change": _json(change.contribution),
    }
