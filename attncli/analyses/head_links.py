"""The result of `attn heads --from --to`: heads ranked by what one word reads from another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli.analyses.head_measures import describe_choice, head_name
from attncli.analyses.sides import Sides
from attncli.display import display
from attncli.numbers import to_json
from attncli.results import Column, ModelCard, Table, count, document, text_record
from attncli.selection import Heads

Array = np.ndarray

RANKED = 12
"""Heads that are listed unasked."""
HINT = "--top, -l and -H choose, -f csv has all"
MEASURES = ("weight", "contribution", "excess")


@dataclass(frozen=True, slots=True)
class Link:
    """What one head makes the one word read from the other."""

    layer: int
    head: int
    weight: float
    contribution: float | None
    """None where the engine cannot tell it."""
    excess: float | None
    """None where the text has nothing to compare with."""

    def by(self, measure: str) -> float | None:
        """Return the value of a measure."""
        found: float | None = getattr(self, measure)
        return found


@dataclass(frozen=True, slots=True)
class HeadLinks:
    """The result of `attn heads --from --to` for one text, or one source and its target."""

    card: ModelCard
    sides: Sides
    heads: Heads
    from_: str
    to: str
    pairs: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    """Tokens of each occurrence of the one and of the other that were read together."""
    by: str
    top: int | None
    links: tuple[Link, ...]
    """Largest first."""
    notes: tuple[str, ...]
    line: int | None = None

    @property
    def random(self) -> bool:
        """True when the weights mean nothing."""
        return self.card.random

    def headline(self) -> str:
        """Say in one line which model read what, from which word to which."""
        n = len(self.sides.queries.tokens)
        tokens = count(n, "token" if self.sides.target is None else "target token")
        card = self.card.headline(reads_source=self.sides.is_cross)
        words = f"{display(self.from_)} → {display(self.to)}"
        return f"{card} · {tokens} · {describe_choice(self.heads, self.card)} · {words}"

    def record(self) -> dict[str, Any]:
        """Return the JSON document (schema attn.heads)."""
        target = self.sides.target
        return {
            **document("heads", self.card),
            **({} if self.line is None else {"line": self.line}),
            "question": "link",
            **text_record(self.sides.source),
            "target": None if target is None else text_record(target),
            "selection": {
                "attention": self.sides.attention,
                "layers": list(self.heads.layers),
                "heads": list(self.heads.heads),
                "from": self.from_,
                "to": self.to,
                "by": self.by,
                "top": self.top,
            },
            "pairs": pairs_record(self.pairs),
            "links": [
                {
                    "layer": link.layer,
                    "head": link.head,
                    **{name: json_or_none(link.by(name)) for name in MEASURES},
                }
                for link in self.links
            ],
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table]:
        """Return the heads, largest first."""
        has = [name for name in MEASURES if self.links[0].by(name) is not None]
        has.sort(key=lambda name: name != self.by)
        units = {"contribution": "share of the row's output", "weight": "fraction"}
        columns = [Column("head")]
        columns += [
            Column(name, "fraction", units.get(name, ""), 2, 90 - at) for at, name in enumerate(has)
        ]
        bar = Column(f"{self.by} as a bar", "bar", priority=50)
        rows = [
            (
                head_name(link.layer, link.head),
                *(link.by(name) for name in has),
                link.by(self.by),
            )
            for link in self.links
        ]
        title = (
            f"heads by the {self.by} of “{display(self.from_)}” reading “{display(self.to)}”: "
            "fractions of a row"
        )
        limit = RANKED if self.top is None else len(rows)
        return [Table("links", title, [*columns, bar], rows, hint=HINT, limit=limit)]

    def tidy(self) -> Table:
        """Return one line a head."""
        columns = [Column("layer", "int"), Column("head", "int")]
        columns += [Column(name, "fraction") for name in MEASURES]
        rows = [
            (link.layer, link.head, *(link.by(name) for name in MEASURES)) for link in self.links
        ]
        return Table("heads", "", columns, rows)

    def arrays(self) -> dict[str, Array]:
        """Return the numbers in the order of the ranking."""
        found = {
            "layer": np.array([link.layer for link in self.links]),
            "head": np.array([link.head for link in self.links]),
            "random": np.array(self.card.random),
        }
        for name in MEASURES:
            if self.links[0].by(name) is not None:
                found[name] = np.array([link.by(name) for link in self.links], np.float64)
        return found


def json_or_none(value: float | None) -> Any:
    """Return a number for JSON; null where there is none."""
    return None if value is None else to_json(value)


def pairs_record(
    pairs: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
) -> list[dict[str, list[int]]]:
    """Return the JSON form of pairs of occurrences."""
    return [{"from": list(query), "to": list(key)} for query, key in pairs]
