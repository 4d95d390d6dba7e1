"""JSON: one document a line; for a person at a terminal one field a line."""

from __future__ import annotations

import json
from typing import Any

from attncli.outputs.sink import Sink
from attncli.results import Failure, Result


def open_writer(sink: Sink, format_: str) -> JsonWriter:
    """Return the writer of json and jsonl."""
    return JsonWriter(sink, by_field=format_ == "json" and sink.is_terminal)


class JsonWriter:
    """Writes each result as it comes, whole lines only."""

    def __init__(self, sink: Sink, *, by_field: bool) -> None:
        """Take the destination and whether to spread documents over lines."""
        self._sink, self._by_field = sink, by_field

    def add(self, result: Result) -> None:
        """Write one document."""
        self._write(result.record())

    def fail(self, failure: Failure) -> None:
        """Write a document with the field `error`."""
        self._write(failure.record())

    def close(self) -> None:
        """Nothing stands after the last document."""

    def _write(self, record: dict[str, Any]) -> None:
        if not self._by_field:
            self._sink.text(self._dump(record) + "\n")
            return
        fields = [f"  {self._dump(name)}: {self._field(value)}" for name, value in record.items()]
        self._sink.text("{\n" + ",\n".join(fields) + "\n}\n")

    def _field(self, value: Any) -> str:
        if isinstance(value, list) and value and isinstance(value[0], list | dict):
            return "[\n" + ",\n".join(f"    {self._dump(item)}" for item in value) + "\n  ]"
        return self._dump(value)

    def _dump(self, value: Any) -> str:
        return json.dumps(value, ensure_ascii=not self._sink.unicode, allow_nan=False)
