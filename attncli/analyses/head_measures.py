"""The measures that characterise a head: names, units, and how each is read.

All are means over the queries of one text (over those that have such a key, where not all do).
Formulas: head_stats.py, and head_probe.py for those of random repeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from attncli.errors import UsageProblem, did_you_mean
from attncli.results import Column, ModelCard
from attncli.selection import Heads

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Measure:
    """One number a head."""

    name: str
    """As JSON, CSV and --sort spell it."""
    short: str
    """Heading of its column in tables."""
    unit: str
    kind: Literal["fraction", "number"] = "fraction"
    priority: int = 60
    """Of its column: the lowest go first when a terminal is narrow."""
    crosses: bool = True
    """Has a meaning where a target reads a source, too."""

    def column(self) -> Column:
        """Return its column in tables."""
        digits = 1 if self.name in ("effective_keys", "distance", "absolute_distance") else 2
        return Column(self.short, self.kind, self.unit, digits, self.priority)


MEASURES = (
    Measure("entropy", "entropy", "nats", "number", 70),
    Measure("effective_keys", "keys", "e^entropy", "number", 58),
    Measure("relative_entropy", "broad", "entropy / that of a uniform row", priority=88),
    Measure("distance", "dist", "tokens, key - query", "number", 68, crosses=False),
    Measure("absolute_distance", "|dist|", "tokens", "number", 56, crosses=False),
    Measure("previous", "prev", "weight", priority=86, crosses=False),
    Measure("next", "next", "weight", priority=82, crosses=False),
    Measure("self", "self", "weight", priority=80, crosses=False),
    Measure("first", "first", "weight", priority=62, crosses=False),
    Measure("special", "special", "weight", priority=84),
    Measure("punctuation", "punct", "weight", priority=66),
    Measure("sink", "sink", "mean weight on the first token", priority=87),
    Measure("confidence", "conf", "largest weight of a row", priority=64),
    Measure("duplicate", "dup", "weight", priority=72, crosses=False),
    Measure("induction", "ind", "weight", priority=74, crosses=False),
    Measure("probe_previous", "probe prev", "weight", priority=65, crosses=False),
    Measure("probe_duplicate", "probe dup", "weight", priority=75, crosses=False),
    Measure("probe_induction", "probe ind", "weight", priority=76, crosses=False),
)
BY_NAME = {measure.name: measure for measure in MEASURES}

Values = Mapping[str, Array | None]
"""Measure to [layer, head]; None where the text or the model gives it no meaning."""


def find_measure(name: str, option: str, *, fraction: bool = False) -> Measure:
    """Return the measure of this name.

    Args:
        name: as in MEASURES.
        option: the option that named it, for the message.
        fraction: take only measures that are fractions, which shades can show.

    Raises:
        UsageProblem: no such measure; names them.
    """
    known = [m.name for m in MEASURES if m.kind == "fraction" or not fraction]
    if name not in known:
        raise UsageProblem(
            f"--{option} {name}: expected one of {', '.join(known)}.{did_you_mean(name, known)}"
        )
    return BY_NAME[name]


def head_name(layer: int, head: int) -> str:
    """Name a head as tables do."""
    return f"L{layer} H{head}"


def describe_choice(heads: Heads, card: ModelCard) -> str:
    """Say which heads are looked at, one by one."""
    chosen, there = len(heads.layers) * len(heads.heads), card.layers * card.heads
    if heads.single:
        return head_name(heads.layers[0], heads.heads[0])
    return f"all {there} heads" if chosen == there else f"{chosen} of {there} heads"
