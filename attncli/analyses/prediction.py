"""The result of `attn predict`: candidates with probabilities, ready for any format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attncli.display import display, labels, vocabulary_label
from attncli.numbers import to_json
from attncli.results import (
    Column,
    Label,
    ModelCard,
    Table,
    count,
    document,
    text_record,
    token_record,
)
from attncli.tokenize import Encoded

Array = np.ndarray
CONTEXT = 3
"""Tokens before the place that its title shows."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One token of the vocabulary that may stand in a place."""

    id: int
    """Row of the head's table."""
    token: str | None
    """The piece as the vocabulary spells it; None for a padded row without a token."""
    text: str | None
    """What it adds to a text, a leading space included; None for parts of a character."""
    special: bool
    logit: float
    probability: float
    """Softmax of the logits over all rows of the table."""

    @property
    def label(self) -> Label:
        """The token as tables show it, its leading space visible."""
        shown = vocabulary_label(self.id, self.token, self.text, special=self.special)
        return Label(shown, self.special)

    def record(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "id": self.id,
            "token": self.token,
            "text": self.text,
            "special": self.special,
            "logit": to_json(self.logit),
            "probability": to_json(self.probability),
        }


@dataclass(frozen=True, slots=True)
class Guess:
    """What one state of the residual stream says through the final norm and the head."""

    state: str
    """embedding, L0, L1, …."""
    best: Candidate
    entropy: float
    """Nats."""
    rank: int
    """1 for the most probable, of the token that the whole model answers."""
    probability: float
    """Of that token."""


@dataclass(frozen=True, slots=True)
class Place:
    """One place where a token is predicted."""

    token: int
    """The token after which it is, or the mask itself."""
    kind: Literal["next", "mask", "target"]
    """After the text, at a mask, or after the target."""
    entropy: float = 0.0
    """Of the probabilities, in nats."""
    candidates: tuple[Candidate, ...] = ()
    """The most probable first."""
    lens: tuple[Guess, ...] | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """The result of `attn predict` for one text."""

    card: ModelCard
    encoded: Encoded
    target: Encoded | None
    """What the decoder of an encoder-decoder has read: its start token, then the target."""
    vocabulary: int
    """Rows of the head's table."""
    places: tuple[Place, ...]
    layers: tuple[int, ...] | None
    """Layers whose guesses were kept; None without the lens."""
    top: int
    notes: tuple[str, ...]
    line: int | None = None

    @property
    def random(self) -> bool:
        """True when the weights mean nothing."""
        return self.card.random

    @property
    def read(self) -> Encoded:
        """The text that the places are in."""
        return self.encoded if self.target is None else self.target

    def headline(self) -> str:
        """Say in one line which model reads how many tokens, and out of how many it chooses."""
        n_tokens = count(len(self.read.tokens), "token")
        return f"{self.card.headline()} · {n_tokens} · vocabulary of {self.vocabulary:,}"

    def record(self) -> dict[str, Any]:
        """Return the JSON document (schema attn.predict)."""
        line = {} if self.line is None else {"line": self.line}
        target = None
        if self.target is not None:
            tokens = [token_record(token) for token in self.target.tokens]
            target = {"text": self.target.text, "tokens": tokens}
        return {
            **document("predict", self.card),
            **line,
            **text_record(self.encoded),
            "target": target,
            "vocabulary": self.vocabulary,
            "selection": {
                "top": self.top,
                "lens": self.layers is not None,
                "layers": None if self.layers is None else list(self.layers),
            },
            "predictions": [_place_record(place) for place in self.places],
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table]:
        """Return the candidates of every place, then what the layers would have said."""
        shown: list[Table] = []
        for place in self.places:
            where = self._where(place)
            shown.append(_candidate_table(place, where))
            if place.lens is not None:
                shown.append(_lens_table(place, place.lens, where))
        return shown

    def _where(self, place: Place) -> str:
        """Say in words where the place is, with the tokens before it."""
        names = labels(self.read.tokens)
        if place.kind == "mask":
            before = names[max(0, place.token - CONTEXT) : place.token]
            return f"{names[place.token]} at token {place.token}, after {' '.join(before)}"
        before = names[max(0, place.token + 1 - CONTEXT) : place.token + 1]
        what = "next token" if place.kind == "next" else "next token of the target"
        return f"{what}, after {' '.join(before)}"

    def tidy(self) -> Table:
        """Return one line for each candidate, and for each state of the lens."""
        columns = [
            Column("kind"),
            Column("place"),
            Column("at", "int"),
            Column("rank", "int"),
            Column("state"),
            Column("id", "int"),
            Column("token"),
            Column("token_text"),
            Column("logit", "number"),
            Column("probability", "fraction"),
            Column("entropy", "number", "nats"),
            Column("answer_rank", "int"),
            Column("answer_probability", "fraction"),
        ]
        rows: list[tuple[Any, ...]] = []
        for place in self.places:
            for rank, c in enumerate(place.candidates, 1):
                found = (c.id, c.token, c.text, c.logit, c.probability, place.entropy)
                rows.append(("candidate", place.kind, place.token, rank, None, *found, None, None))
            for guess in place.lens or ():
                b = guess.best
                found = (b.id, b.token, b.text, b.logit, b.probability, guess.entropy)
                answer = (guess.rank, guess.probability)
                rows.append(("lens", place.kind, place.token, 1, guess.state, *found, *answer))
        return Table("predict", "", columns, rows)

    def arrays(self) -> dict[str, Array]:
        """Return places, candidates and guesses."""
        found: dict[str, Array] = {
            "tokens": np.array([token.token for token in self.read.tokens]),
            "at": np.array([place.token for place in self.places]),
            "entropy": np.array([place.entropy for place in self.places]),
            "random": np.array(self.card.random),
        }
        rows = [place.candidates for place in self.places]
        found |= dict(_columns(rows))
        lens = [place.lens for place in self.places if place.lens is not None]
        if lens:
            found["states"] = np.array([guess.state for guess in lens[0]])
            best = dict(_columns([[guess.best for guess in row] for row in lens]))
            found |= {f"lens_{name}": values for name, values in best.items()}
            found["lens_entropy"] = np.array([[guess.entropy for guess in row] for row in lens])
            found["answer_ranks"] = np.array([[guess.rank for guess in row] for row in lens])
            found["answer_probabilities"] = np.array([[g.probability for g in row] for row in lens])
        return found


def _columns(rows: Any) -> Iterator[tuple[str, Array]]:
    yield "ids", np.array([[c.id for c in row] for row in rows])
    yield "pieces", np.array([[c.token or "" for c in row] for row in rows])
    yield "logits", np.array([[c.logit for c in row] for row in rows], np.float32)
    yield "probabilities", np.array([[c.probability for c in row] for row in rows])


def _place_record(place: Place) -> dict[str, Any]:
    return {
        "place": place.kind,
        "at": place.token,
        "entropy": to_json(place.entropy),
        "candidates": [candidate.record() for candidate in place.candidates],
        "lens": None
        if place.lens is None
        else [
            {
                "state": guess.state,
                "best": guess.best.record(),
                "entropy": to_json(guess.entropy),
                "answer_rank": guess.rank,
                "answer_probability": to_json(guess.probability),
            }
            for guess in place.lens
        ],
    }


def _candidate_table(place: Place, where: str) -> Table:
    columns = [
        Column("rank", "int", priority=40),
        Column("token", "label"),
        Column("probability", "fraction", digits=3),
        Column("", "bar", priority=30),
        Column("logit", "number", digits=2, priority=50),
        Column("id", "int", priority=20),
    ]
    rows = [
        (rank, c.label, c.probability, c.probability, c.logit, c.id)
        for rank, c in enumerate(place.candidates, 1)
    ]
    title = f"{where} · entropy {place.entropy:.2f} nats"
    return Table("candidates", title, columns, rows, hint="-f csv or --json has all")


def _lens_table(place: Place, lens: tuple[Guess, ...], where: str) -> Table:
    answer = place.candidates[0].label.text
    columns = [
        Column("after"),
        Column("guess", "label"),
        Column("probability", "fraction", digits=3),
        Column("of answer", "fraction", digits=3, priority=70),
        Column("its rank", "int", priority=60),
        Column("entropy", "number", "nats", priority=50),
    ]
    rows = [
        (g.state, g.best.label, g.best.probability, g.probability, g.rank, g.entropy) for g in lens
    ]
    title = f"guess of each layer (answer: {display(answer)}) · {where}"
    important = [float(i) for i in range(len(rows))]
    return Table("lens", title, columns, rows, important, "the last layers", "--json has all")
