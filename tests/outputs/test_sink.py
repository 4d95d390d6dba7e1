"""Where output goes: encodings, colour, width, files."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from attncli.errors import InputProblem
from attncli.outputs.sink import Sink, print_problem
from tests.outputs.streams import Stream


@pytest.mark.parametrize(
    ("encoding", "written"),
    [
        ("utf-8", "L0 × 2 → jam… 日本 \U0001f600"),
        ("cp1252", "L0 x 2 -> jam~ \\u65e5\\u672c \\U0001f600"),
        ("ascii", "L0 x 2 -> jam~ \\u65e5\\u672c \\U0001f600"),
    ],
)
def test_characters_a_stream_cannot_hold_get_stand_ins(encoding: str, written: str, stdout) -> None:
    stream = stdout(encoding)
    Sink().text("L0 × 2 → jam… 日本 \U0001f600")
    assert stream.written == written


def test_characters_a_stream_can_hold_stay(stdout) -> None:
    stream = stdout("cp1252")
    Sink().text("3 × 4 · café")
    assert stream.written == "3 × 4 · café"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_problem_is_one_line_on_any_standard_error(encoding: str, monkeypatch) -> None:
    stream = Stream(encoding)
    monkeypatch.setattr(sys, "stderr", stream)
    print_problem("no \x1b[31m file\n→ \udcff")
    assert stream.written.count("\n") == 1
    assert stream.written.startswith("attn: no \\x1b[31m file")


@pytest.mark.parametrize(
    ("terminal", "environment", "wanted"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
        (True, {"TERM": ""}, False),
        (False, {}, False),
        (False, {"FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": "1", "TERM": "dumb"}, True),
    ],
)
def test_colour_is_for_capable_terminals_unless_the_user_says_otherwise(
    terminal: bool, environment: dict[str, str], wanted: bool, stdout, monkeypatch, tmp_path: Path
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stdout(terminal=terminal)
    assert Sink().colored is wanted
    assert Sink(color=False).colored is False
    assert Sink(tmp_path / "file").colored is False


@pytest.mark.parametrize(
    ("columns", "width"),
    [("40", 40), ("7", 20), ("0", 100), ("-5", 100), ("wide", 100), ("", 100), ("²", 100)],
)
def test_width_comes_from_columns_and_odd_values_are_ignored(
    columns: str, width: int, monkeypatch, stdout
) -> None:
    stdout()
    monkeypatch.setenv("COLUMNS", columns)
    assert Sink().width == width


def test_width_of_a_terminal_is_asked_for(monkeypatch, stdout) -> None:
    monkeypatch.delenv("COLUMNS")
    stream = stdout(terminal=True)
    monkeypatch.setattr(stream, "fileno", lambda: 1, raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((64, 20)))
    assert Sink().width == 64
    monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((0, 0)))
    assert Sink().width == 80


def test_file_is_utf8_whatever_standard_output_is_and_appears_with_the_first_result(
    tmp_path: Path, stdout
) -> None:
    stream = stdout("ascii")
    path = tmp_path / "result"
    sink = Sink(path)
    assert not path.exists()
    sink.text("日本 → ")
    sink.text("\udcff")
    sink.close()
    assert path.read_text("utf-8") == "日本 → \\udcff"
    assert stream.written == ""


def test_file_that_cannot_be_written_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(InputProblem, match=r"absent.result: cannot be written \(No such file"):
        Sink(tmp_path / "absent" / "result").text("x")
    with pytest.raises(InputProblem, match=r"cannot be written \(Is a directory"):
        Sink(tmp_path).binary(b"x")


def test_closed_pipe_is_not_turned_into_a_problem_of_the_user(stdout, monkeypatch) -> None:
    stream = stdout()

    def closed(text: str) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(stream, "write", closed)
    with pytest.raises(BrokenPipeError):
        Sink().text("x")


def test_whole_results_reach_the_reader_at_once(monkeypatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "utf-8"))
    Sink().text("first\n")
    assert raw.getvalue() == b"first\n"
