"""Models that come with attn."""

from __future__ import annotations

from pathlib import Path

from attncli.model.locate.place import Place

DEFAULT = "minilm"
BUNDLED = Path(__file__).parents[2] / "bundled"


def bundled_names() -> list[str]:
    """Return the names of the models that come with attn."""
    return sorted(path.parent.name for path in BUNDLED.glob("*/config.json"))


def places() -> list[Place]:
    """Return the bundled models."""
    return [Place(name, "bundled", BUNDLED / name, name, "bundled") for name in bundled_names()]


def find(name: str) -> Place | None:
    """Return the bundled model of this name."""
    return next((place for place in places() if place.name == name), None)
