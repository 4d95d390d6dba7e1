"""CSV: one long table, a line for each number's place; several texts one below the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attncli.numbers import number_text
from attncli.outputs.sink import Sink
from attncli.results import Failure, Label, Result

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def open_writer(sink: Sink, format_: str) -> CsvWriter:
    """Return the writer of csv."""
    return CsvWriter(sink)


class CsvWriter:
    """Writes one heading, then the rows of each result after its number."""

    def __init__(self, sink: Sink) -> None:
        """Take the destination."""
        self._sink, self._count, self._headed = sink, 0, False

    def add(self, result: Result) -> None:
        """Write the rows of one result; the column `text` counts the results from 0.

        Results of random weights have a last column that says so.
        """
        table = result.tidy()
        random = {"weights_are": "random"} if result.random else {}
        lines = []
        if not self._headed:
            self._headed = True
            lines.append(_line(["text", *(column.name for column in table.columns), *random]))
        for row in table.rows:
            lines.append(_line([self._count, *map(_cell, row), *random.values()]))
        self._sink.text("".join(lines))
        self._count += 1
        for note in result.notes:
            self._sink.warn(note)

    def fail(self, failure: Failure) -> None:
        """Keep the number of the line that failed free."""
        self._count += 1

    def close(self) -> None:
        """Nothing stands after the last row."""


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, Label):
        value = value.text
    # a spreadsheet would run a cell that begins like a formula
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return "" if value is None else value


def _line(cells: Iterable[Any]) -> str:
    return ",".join(map(_quoted, map(str, cells))) + "\n"


def _quoted(text: str) -> str:
    # the csv module of Python 3.11 leaves a carriage return bare, which ends the row for readers
    if any(char in text for char in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text
