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
    Neighbour,
    Occurrence,
    Pair,
    Reading,
)
from attncli.analyses.comparison_tables import tables
from attncli.analyses.comparison_tidy import tidy
from attncli.analyses.similarity import SelfSimilarity, Similarity
from attncli.numbers import to_json
from attncli.results import Matrix, ModelCard, Table, document, token_record
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
    """All pairs of occurrences of the same word; empty when there are too many."""
    baseline: Float[Array, " state"] | None
    """Mean cosine of random pairs of words at each state, the measure of all cosines here."""
    self_similarity: tuple[SelfSimilarity, ...]
    """One entry a word that stands at two places or more."""
    similarity: Similarity | None
    """None where too few or too many occurrences make no matrix."""
    anchors: tuple[Anchor, ...]
    changed: tuple[tuple[Change, ...], ...]
    """For each pair, every key in reading order; empty when there are too many pairs."""
    aligned: tuple[Aligned, ...]
    """Words of two texts side by side; empty unless there are two alike enough."""
    neighbours: tuple[tuple[tuple[Neighbour, ...], ...], ...]
    """[occurrence][state]: tokens, the nearest first; empty when nobody asked."""
    states: Float[Array, "occurrence state d_model"]
    """As the model has them, whether centred or not."""
    centre: Float[Array, "state d_model"] | None
    """What was subtracted from every vector before its cosines; None for nothing."""
    notes: tuple[str, ...]

    @property
    def random(self) -> bool:
        """True when the weights mean nothing."""
        return self.card.random

    def headline(self) -> str:
        """Say in one line which words of how many texts are compared."""
        words = ", ".join(self.words[:4]) + (", …" if len(self.words) > 4 else "")
        count = "1 text" if len(self.texts) == 1 else f"{len(self.texts)} texts"
        centred = "" if self.centre is None else " · mean-centred cosines"
        return f"{self.card.headline()} · {words} in {count}{centred}"

    def record(self) -> dict[str, Any]:
        """Return the JSON document (schema attn.compare)."""
        selection = {
            "layers": list(self.heads.layers),
            "heads": list(self.heads.heads),
            "reduce": None if self.heads.single else self.heads.reduce,
            "words": list(self.words),
            "by": self.view.by,
            "centred": self.centre is not None,
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
            "self_similarity": [word.record() for word in self.self_similarity],
            "similarity": None if self.similarity is None else self.similarity.record(),
            "anchors": [
                {"anchor": anchor.name, "cosine": to_json(anchor.cosine)} for anchor in self.anchors
            ],
            "changed": [
                {
                    "a": pair.a,
                    "b": pair.b,
                    "keys": [
                        _change_record(c, self.view.by) for c in by_change(changes, self.view.by)
                    ],
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
            "neighbours": [
                [[_neighbour_record(n) for n in state] for state in states]
                for states in self.neighbours
            ],
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table | Matrix]:
        """Return what people read: places, cosines, matrix, anchors, changed keys and so on."""
        return tables(self)

    def tidy(self) -> Table:
        """Return one line for each pair, or occurrence and anchor or neighbour, and state."""
        return tidy(self)

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
        if self.self_similarity:
            found["self_similarity_words"] = np.array([w.word for w in self.self_similarity])
            found["self_similarity"] = np.stack([w.cosine for w in self.self_similarity])
        if self.similarity is not None:
            found["similarity"] = self.similarity.matrix
            found["similarity_state"] = np.array(self.similarity.state)
        if self.centre is not None:
            found["centre"] = self.centre
        if self.neighbours:
            found["neighbour_ids"] = self._of_neighbours("id", np.int64)
            found["neighbour_cosine"] = self._of_neighbours("cosine", np.float32)
        if self.anchors:
            found["anchors"] = np.array([anchor.name for anchor in self.anchors])
            found["anchor_cosine"] = np.stack([anchor.cosine for anchor in self.anchors])
        return found

    def _of_neighbours(self, name: str, dtype: type) -> Array:
        """Return one attribute of all neighbours, [occurrence, state, neighbour]."""
        return np.array(
            [[[getattr(n, name) for n in state] for state in states] for states in self.neighbours],
            dtype,
        )


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


def _neighbour_record(neighbour: Neighbour) -> dict[str, Any]:
    cosine = to_json(neighbour.cosine)
    return {"id": neighbour.id, "token": neighbour.token, "cosine": cosine}


def _json(number: float | None) -> Any:
    return None if number is None else to_json(number)


def _change_record(change: Change, by: By) -> dict[str, Any]:
    name = by.replace("-", "_")

    def side(reading: Reading | None) -> dict[str, Any] | None:
        if reading is None:
            return None
        return {
            "word": None if reading.word < 0 else reading.word,
            "text": reading.text,
            "weight": to_json(reading.weight),
            "contribution": _json(reading.contribution),
            **({} if reading.measure is None else {name: to_json(reading.measure)}),
        }

    return {
        "a": side(change.a),
        "b": side(change.b),
        "weight_change": to_json(change.weight),
        "contribution_change": _json(change.contribution),
        **({} if change.measure is None else {f"{name}_change": to_json(change.measure)}),
    }
