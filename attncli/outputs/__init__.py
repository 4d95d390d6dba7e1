"""Output formats: one module each, from a result to text, tables or arrays. They see no model."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Literal, Protocol, runtime_checkable

from attncli.outputs.sink import Sink
from attncli.results import Failure, Result

Format = Literal["table", "json", "jsonl", "csv", "markdown", "npz"]

FORMATS: dict[Format, str] = {
    "table": "table",
    "json": "json",
    "jsonl": "json",
    "csv": "csv",
    "markdown": "markdown",
    "npz": "npz",
}
"""Format to the module of this package that writes it; each has `open_writer(sink, format)`."""


@runtime_checkable
class Writer(Protocol):
    """Writes results one after another, as they come."""

    def add(self, result: Result) -> None:
        """Write one result."""

    def fail(self, failure: Failure) -> None:
        """Write that a line could not be used."""

    def close(self) -> None:
        """Write what stands after the last result."""


def deliver(results: Iterable[Result | Failure], format_: Format, sink: Sink) -> bool:
    """Write all results; return False when a line failed."""
    writer: Writer = import_module(f"{__name__}.{FORMATS[format_]}").open_writer(sink, format_)
    good = True
    for result in results:
        if isinstance(result, Failure):
            good = False
            sink.warn(f"line {result.line}: {result.problem}")
            writer.fail(result)
        else:
            writer.add(result)
    writer.close()
    return good
