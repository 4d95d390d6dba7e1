"""The result of `attn models verify`: which identities hold on a model, and how closely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli.results import RANDOM_NOTE, Column, ModelCard, Table, document

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Check:
    """One identity, over all layers and heads."""

    name: str
    formula: str
    """What must hold, in symbols."""
    worst: float | None
    """Largest deviation; None when the identity does not apply to this model."""
    tolerance: float
    why_not: str = ""
    """Why it does not apply."""

    @property
    def passed(self) -> bool:
        """True unless it applies and does not hold."""
        return self.worst is None or self.worst <= self.tolerance

    @property
    def verdict(self) -> str:
        """Say it in a word."""
        return self.why_not if self.worst is None else "holds" if self.passed else "FAILS"


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of `attn models verify` for one model."""

    card: ModelCard
    text: str
    n_tokens: int
    checks: tuple[Check, ...]
    reference: str
    """The reference that was compared with, or why none was."""

    @property
    def passed(self) -> bool:
        """True when every identity that applies holds."""
        return all(check.passed for check in self.checks)

    @property
    def random(self) -> bool:
        """True when the weights mean nothing (the arithmetic is verified all the same)."""
        return self.card.random

    @property
    def notes(self) -> tuple[str, ...]:
        """Say what the reference is, and when weights are random."""
        return (*([RANDOM_NOTE] if self.card.random else []), self.reference)

    def headline(self) -> str:
        """Say in one line how many identities hold."""
        failed = sum(not check.passed for check in self.checks)
        verdict = "all identities hold" if failed == 0 else f"{failed} identities FAIL"
        return f"{self.card.headline()} · {self.n_tokens} tokens · {verdict}"

    def record(self) -> dict[str, Any]:
        """Return the JSON document (schema attn.models.verify)."""
        return {
            **document("models.verify", self.card),
            "text": self.text,
            "passed": self.passed,
            "checks": [
                {
                    "name": check.name,
                    "formula": check.formula,
                    "worst": check.worst,
                    "tolerance": check.tolerance,
                    "passed": check.passed,
                    "why_not": check.why_not,
                }
                for check in self.checks
            ],
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table]:
        """Return one row an identity."""
        columns = [
            Column("identity"),
            Column("formula", priority=50),
            Column("worst"),
            Column("tolerance", priority=60),
            Column("verdict"),
        ]
        rows = [
            (
                check.name,
                check.formula,
                "–" if check.worst is None else f"{check.worst:.1e}",
                f"{check.tolerance:.0e}",
                check.verdict,
            )
            for check in self.checks
        ]
        return [Table("checks", "", columns, rows)]

    def tidy(self) -> Table:
        """Return one row an identity, with full numbers."""
        columns = [
            Column("identity"),
            Column("worst", "number"),
            Column("tolerance", "number"),
            Column("passed"),
            Column("why_not"),
        ]
        rows = [
            (check.name, check.worst, check.tolerance, str(check.passed).lower(), check.why_not)
            for check in self.checks
        ]
        return Table("models.verify", "", columns, rows)

    def arrays(self) -> dict[str, Array]:
        """Return the deviations."""
        worst = [np.nan if check.worst is None else check.worst for check in self.checks]
        return {
            "names": np.array([check.name for check in self.checks]),
            "worst": np.array(worst),
            "tolerance": np.array([check.tolerance for check in self.checks]),
            "random": np.array(self.card.random),
        }
