"""The result of `attn compare`: one word in several contexts, ready for any format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli._shapes import Float
from attncli.display import display
from attncli.numbers import to_json
from attncli.results import Column, Label, ModelCard, Table, document, token_record
from attncli.selection import Heads, View
from attncli.tokenize import Encoded

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Occurrence:
    """The word at one place."""

    text: int
    """Number of the text it stands in."""
    word: str
    """As typed there."""
    tokens: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two occurrences of the same word."""

    a: int
    b: int
    cosine: Float[Array, " state"]
    baseline: Float[Array, " state"] | None
    """Mean cosine of random pairs of words at that state; None when the sample gives none."""
    top_dimension_share: Float[Array, " state"]


@dataclass(frozen=True, slots=True)
class Anchor:
    """Something each occurrence is compared with."""

    name: str
    """The word, or the word and the sentence that holds it, as typed."""
    cosine: Float[Array, "occurrence state"]


@dataclass(frozen=True, slots=True)
class Reading:
    """How much one occurrence reads from one word of its text."""

    word: int
    """Index of the word in its text; -1 for all special tokens together."""
    text: str
    weight: float
    contribution: float


@dataclass(frozen=True, slots=True)
class Change:
    """A key before and after: what the word reads from it in the one text and in the other."""

    a: Reading | None
    b: Reading | None

    @property
    def weight(self) -> float:
        """Weight in b minus weight in a; a key that is missing counts 0."""
        return (self.b.weight if self.b else 0.0) - (self.a.weight if self.a else 0.0)

    @property
    def contribution(self) -> float:
        """Contribution in b minus contribution in a."""
        return (self.b.contribution if self.b else 0.0) - (self.a.contribution if self.a else 0.0)


@dataclass(frozen=True, slots=True)
class Aligned:
    """Two words in the same place of two texts; one is None where a text has no match."""

    a: int | None
    b: int | None
    cosine: Float[Array, " state"] | None


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
    anchors: tuple[Anchor, ...]
    changed: tuple[tuple[Change, ...], ...]
    """For each pair, every key in reading order."""
    aligned: tuple[Aligned, ...]
    """Words of two texts side by side; empty unless there are two alike enough."""
    states: Float[Array, "occurrence state d_model"]
    notes: tuple[str, ...]

    @property
    def random(self) -> bool:
        """True when the weights mean nothing."""
        return self.card.random

    @property
    def state_names(self) -> list[str]:
        """Name the states: the embedding, then the output of each layer (last: final norm in)."""
        return ["embedding", *(f"L{i}" for i in range(self.card.layers))]

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
            "layers": self.state_names,
            "pairs": [_pair_record(pair) for pair in self.pairs],
            "anchors": [
                {"anchor": anchor.name, "cosine": to_json(anchor.cosine)} for anchor in self.anchors
            ],
            "changed": [
                {
                    "a": pair.a,
                    "b": pair.b,
                    "keys": [_change_record(c) for c in self._by_change(changes)],
                }
                for pair, changes in zip(self.pairs, self.changed, strict=True)
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
        shown = [self._places(), self._cosines()]
        if self.anchors:
            shown.append(self._anchors())
        if len(self.words) == 1 and len(self.pairs) == 1:
            shown.append(self._changes())
        if self.aligned:
            shown.append(self._side_by_side())
        return shown

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
            for i, name in enumerate(self.state_names):
                base = None if pair.baseline is None else float(pair.baseline[i])
                cosine = float(pair.cosine[i])
                adjusted = None if base is None else cosine - base
                share = float(pair.top_dimension_share[i])
                word = self.occurrences[pair.a].word
                rows.append(("pair", pair.a, pair.b, word, name, cosine, base, adjusted, share))
        for anchor in self.anchors:
            for at, values in enumerate(anchor.cosine):
                for name, value in zip(self.state_names, values, strict=True):
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
            if self.pairs[0].baseline is not None:
                found["baseline"] = self.pairs[0].baseline
        if self.anchors:
            found["anchors"] = np.array([anchor.name for anchor in self.anchors])
            found["anchor_cosine"] = np.stack([anchor.cosine for anchor in self.anchors])
        return found

    def _by_change(self, changes: Sequence[Change]) -> list[Change]:
        if self.view.by == "weight":
            return sorted(changes, key=lambda c: -abs(c.weight))
        return sorted(changes, key=lambda c: -abs(c.contribution))

    def _name(self, occurrence: int) -> str:
        """Name an occurrence shortly: A, B, … by text, A.2 for a second one in the same text."""
        o = self.occurrences[occurrence]
        same = [
            i
            for i, other in enumerate(self.occurrences)
            if other.text == o.text and same_word(o, other)
        ]
        letter = text_letter(o.text)
        return letter if len(same) == 1 else f"{letter}.{same.index(occurrence) + 1}"

    def _state_columns(self) -> list[Column]:
        """One column a state; every second, then fourth state goes first where room is short."""
        last = len(self.state_names) - 1
        columns = []
        for i, name in enumerate(self.state_names):
            priority = 50 + (0 if i == 0 else (i & -i).bit_length())
            columns.append(
                Column(name, "cosine", "cosine", priority=99 if i in (0, last) else priority)
            )
        return columns

    def _places(self) -> Table:
        columns = [Column("text"), Column("", "text")]
        rows = []
        for at, text in enumerate(self.texts):
            marked = text.text
            here = [o for o in self.occurrences if o.text == at] if len(self.words) == 1 else []
            for o in sorted(here, key=lambda o: -o.start):
                marked = f"{marked[: o.start]}[{o.word}]{marked[o.end :]}"
            rows.append((text_letter(at), display(marked)))
        return Table("places", "", columns, rows)

    def _cosines(self) -> Table:
        title = (
            "how alike: cosine of the word's two states, at the embedding and after each layer"
            " (random: mean of unrelated words, adjusted: what is left)"
        )
        columns = [
            Column("word", "label"),
            Column("pair"),
            Column("", "text"),
            *self._state_columns(),
        ]
        rows: list[list[Any]] = []
        importance = []
        detailed = len(self.pairs) == 1
        for pair in self.pairs:
            head = [
                Label(self.occurrences[pair.a].word),
                f"{self._name(pair.a)}–{self._name(pair.b)}",
            ]
            rows.append([*head, "cosine", *map(float, pair.cosine)])
            if detailed and pair.baseline is not None:
                rows.append(["", "", "random", *map(float, pair.baseline)])
                rows.append(["", "", "adjusted", *map(float, pair.cosine - pair.baseline)])
            if detailed:
                rows.append(["", "", "top dim", *map(float, pair.top_dimension_share)])
            importance.append(1 - float(pair.cosine[-1]))
        if self.pairs and not detailed and self.pairs[0].baseline is not None:
            rows.append(["", "", "random", *map(float, self.pairs[0].baseline)])
            importance.append(2.0)
        return Table(
            "cosine", title, columns, rows, () if detailed else importance, "--json has all"
        )

    def _anchors(self) -> Table:
        columns = [Column("word", "label"), Column("in"), Column("to"), *self._state_columns()]
        rows = [
            [Label(o.word), self._name(at), anchor.name, *map(float, anchor.cosine[at])]
            for anchor in self.anchors
            for at, o in enumerate(self.occurrences)
        ]
        return Table("anchors", "cosine to the anchors", columns, rows)

    def _changes(self) -> Table:
        pair, changes = self.pairs[0], self.changed[0]
        a, b = self._name(pair.a), self._name(pair.b)
        shown = self.heads.describe(self.card.layers, self.card.heads)
        columns = [
            Column(f"key in {a}", "label"),
            Column("weight", "fraction"),
            Column("contribution", "fraction"),
            Column(f"key in {b}", "label"),
            Column("weight ", "fraction"),
            Column("contribution ", "fraction"),
            Column("change", "number"),
        ]
        rows = [
            [
                _key_label(change.a),
                change.a and change.a.weight,
                change.a and change.a.contribution,
                _key_label(change.b),
                change.b and change.b.weight,
                change.b and change.b.contribution,
                change.weight if self.view.by == "weight" else change.contribution,
            ]
            for change in changes
        ]
        important = [abs(c.weight if self.view.by == "weight" else c.contribution) for c in changes]
        word = display(self.words[0])
        title = f"what {word} reads from each word ({shown}; change of {self.view.by})"
        return Table("changed", title, columns, rows, important, "--json has all")

    def _side_by_side(self) -> Table:
        columns = [Column("A", "label"), Column("B", "label"), *self._state_columns()]
        rows = []
        for row in self.aligned:
            a = None if row.a is None else Label(self.texts[0].words[row.a].text)
            b = None if row.b is None else Label(self.texts[1].words[row.b].text)
            values = (
                [None] * len(self.state_names)
                if row.cosine is None
                else list(map(float, row.cosine))
            )
            rows.append([a, b, *values])
        important = [
            1.0 if row.cosine is None else 1 - float(row.cosine[-1]) for row in self.aligned
        ]
        title = "the two texts side by side: cosine of each word to its partner"
        return Table("aligned", title, columns, rows, important, "--json has all")


def text_letter(number: int) -> str:
    """Name a text: A to Z, then T26, T27, …."""
    return chr(ord("A") + number) if number < 26 else f"T{number}"


def same_word(a: Occurrence, b: Occurrence) -> bool:
    """Tell whether two occurrences are the same word, letter case aside."""
    return a.word.casefold() == b.word.casefold()


def _key_label(reading: Reading | None) -> Label | None:
    return None if reading is None else Label(reading.text, special=reading.word < 0)


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


def _change_record(change: Change) -> dict[str, Any]:
    def side(reading: Reading | None) -> dict[str, Any] | None:
        if reading is None:
            return None
        return {
            "word": None if reading.word < 0 else reading.word,
            "text": reading.text,
            "weight": to_json(reading.weight),
            "contribution": to_json(reading.contribution),
        }

    return {
        "a": side(change.a),
        "b": side(change.b),
        "weight_change": to_json(change.weight),
        "contribution_change": to_json(change.contribution),
    }
