"""Texts from arguments, files and pipes."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from attncli.errors import InputProblem, UsageProblem
from attncli.inputs import Text, read_inputs


class Stdin(io.TextIOWrapper):
    """Standard input with these bytes."""

    def __init__(self, data: bytes, *, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data), "utf-8")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch):
    return lambda data: monkeypatch.setattr(sys, "stdin", Stdin(data))


def test_arguments_are_taken_as_they_are() -> None:
    inputs = read_inputs(["I like jam", "  two\nlines "])
    assert [text.text for text in inputs.texts] == ["I like jam", "  two\nlines "]
    assert not inputs.streamed


def test_dash_is_all_of_standard_input_without_its_last_line_end(pipe) -> None:
    pipe("\ufeffone\r\ntwo\r\n".encode())
    assert [text.text for text in read_inputs(["-"]).texts] == ["one\r\ntwo"]


def test_lines_of_a_pipe_keep_their_number_when_blank_ones_are_skipped(pipe) -> None:
    pipe("\ufeffone\r\n\n  \nfour\u2028still four\nlast".encode())
    inputs = read_inputs([])
    assert inputs.streamed
    assert list(inputs.texts) == [Text("one", 1), Text("four\u2028still four", 4), Text("last", 5)]


def test_line_that_is_not_utf8_is_a_problem_of_that_line_alone(pipe) -> None:
    pipe(b"one\nb\xe9d\nthree\n")
    one, bad, three = read_inputs([]).texts
    assert (one.text, three.text) == ("one", "three")
    assert (bad.text, bad.line) == ("", 2)
    assert bad.line == 2
    assert "standard input is not UTF-8" in bad.problem
    assert "byte 1" in bad.problem


def test_dash_with_bytes_that_are_not_utf8_names_the_byte(pipe) -> None:
    pipe(b"abc\xff")
    with pytest.raises(InputProblem, match="standard input: byte 3"):
        read_inputs(["-"])


@pytest.mark.parametrize("data", [b"", b"\n \n\xef\xbb\xbf\n"[:3]])
def test_pipe_without_text_is_a_problem(pipe, data: bytes) -> None:
    pipe(data)
    with pytest.raises(InputProblem, match="standard input: no text"):
        list(read_inputs([]).texts)


def test_terminal_without_text_is_an_error_and_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(b"never read", terminal=True))
    with pytest.raises(UsageProblem, match="No text"):
        read_inputs([])
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageProblem, match="No text"):
        read_inputs([])


def test_file_gives_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "texts"
    path.write_bytes("\ufeffone\n\ntwo".encode())
    assert list(read_inputs([], path).texts) == [Text("one", 1), Text("two", 3)]


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.txt", tmp_path):
        with pytest.raises(InputProblem, match="cannot be read") as caught:
            list(read_inputs([], path).texts)
        assert str(path) in str(caught.value)


def test_text_and_file_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="not both"):
        read_inputs(["I like jam"], tmp_path / "texts")
