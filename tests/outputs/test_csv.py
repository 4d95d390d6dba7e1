"""CSV: one long table that spreadsheets read and do not run."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pytest

from attncli.results import Column, Failure, Label, Table
from tests.outputs.streams import HOSTILE, Made, to_file

COLUMNS = [Column("key", "int"), Column("key_text", "label"), Column("weight", "fraction")]


def long(*rows: tuple[object, ...]) -> Table:
    return Table("inspect", "", COLUMNS, rows)


def test_small_table_as_text(tmp_path: Path) -> None:
    first = Made(long=long((0, Label("jam"), 0.25), (1, Label('a "b", c'), 1e-7)))
    second = Made(long=long((0, Label("two\nlines"), -math.inf), (1, None, 0.1)))
    assert to_file([first, second], "csv", tmp_path).decode() == (
        "text,key,key_text,weight\n"
        "0,0,jam,0.25\n"
        '0,1,"a ""b"", c",1e-07\n'
        '1,0,"two\nlines",\n'
        "1,1,,0.1\n"
    )


def test_failed_line_keeps_its_number_and_the_heading_comes_with_the_first_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = [Failure("inspect", 1, "no good"), Made(long=long((0, Label("jam"), 0.5)))]
    assert to_file(results, "csv", tmp_path).decode() == "text,key,key_text,weight\n1,0,jam,0.5\n"
    assert capsys.readouterr().err == "attn: line 1: no good\n"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_cell_that_a_spreadsheet_would_run_is_quoted(text: str, tmp_path: Path) -> None:
    written = to_file([Made(long=long((0, Label(text), 0.5)))], "csv", tmp_path).decode()
    row = list(csv.reader(io.StringIO(written, newline="")))[1]
    assert row[2] == f"'{text}"


def test_negative_numbers_stay_numbers(tmp_path: Path) -> None:
    written = to_file([Made(long=long((0, Label("jam"), -0.5)))], "csv", tmp_path)
    assert written.endswith(b"0,0,jam,-0.5\n")


def test_hostile_labels_come_back_as_typed(tmp_path: Path) -> None:
    rows = [(i, Label(text), 0.5) for i, text in enumerate(HOSTILE)]
    written = to_file([Made(long=long(*rows))], "csv", tmp_path).decode()
    read = list(csv.reader(io.StringIO(written, newline="")))[1:]
    assert [row[2] for row in read] == HOSTILE


def test_notes_go_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = to_file([Made(long=long(), notes=["read this \x1b[31m"])], "csv", tmp_path)
    assert b"read" not in written
    assert capsys.readouterr().err == "attn: read this \\x1b[31m\n"
