"""One word for what a head does, with the rule that gave it.

RULES are tried in order; the first that holds gives the role, and a head that none fits is
"mixed". "broad" stands before the others of a text because a nearly uniform head would meet them
where the text is short: of three keys each has a third. Random repeats are never so short, and a
head that waits for a repeat may be uniform on a text without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attncli.errors import UsageProblem, did_you_mean
from attncli.numbers import format_fraction

MIXED = "mixed"
LEAST_REPEATS = 4
"""With fewer repeated tokens a text says nothing about induction and duplicates."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A role, and the threshold of the measure that gives it."""

    role: str
    measure: str
    threshold: float
    source: str
    strict: bool = False
    """Above the threshold, instead of at or above it."""

    @property
    def measure_name(self) -> str:
        """The measure as people read it."""
        return self.measure.replace("_", " ")

    @property
    def sign(self) -> str:
        """How the measure must stand to the threshold."""
        return ">" if self.strict else "≥"

    def holds(self, value: float) -> bool:
        """Tell whether a value meets the threshold."""
        return value > self.threshold if self.strict else value >= self.threshold

    def record(self) -> dict[str, Any]:
        """Return the JSON form."""
        fields = {name: getattr(self, name) for name in ("role", "measure", "sign", "threshold")}
        return {**fields, "source": self.source}


INDUCTION = "score: Olsson et al. 2022; threshold ours"
DUPLICATE = "score: Wang et al. 2022; threshold ours"
RULES = (
    Rule("induction", "probe_induction", 0.4, INDUCTION),
    Rule("duplicate", "probe_duplicate", 0.4, DUPLICATE),
    Rule("broad", "relative_entropy", 0.9, "ours; Clark et al. 2019, code: entropy > 3.8 nats"),
    Rule("induction", "induction", 0.4, INDUCTION),
    Rule("duplicate", "duplicate", 0.4, DUPLICATE),
    Rule("previous", "previous", 0.5, "Clark et al. 2019, code"),
    Rule("next", "next", 0.5, "Clark et al. 2019, code"),
    Rule("self", "self", 0.5, "ours, as for neighbours"),
    Rule("sink", "sink", 0.3, "Gu et al. 2025", strict=True),
    Rule("special", "special", 0.6, "Clark et al. 2019, code", strict=True),
    Rule("punctuation", "punctuation", 0.5, "ours, as for neighbours"),
)
ROLES = (*dict.fromkeys(rule.role for rule in RULES), MIXED)


def rules_used(*, probed: bool) -> tuple[Rule, ...]:
    """Return the rules that are tried, in their order: those of random repeats, or of the text."""
    left_out = ("induction", "duplicate") if probed else ("probe_induction", "probe_duplicate")
    return tuple(rule for rule in RULES if rule.measure not in left_out)


@dataclass(frozen=True, slots=True)
class Role:
    """What a head does."""

    name: str
    rule: str
    """Measure, value and threshold, such as "previous .93 ≥ .5"."""
    value: float
    """Of the measure that gave it; 0 for mixed."""


def find_role(values: Mapping[str, float | None], *, n_repeats: int) -> Role:
    """Return the role of a head.

    Args:
        values: its measures by name; missing or None where one has no meaning. Where random
            repeats were run, their induction and duplicate scores stand for those of the text.
        n_repeats: queries of the text whose token occurred before.
    """
    for rule in rules_used(probed=values.get("probe_induction") is not None):
        value = values.get(rule.measure)
        if rule.measure in ("induction", "duplicate") and n_repeats < LEAST_REPEATS:
            continue
        if value is not None and rule.holds(value):
            digits = 2 if abs(value - rule.threshold) >= 0.005 else 4
            return Role(
                rule.role,
                f"{rule.measure_name} {format_fraction(value, digits)} "
                f"{rule.sign} {format_fraction(rule.threshold, 1)}",
                float(value),
            )
    return Role(MIXED, "no rule holds", 0.0)


def check_role(name: str) -> str:
    """Return a role that exists.

    Raises:
        UsageProblem: no such role; names them.
    """
    if name not in ROLES:
        raise UsageProblem(
            f"--role {name}: expected one of {', '.join(ROLES)}.{did_you_mean(name, ROLES)}"
        )
    return name
