"""Every format takes every result and loses no number of it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from rich.cells import cell_len

from attncli.numbers import format_fraction, to_json
from attncli.outputs import FORMATS, Format, deliver
from attncli.outputs.sink import Sink
from attncli.results import Matrix
from tests.outputs.streams import to_file


def test_every_format_the_option_offers_has_a_module() -> None:
    from attncli.commands.options import OutputFormat

    assert set(FORMATS) == set(get_args(Format)) == set(get_args(get_args(OutputFormat)[0]))


def test_table_shows_headline_titles_and_numbers(sample: Any, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = to_file([sample], "table", tmp_path).decode()
    assert sample.headline() in text
    for shown in sample.tables():
        if isinstance(shown, Matrix):
            assert shown.title in text
            for row in shown.values:
                numbers = ["–" if np.isneginf(v) else format_fraction(float(v)) for v in row]
                assert any(line.split()[-len(numbers) :] == numbers for line in text.splitlines())


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_of_a_table_is_wider_than_the_terminal(
    sample: Any, width: int, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = to_file([sample], "table", tmp_path).decode()
    assert [line for line in text.splitlines() if cell_len(line) > width] == []


@pytest.mark.parametrize("format_", ["json", "jsonl"])
def test_json_is_one_line_with_the_whole_record(sample: Any, format_: str, tmp_path: Path) -> None:
    text = to_file([sample, sample], format_, tmp_path).decode()
    assert [json.loads(line) for line in text.splitlines()] == [sample.record()] * 2


def test_csv_holds_every_row_with_the_same_float32(sample: Any, tmp_path: Path) -> None:
    text = to_file([sample], "csv", tmp_path).decode()
    heading, *rows = csv.reader(io.StringIO(text))
    table = sample.tidy()
    assert heading[: len(table.columns) + 1] == ["text", *(c.name for c in table.columns)]
    assert len(rows) == len(table.rows)
    for written, row in zip(rows, table.rows, strict=True):
        for cell, value in zip(written[1:], row, strict=False):
            if isinstance(value, float):
                assert cell == "" if np.isneginf(value) else np.float32(cell) == np.float32(value)


def test_markdown_has_every_row_and_equally_many_cells(sample: Any, tmp_path: Path) -> None:
    text = to_file([sample], "markdown", tmp_path).decode()
    lines = [line for line in text.splitlines() if line.startswith("|")]
    wanted = []
    for shown in sample.tables():
        rows = shown.queries if isinstance(shown, Matrix) else shown.rows
        columns = (
            [None, *shown.keys]
            if isinstance(shown, Matrix)
            else [column for column in shown.columns if column.kind != "bar"]
        )
        wanted += [len(columns) + 1] * (len(rows) + 2)
    assert [line.replace("\\|", "").count("|") for line in lines] == wanted


def test_npz_holds_every_array(sample: Any, tmp_path: Path) -> None:
    data = to_file([sample], "npz", tmp_path)
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        assert set(archive.files) == set(sample.arrays())
        for name, values in sample.arrays().items():
            np.testing.assert_array_equal(archive[name], values)


def test_every_number_of_the_tables_is_in_the_json(sample: Any) -> None:
    record = sample.record()
    numbers = set(_numbers(record))
    for shown in sample.tables():
        if isinstance(shown, Matrix):
            # what a causal model cannot see is a dash in the table and a weight of 0 in the JSON
            unseen = None if shown.name == "scores" else 0.0
            held = record[shown.name]
            assert (held["matrix"] if isinstance(held, dict) else held) == [
                [unseen if value is None else value for value in row]
                for row in to_json(shown.values)
            ]
        else:
            cells = [value for row in shown.rows for value in row]
            floats = {to_json(value) for value in cells if isinstance(value, float)}
            assert floats <= numbers, f"table {shown.name} shows numbers that the JSON lacks"


@pytest.mark.parametrize("format_", FORMATS)
def test_random_weights_say_so_in_every_format(
    random_sample: Any, format_: Format, tmp_path: Path
) -> None:
    data = to_file([random_sample], format_, tmp_path)
    if format_ == "npz":
        with np.load(io.BytesIO(data)) as archive:
            assert bool(archive["random"])
    elif format_ in ("json", "jsonl"):
        assert json.loads(data)["model"]["random"] is True
    elif format_ == "csv":
        assert {row["weights_are"] for row in csv.DictReader(io.StringIO(data.decode()))} == {
            "random"
        }
    else:
        assert "random weights" in data.decode()


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
@pytest.mark.parametrize("format_", [name for name in FORMATS if name != "npz"])
def test_streams_with_few_characters_take_every_result(
    sample: Any, format_: Format, encoding: str, stdout
) -> None:
    stream = stdout(encoding)
    deliver([sample], format_, Sink())
    assert stream.written.strip()


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _numbers(part)
    elif isinstance(value, int | float):
        yield value
