"""How single values read in tables for people."""

from __future__ import annotations

import math
from typing import Any

from attncli.display import display, quoted
from attncli.numbers import format_fraction
from attncli.results import Column, Label, Share

BAR_WIDTH = 20
_EIGHTHS = " ▏▎▍▌▋▊▉"


def cell_text(column: Column, value: Any) -> str:
    """Return a value as a table shows it."""
    if value is None:
        return "–"
    if isinstance(value, Label):
        return display(value.text)
    if column.kind == "shares":
        return "  ".join(f"{share_label(p)} {format_fraction(p.value)}" for p in value) or "–"
    if column.kind == "bar":
        return bar(value)
    if isinstance(value, float):
        return format_number(value, column.digits)
    return display(str(value))


def share_label(share: Share) -> str:
    """Return the label of a share."""
    return quoted(display(share.label.text))


def format_number(value: float, digits: int) -> str:
    """Write a number without the zero before the point; "–" for a masked entry."""
    return "–" if value == -math.inf else format_fraction(value, digits)


def bar(fraction: float) -> str:
    """Draw a fraction as a bar of eighths of a character."""
    eighths = round(max(0.0, min(1.0, fraction)) * BAR_WIDTH * 8)
    rest = _EIGHTHS[eighths % 8].strip()
    return "█" * (eighths // 8) + rest
