"""A standard output that remembers its bytes, and a result made by hand."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from attncli.outputs import deliver
from attncli.outputs.sink import Sink
from attncli.results import Column, Failure, Label, Matrix, Result, Table


class Stream(io.TextIOWrapper):
    """Standard output of this encoding, a terminal or not."""

    def __init__(self, encoding: str = "utf-8", *, terminal: bool = False) -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding, write_through=True)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    @property
    def written(self) -> str:
        return self.bytes.getvalue().decode(self.encoding)


@dataclass
class Made:
    """A result of exactly these values."""

    shown: Sequence[Table | Matrix] = ()
    long: Table = field(default_factory=lambda: Table("long", "", [Column("value")], []))
    document: dict[str, Any] = field(default_factory=dict)
    named: dict[str, np.ndarray] = field(default_factory=dict)
    notes: Sequence[str] = ()
    random: bool = False
    title: str = "model · words"

    def headline(self) -> str:
        return self.title

    def record(self) -> dict[str, Any]:
        return self.document

    def tables(self) -> Sequence[Table | Matrix]:
        return self.shown

    def tidy(self) -> Table:
        return self.long

    def arrays(self) -> dict[str, np.ndarray]:
        return self.named


def to_file(results: Sequence[Result | Failure], format_: Any, folder: Path) -> bytes:
    """Return what a file holds after these results."""
    path = folder / "output"
    sink = Sink(path)
    deliver(results, format_, sink)
    sink.close()
    return path.read_bytes()


HOSTILE = [
    "[/INST]",
    "[unused1]",
    "[bold red]",
    ":smile:",
    "\x1b[31mred",
    "a\u202egnp",
    "nul\x00",
    "tab\tbed",
    "two\nlines",
    "日本語",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "e\u0301",
    "\u0301",
    "a|b`c`",
    "\\",
    "<b>",
    "\x9b31m",
]
"""Labels that a terminal, a markup language or a reader could take for something else."""


def labels(*texts: str) -> list[Label]:
    return [Label(text, text in ("[CLS]", "[SEP]"), index) for index, text in enumerate(texts)]
