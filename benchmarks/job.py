"""What a benchmark is, and what it found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """How to run."""

    runs: int
    reference: str
    """A python that has torch and transformers, and attn's own dependencies."""
    attn: str
    """The attn that is measured."""
    models: Path
    """Folder with the real checkpoints, as `.ci/checkpoints` leaves them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one benchmark measured: numbers of runs in turn, attn's and the reference's."""

    name: str
    what: str
    budget: str
    """What must hold, in words."""
    seconds: list[float]
    mebibytes: list[float]
    their_seconds: list[float] = field(default_factory=list)
    their_mebibytes: list[float] = field(default_factory=list)
    notes: str = ""

    @property
    def ratios(self) -> list[float]:
        """Return attn's time as a part of the reference's, run by run."""
        return [a / b for a, b in zip(self.seconds, self.their_seconds, strict=False)]


@dataclass(frozen=True, slots=True)
class Job:
    """One benchmark."""

    name: str
    what: str
    budget: str
    run: Callable[[Settings], Finding]
    long: bool = False
    """Takes minutes; run only when named or with `all`."""
