"""Which columns of a table fit a width, and how wide each becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from attncli.outputs.cells import cell_text
from attncli.results import Column

GAP = 2
"""Columns of the terminal between two columns of a table."""
LEAST_SHARES = 14
"""Narrowest column of shares: one key and its number."""
LEAST_FIRST = 6


@dataclass(frozen=True, slots=True)
class Layout:
    """What is shown of a table."""

    places: tuple[int, ...]
    """Indexes of the columns that stay."""
    widths: tuple[int, ...]
    dropped: tuple[str, ...]
    """Names of the columns that did not fit."""


def lay_out(columns: Sequence[Column], rows: Sequence[Sequence[object]], width: int) -> Layout:
    """Fit a table into `width`.

    Cells of shares give way first (a row then shows the shares that fit), then whole columns,
    those of lowest priority first. The first column always stays.
    """
    natural = [_natural(column, at, rows) for at, column in enumerate(columns)]
    kept = list(range(len(columns)))
    dropped: list[int] = []
    while True:
        room = width - GAP * (len(kept) - 1)
        widths = _spread(columns, natural, kept, room)
        if widths is not None:
            break
        if len(kept) == 1:
            widths = [room]
            break
        least = min(columns[at].priority for at in kept[1:])
        if len(kept) == 2:
            first = max(LEAST_FIRST, min(natural[kept[0]], room // 2))
            widths = [first, max(LEAST_FIRST, room - first)]
            break
        out = max(at for at in kept[1:] if columns[at].priority == least)
        kept.remove(out)
        dropped.append(out)
    return Layout(tuple(kept), tuple(widths), tuple(columns[at].name for at in sorted(dropped)))


def _spread(
    columns: Sequence[Column], natural: Sequence[int], kept: Sequence[int], room: int
) -> list[int] | None:
    """Return widths that fit, or None."""
    if sum(natural[at] for at in kept) <= room:
        return [natural[at] for at in kept]
    flexible = [at for at in kept if columns[at].kind == "shares"]
    left = room - sum(natural[at] for at in kept if at not in flexible)
    if not flexible or left < LEAST_SHARES * len(flexible):
        return None
    found = dict.fromkeys(flexible, 0)
    # a column that needs less than its part leaves the rest to the others
    for number, at in enumerate(sorted(flexible, key=lambda at: natural[at])):
        found[at] = min(natural[at], left // (len(flexible) - number))
        left -= found[at]
    return [found.get(at, natural[at]) for at in kept]


def _natural(column: Column, at: int, rows: Sequence[Sequence[object]]) -> int:
    texts = (cell_text(column, row[at]) for row in rows)
    return max(cell_len(column.name), *(cell_len(text) for text in texts))
