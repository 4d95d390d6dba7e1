"""Where output goes: standard output or a file, with data and notes kept apart."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from attncli.display import display
from attncli.errors import InputProblem, UsageProblem

UNKNOWN_WIDTH = 80
"""Columns of a terminal that does not know its size."""
PIPE_WIDTH = 100
"""Columns of a table that goes into a pipe or file, unless COLUMNS says otherwise."""

_PLAIN = str.maketrans(
    {
        "·": "|", "×": "x", "–": "-", "—": "-", "→": "->", "…": "~", "─": "-", "␣": "_", "⏎": "$",
        "░": ".", "▒": ":", "▓": "*", "█": "#", "▏": " ", "▎": " ", "▍": " ", "▌": "#", "▋": "#",
        "▊": "#", "▉": "#", "Σ": "sum", "≥": ">=", "◌": "o", "⇥": "_", "␍": "_",
    }
)  # fmt: skip
"""Stand-ins for streams that cannot hold the characters of tables (cp1252, ASCII)."""


@dataclass(slots=True)
class Sink:
    """One destination of data."""

    output: Path | None = None
    """File to write; None: standard output."""
    color: bool = True
    """False: no colour even on a terminal."""
    _file: BinaryIO | None = field(default=None, init=False)

    def text(self, text: str) -> None:
        """Write text that every stream can take: what it cannot hold is shown in another way."""
        if self.output is not None:
            # a path that is no UTF-8 holds lone surrogates
            self.binary(text.encode("utf-8", "backslashreplace"))
            return
        try:
            sys.stdout.write(_with_stand_ins(text, sys.stdout.encoding))
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as problem:
            drop_buffered()
            raise InputProblem(
                f"standard output: cannot be written ({problem.strerror})."
            ) from None

    def binary(self, data: bytes) -> None:
        """Write bytes.

        Raises:
            InputProblem: the file cannot be written (no such folder, disk full).
        """
        try:
            if self.output is None:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
                return
            if self._file is None:
                self._file = self.output.open("wb")
            self._file.write(data)
            self._file.flush()
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise _unwritable(self.output or "standard output", problem) from None

    def warn(self, message: str) -> None:
        """Tell the user something that is no data."""
        print_problem(message)

    @property
    def unicode(self) -> bool:
        """True when the destination holds every character."""
        encoding = "utf-8" if self.output is not None else sys.stdout.encoding or ""
        return encoding.lower().replace("-", "") == "utf8"

    @property
    def is_terminal(self) -> bool:
        """True when a person reads along."""
        return self.output is None and sys.stdout.isatty()

    @property
    def colored(self) -> bool:
        """True when colour is wanted: a capable terminal or FORCE_COLOR, and no NO_COLOR."""
        if not self.color or os.environ.get("NO_COLOR") or self.output is not None:
            return False
        if os.environ.get("FORCE_COLOR"):
            return True
        return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")

    @property
    def width(self) -> int:
        """Columns there are for tables."""
        given = os.environ.get("COLUMNS", "")
        if given.isascii() and given.isdigit() and int(given) > 0:
            return max(20, min(int(given), 10_000))
        if self.is_terminal:
            # a terminal that does not know its size says 0
            columns = os.get_terminal_size(sys.stdout.fileno()).columns or UNKNOWN_WIDTH
            return max(20, columns)
        return PIPE_WIDTH

    def refuse_terminal(self, what: str) -> None:
        """Keep bytes off a terminal.

        Raises:
            UsageProblem: standard output is a terminal.
        """
        if self.is_terminal:
            raise UsageProblem(f"{what} is not for a terminal; add -o FILE, or a pipe.")

    def close(self) -> None:
        """Close the file, if one was opened."""
        if self._file is not None:
            self._file.close()


def print_problem(message: str) -> None:
    """Write one line to standard error, whatever it holds and whatever the stream can take."""
    sys.stderr.write(_with_stand_ins(f"attn: {display(message)}\n", sys.stderr.encoding))
    sys.stderr.flush()


def drop_buffered() -> None:
    """Send what standard output still holds to nowhere.

    It has no reader or no room; a second attempt when Python ends would print a traceback.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unwritable(where: Path | str, problem: OSError) -> InputProblem:
    return InputProblem(f"{where}: cannot be written ({problem.strerror}).")


def _with_stand_ins(text: str, encoding: str | None) -> str:
    """Return the text with stand-ins for what this encoding cannot hold."""
    encoding = encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    return text
