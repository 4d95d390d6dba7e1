"""Tables for people: aligned at any width, and what does not fit is said, never cut silently."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from attncli.display import display
from attncli.numbers import format_fraction
from attncli.outputs.cells import cell_text, share_label
from attncli.outputs.layout import GAP, lay_out
from attncli.outputs.matrix import draw_matrix
from attncli.outputs.sink import Sink
from attncli.outputs.style import DIM, HEAD, NOTE, TITLE, cut, padded, wrapped
from attncli.results import Column, Failure, Label, Matrix, Result, Share, Table

MAX_ROWS = 40
"""Rows of a table; of more, the most important are shown."""


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
    from rich.console import Console

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
    layout = lay_out(table.columns, rows, width)
    shown = [(table.columns[at], at, w) for at, w in zip(layout.places, layout.widths, strict=True)]
    lines = wrapped(table.title, width, TITLE) if table.title else []
    for sentence in table.text:
        lines += wrapped(display(sentence), width, "")
    if any(column.name for column, _, _ in shown):
        heads = [padded(c.name, w, right=_right(c), style=HEAD) for c, _, w in shown]
        lines.append(_line(heads))
    cut_short = False
    for row in rows:
        cells = []
        for column, at, space in shown:
            cell, whole = _cell(column, row[at], space)
            cells.append(cell)
            cut_short |= not whole
        lines.append(_line(cells))
    remarks = []
    if left_out:
        hint = f"; {table.hint}" if table.hint else ""
        which = f", those with {table.importance}" if table.importance else ""
        remarks.append(f"{len(rows)} of {len(table.rows)} rows{which}{hint}")
    if layout.dropped:
        remarks.append(f"no room at this width for: {', '.join(layout.dropped)}")
    if cut_short:
        remarks.append("some rows show fewer keys than asked for: a wider terminal shows all")
    for remark in remarks:
        lines += wrapped(f"({remark})", width, NOTE)
    return lines


def _cell(column: Column, value: object, width: int) -> tuple[Text, bool]:
    """Return a cell, and whether all its shares are in it."""
    if isinstance(value, tuple) and column.kind == "shares":
        return _shares(column, value, width)
    style = DIM if isinstance(value, Label) and value.special else ""
    return padded(cell_text(column, value), width, right=_right(column), style=style), True


def _shares(column: Column, shares: Sequence[Share], width: int) -> tuple[Text, bool]:
    """Show as many shares as fit, at least one."""
    fitting = len(shares)
    while fitting > 1 and cell_len(cell_text(column, shares[:fitting])) > width:
        fitting -= 1
    text = Text()
    for share in shares[:fitting]:
        number = format_fraction(share.value)
        label = share_label(share)
        if fitting == 1:
            label = cut(label, width - len(number) - 1)
        text.append("  " if text else "")
        text.append(label, DIM if share.label.special else "")
        text.append(f" {number}", HEAD)
    if not shares:
        text.append("–")
    text.append(" " * (width - cell_len(text.plain)))
    return text, fitting == len(shares)


def _choose_rows(table: Table) -> tuple[Sequence[Sequence[object]], int]:
    """Return the most important rows in their order, and how many are left out."""
    most = table.limit or MAX_ROWS
    if len(table.rows) <= most:
        return table.rows, 0
    importance = table.important or [-i for i in range(len(table.rows))]
    best = sorted(range(len(table.rows)), key=lambda i: -importance[i])[:most]
    return [table.rows[i] for i in sorted(best)], len(table.rows) - most


def _right(column: Column) -> bool:
    return column.kind in ("int", "fraction", "cosine", "number")


def _line(cells: Sequence[Text]) -> Text:
    return Text(" " * GAP).join(cells)
