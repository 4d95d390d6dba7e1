"""Tables for people: aligned at any width, and what does not fit is said, never cut silently."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from attncli.display import display
from attncli.outputs.cells import cell_text
from attncli.outputs.matrix import draw_matrix
from attncli.outputs.sink import Sink
from attncli.outputs.style import DIM, HEAD, NOTE, TITLE, cut, padded, wrapped
from attncli.results import Column, Failure, Label, Matrix, Result, Share, Table

MAX_ROWS = 40
GAP = 2


def open_writer(sink: Sink, format_: str) -> TableWriter:
    """Return the writer of tables."""
    return TableWriter(sink)


class TableWriter:
    """Writes headline, notes and tables of each result, an empty line between results."""

    def __init__(self, sink: Sink) -> None:
        """Take the destination."""
        self._sink, self._any = sink, False

    def add(self, result: Result) -> None:
        """Write one result."""
        width = self._sink.width
        lines = wrapped(display(result.headline()), width, TITLE)
        for note in result.notes:
            lines += wrapped(f"note: {display(note)}", width, NOTE)
        for shown in result.tables():
            drawn = (
                draw_matrix(shown, width) if isinstance(shown, Matrix) else draw_table(shown, width)
            )
            if drawn:
                lines += [Text(), *drawn]
        self._print(lines)

    def fail(self, failure: Failure) -> None:
        """Nothing here: the line on standard error says it."""

    def close(self) -> None:
        """Nothing stands after the last table."""

    def _print(self, lines: Sequence[Text]) -> None:
        if self._any:
            lines = [Text(), *lines]
        self._any = True
        self._sink.text(render(lines, colored=self._sink.colored))


def render(lines: Sequence[Text], *, colored: bool) -> str:
    """Turn styled lines into text, with escape codes only when `colored`."""
    if not colored:
        return "".join(line.plain.rstrip() + "\n" for line in lines)
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        force_terminal=True,
        color_system="256",
        width=10_000,
        highlight=False,
        markup=False,
    )
    for line in lines:
        console.print(line, soft_wrap=True)
    return buffer.getvalue()


def draw_table(table: Table, width: int) -> list[Text]:
    """Lay out a table in `width` columns."""
    if not table.rows:
        return []
    rows, left_out = _choose_rows(table)
    fit = _fit(table.columns, rows, width)
    lines = wrapped(table.title, width, TITLE) if table.title else []
    lines.append(_line([padded(c.name, w, right=_right(c), style=HEAD) for c, w in fit.shown]))
    for row in rows:
        cells = [_styled(fit, table.columns.index(c), c, w, row) for c, w in fit.shown]
        lines.append(_line(cells))
    remarks = []
    if left_out:
        remarks.append(
            f"{len(rows)} of {len(table.rows)} rows; {table.hint}"
            if table.hint
            else f"{left_out} more rows"
        )
    if fit.dropped:
        remarks.append(f"no room at this width for: {', '.join(fit.dropped)}")
    if fit.shares_cut:
        fits = (
            "only the first key fits"
            if fit.shares == 1
            else f"only the first {fit.shares} keys fit"
        )
        remarks.append(f"{fits}, a wider terminal shows more")
    for remark in remarks:
        lines += wrapped(f"({remark})", width, NOTE)
    return lines


@dataclass(frozen=True, slots=True)
class _Fit:
    shown: list[tuple[Column, int]]
    dropped: list[str]
    shares: int | None
    shares_cut: bool


def _fit(columns: Sequence[Column], rows: Sequence[Sequence[object]], width: int) -> _Fit:
    """Find how many shares a cell shows and which columns stay, so that all fits."""
    most = max((len(v) for row in rows for v in row if isinstance(v, tuple)), default=0)
    kept = list(columns)
    dropped: list[str] = []
    while True:
        for shares in range(most, 0, -1) if most else (0,):
            widths = [_width(columns, column, rows, shares) for column in kept]
            if sum(widths) + GAP * (len(widths) - 1) <= width:
                shown = list(zip(kept, widths, strict=True))
                return _Fit(shown, dropped[::-1], shares, 0 < shares < most)
        if len(kept) <= 2:
            room = max(4, width - GAP - min(widths[0], width // 2))
            shown = list(
                zip(kept, [min(widths[0], width // 2), *[room] * (len(kept) - 1)], strict=True)
            )
            return _Fit(shown, dropped[::-1], 1, most > 1)
        least = min(column.priority for column in kept[1:])
        out = max(i for i, column in enumerate(kept) if i and column.priority == least)
        dropped.append(kept.pop(out).name)


def _width(
    columns: Sequence[Column], column: Column, rows: Sequence[Sequence[object]], shares: int
) -> int:
    at = columns.index(column)
    texts = [cell_text(column, row[at], shares or None) for row in rows]
    return max(cell_len(column.name), *(cell_len(text) for text in texts))


def _styled(fit: _Fit, at: int, column: Column, width: int, row: Sequence[object]) -> Text:
    value = row[at]
    if isinstance(value, tuple) and column.kind == "shares":
        return _shares(value[: fit.shares], width)
    style = DIM if isinstance(value, Label) and value.special else ""
    return padded(cell_text(column, value), width, right=_right(column), style=style)


def _shares(shares: Sequence[Share], width: int) -> Text:
    text = Text()
    for share in shares:
        if text:
            text.append("  ")
        column = Column("", "shares")
        label, _, number = cell_text(column, (share,)).rpartition(" ")
        text.append(label, DIM if share.label.special else "")
        text.append(f" {number}", HEAD)
    if not shares:
        text.append("–")
    if cell_len(text.plain) > width:
        return padded(cut(text.plain, width), width)
    text.append(" " * (width - cell_len(text.plain)))
    return text


def _choose_rows(table: Table) -> tuple[Sequence[Sequence[object]], int]:
    """Return the most important rows in their order, and how many are left out."""
    if len(table.rows) <= MAX_ROWS:
        return table.rows, 0
    importance = table.important or [-i for i in range(len(table.rows))]
    best = sorted(range(len(table.rows)), key=lambda i: -importance[i])[:MAX_ROWS]
    return [table.rows[i] for i in sorted(best)], len(table.rows) - MAX_ROWS


def _right(column: Column) -> bool:
    return column.kind in ("int", "fraction", "cosine", "number")


def _line(cells: Sequence[Text]) -> Text:
    return Text(" " * GAP).join(cells)
