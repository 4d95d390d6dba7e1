"""Which columns of a table fit a width, and how wide each becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from attncli.outputs.cells import cell_text
from attncli.results import Column

GAP = 2
"""Columns of the terminal between two columns of a table."""
EASY_SHARES = 26
"""Comfortable width of a column of shares: two or three keys with their numbers."""
LEAST_SHARES = 14
"""Narrowest one: one key and its number."""
LONG_TEXT = 24
"""Texts longer than this are cut, with "…", before a column is dropped."""
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

    Long texts and cells of shares give way first (a row then shows the shares that fit), then
    all columns of shares but one, then whole columns, those of lowest priority first. The first
    column always stays.
    """
    natural = [_natural(column, at, rows) for at, column in enumerate(columns)]
    kept = list(range(len(columns)))
    dropped: list[int] = []
    while True:
        room = width - GAP * (len(kept) - 1)
        shares = [at for at in kept if columns[at].kind == "shares"]
        widths = _spread(columns, natural, kept, room, EASY_SHARES)
        if widths is None and len(shares) < 2:
            widths = _spread(columns, natural, kept, room, LEAST_SHARES)
        if widths is None and len(kept) == 2:
            first = max(LEAST_FIRST, min(natural[kept[0]], room // 2))
            widths = [first, max(LEAST_FIRST, room - first)]
        if widths is None and len(kept) == 1:
            widths = [room]
        if widths is not None:
            break
        candidates = shares if len(shares) > 1 else kept[1:]
        out = min(candidates, key=lambda at: (columns[at].priority, -at))
        kept.remove(out)
        dropped.append(out)
    names = (columns[at].name for at in sorted(dropped))
    return Layout(tuple(kept), tuple(widths), tuple(dict.fromkeys(names)))


def _spread(
    columns: Sequence[Column],
    natural: Sequence[int],
    kept: Sequence[int],
    room: int,
    least_shares: int,
) -> list[int] | None:
    """Return widths that fit, or None."""
    if sum(natural[at] for at in kept) <= room:
        return [natural[at] for at in kept]
    wanted = [
        min(width, LONG_TEXT) if column.kind in ("text", "label") else width
        for column, width in zip(columns, natural, strict=True)
    ]
    flexible = [at for at in kept if columns[at].kind == "shares"]
    left = room - sum(wanted[at] for at in kept if at not in flexible)
    if left < sum(min(least_shares, natural[at]) for at in flexible) or left < 0:
        return None
    found = dict.fromkeys(flexible, 0)
    # a column that needs less than its part leaves the rest to the others
    for number, at in enumerate(sorted(flexible, key=lambda at: natural[at])):
        found[at] = min(natural[at], left // (len(flexible) - number))
        left -= found[at]
    # what is left goes to the texts that were cut
    for at in kept:
        if at not in flexible:
            more = min(natural[at] - wanted[at], left)
            wanted[at] += more
            left -= more
    return [found.get(at, wanted[at]) for at in kept]


def _natural(column: Column, at: int, rows: Sequence[Sequence[object]]) -> int:
    texts = (cell_text(column, row[at]) for row in rows)
    return max(cell_len(column.name), *(cell_len(text) for text in texts))
