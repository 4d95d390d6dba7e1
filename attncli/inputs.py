"""Texts from arguments, files and pipes, each with the line it came from."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from attncli.errors import InputProblem, UsageProblem

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Text:
    """One input."""

    text: str
    line: int | None = None
    """Line of the file or pipe, counted from 1; None for an argument."""
    problem: str = ""
    """Why this line cannot be used; its text is then empty."""

    def checked(self) -> str:
        """Return the text.

        Raises:
            InputProblem: the line cannot be used.
        """
        if self.problem:
            raise InputProblem(self.problem)
        return self.text


@dataclass(frozen=True, slots=True)
class Inputs:
    """All inputs of a command."""

    texts: Iterator[Text]
    streamed: bool
    """True when they come line by line: problems of one line then do not end the run."""


def read_inputs(arguments: Sequence[str], file: Path | None = None) -> Inputs:
    """Return the texts to work on.

    TEXT arguments are taken as they are, and `-` stands for the whole of standard input. Without
    arguments each line of --file, or of a pipe on standard input, is one text; blank lines are
    skipped. At a terminal, no text is an error rather than a silent wait.

    Raises:
        UsageProblem: no text at all, or both TEXT and --file.
        InputProblem: a file or standard input that cannot be read.
    """
    if file is not None:
        if arguments:
            raise UsageProblem("Give either TEXT or --file, not both.")
        return Inputs(_file_lines(file), streamed=True)
    if arguments:
        return Inputs(iter([_argument(argument) for argument in arguments]), streamed=False)
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageProblem(
            'No text. Give one, such as attn inspect "I like jam", or pipe lines in.'
        )
    return Inputs(_lines(sys.stdin.buffer, "standard input"), streamed=True)


def _argument(argument: str) -> Text:
    if argument != "-":
        return Text(argument)
    data = sys.stdin.buffer.read().removeprefix(_BYTE_ORDER_MARK)
    try:
        return Text(data.decode().removesuffix("\n").removesuffix("\r"))
    except UnicodeDecodeError as problem:
        raise InputProblem(f"standard input: byte {problem.start} is not UTF-8.") from None


def _file_lines(path: Path) -> Iterator[Text]:
    try:
        file = path.open("rb")
    except OSError as problem:
        raise InputProblem(f"{path}: cannot be read ({problem.strerror}).") from None
    with file:
        yield from _lines(file, str(path))


def _lines(stream: Iterable[bytes], name: str) -> Iterator[Text]:
    any_text = False
    for number, raw in enumerate(stream, start=1):
        if number == 1:
            raw = raw.removeprefix(_BYTE_ORDER_MARK)
        raw = raw.removesuffix(b"\n").removesuffix(b"\r")
        if not raw.strip():
            continue
        any_text = True
        try:
            yield Text(raw.decode(), number)
        except UnicodeDecodeError as problem:
            yield Text("", number, f"{name} is not UTF-8 (byte {problem.start} of the line).")
    if not any_text:
        raise InputProblem(f"{name}: no text in it (only blank lines or nothing).")
