"""Markdown: every table in full, for notes and issue trackers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attncli.display import display
from attncli.outputs.cells import cell_text, format_number
from attncli.outputs.sink import Sink
from attncli.results import Column, Failure, Label, Matrix, Result, Table

_ESCAPED = str.maketrans({char: f"\\{char}" for char in "\\`*_{}[]<>#+-!|~$&"})


def open_writer(sink: Sink, format_: str) -> MarkdownWriter:
    """Return the writer of markdown."""
    return MarkdownWriter(sink)


class MarkdownWriter:
    """Writes a heading, the notes and all tables of each result."""

    def __init__(self, sink: Sink) -> None:
        """Take the destination."""
        self._sink = sink

    def add(self, result: Result) -> None:
        """Write one result."""
        lines = [f"**{escape(result.headline())}**", ""]
        for note in result.notes:
            lines += [f"*{escape(note)}*", ""]
        for shown in result.tables():
            if isinstance(shown, Matrix):
                lines += [escape(f"{shown.title} · {shown.sides}"), ""]
            elif shown.title:
                lines += [escape(shown.title), ""]
            if isinstance(shown, Table):
                for sentence in shown.text:
                    lines += [escape(sentence), ""]
            lines += [*(_matrix(shown) if isinstance(shown, Matrix) else _table(shown)), ""]
        self._sink.text("\n".join(lines) + "\n")

    def fail(self, failure: Failure) -> None:
        """Say which line failed and why."""
        self._sink.text(f"line {failure.line}: {escape(failure.problem)}\n\n")

    def close(self) -> None:
        """Nothing stands after the last table."""


def escape(text: str) -> str:
    """Return text that Markdown and the HTML in it show as it is."""
    return display(text).translate(_ESCAPED)


def _table(table: Table) -> list[str]:
    heads = [column.name for column in table.columns if column.kind != "bar"]
    aligned = [_rule(column) for column in table.columns if column.kind != "bar"]
    rows = (
        [
            _cell(column, value)
            for column, value in zip(table.columns, row, strict=True)
            if column.kind != "bar"
        ]
        for row in table.rows
    )
    return _lines(heads, aligned, rows)


def _matrix(matrix: Matrix) -> list[str]:
    heads = ["query" if "query" in matrix.sides else "", *map(_name, matrix.keys)]
    rows = (
        [
            escape(_name(query)),
            *(format_number(float(value), matrix.digits) for value in values),
        ]
        for query, values in zip(matrix.queries, matrix.values, strict=True)
    )
    return _lines(heads, [":--", *("--:" for _ in matrix.keys)], rows)


def _name(label: Label) -> str:
    return label.text if label.index is None else f"{label.index} {label.text}"


def _cell(column: Column, value: Any) -> str:
    if isinstance(value, Label):
        return escape(value.text)
    return escape(cell_text(column, value))


def _rule(column: Column) -> str:
    return ":--" if column.kind in ("text", "label", "shares") else "--:"


def _lines(
    heads: Sequence[str], aligned: Sequence[str], rows: Iterable[Sequence[str]]
) -> list[str]:
    body = ["| " + " | ".join(row) + " |" for row in rows]
    return ["| " + " | ".join(map(escape, heads)) + " |", "| " + " | ".join(aligned) + " |", *body]
