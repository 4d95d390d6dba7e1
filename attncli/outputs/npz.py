"""npz: the numbers as numpy arrays; those of several texts under 0/, 1/, …."""

from __future__ import annotations

import io

import numpy as np

from attncli.outputs.sink import Sink
from attncli.results import Failure, Result


def open_writer(sink: Sink, format_: str) -> NpzWriter:
    """Return the writer of npz; it refuses a terminal."""
    sink.refuse_terminal("npz")
    return NpzWriter(sink)


class NpzWriter:
    """Collects arrays and writes one archive at the end."""

    def __init__(self, sink: Sink) -> None:
        """Take the destination."""
        self._sink = sink
        self._collected: list[dict[str, np.ndarray]] = []

    def add(self, result: Result) -> None:
        """Take the arrays of one result."""
        self._collected.append(result.arrays())
        for note in result.notes:
            self._sink.warn(note)

    def fail(self, failure: Failure) -> None:
        """Keep the number of the line that failed free."""
        self._collected.append({})

    def close(self) -> None:
        """Write the archive."""
        arrays = {
            (name if len(self._collected) == 1 else f"{number}/{name}"): values
            for number, collected in enumerate(self._collected)
            for name, values in collected.items()
        }
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        self._sink.binary(buffer.getvalue())
