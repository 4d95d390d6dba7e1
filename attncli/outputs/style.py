"""Colours and measures of the terminal output. Colour is never the only carrier of a number."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size
from rich.text import Text

TITLE = "bold"
HEAD = "cyan"
NOTE = "yellow"
DIM = "dim"

LEVELS = {
    "linear": (0.05, 0.15, 0.3, 0.6),
    "log": (0.001, 0.005, 0.025, 0.125),
    "cosine": (0.2, 0.4, 0.6, 0.8),
}
"""Fractions at which a cell gets the next shade; log: five times the one before."""
SHADES = (" ", "░", "▒", "▓", "█")
SHADE_COLORS = ("", "#1f3b5c", "#2a5f8f", "#6bb7c9", "#f4d35e")
HEAT = ("dim", "white on #1f3b5c", "white on #2a5f8f", "black on #6bb7c9", "black on #f4d35e")
"""Backgrounds of the levels: dark to light, apart in lightness for every kind of colour sight."""


def level(fraction: float, shading: str = "linear") -> int:
    """Return the shade of a fraction of a row, 0 to 4."""
    return sum(fraction >= bound for bound in LEVELS[shading])


def padded(text: str, width: int, *, right: bool = False, style: str = "") -> Text:
    """Return text of exactly `width` columns; longer text is cut with "…"."""
    text = cut(text, width)
    space = " " * (width - cell_len(text))
    return Text.assemble(space, (text, style)) if right else Text.assemble((text, style), space)


def cut(text: str, width: int) -> str:
    """Return text of at most `width` columns, with "…" where something was cut off."""
    if cell_len(text) <= width:
        return text
    if width < 3:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1).rstrip() + "…"


def wrapped(text: str, width: int, style: str) -> list[Text]:
    """Break a sentence at spaces into lines of at most `width` columns."""
    lines, current = [], ""
    for word in text.split(" "):
        if current and cell_len(current) + 1 + cell_len(word) > width:
            lines.append(current)
            current = word
        else:
            current = f"{current} {word}" if current else word
    # what a no-break space joins stays together; it is shown as a plain one
    return [Text(line.replace("\u00a0", " "), style) for line in [*lines, current]]
