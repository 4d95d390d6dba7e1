"""JSON: strict, complete, described by the schemas that ship."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from attncli.numbers import to_json
from attncli.outputs import deliver
from attncli.outputs.sink import Sink
from attncli.results import Failure
from attncli.schemas import read_schema, schema_commands
from tests.outputs.streams import HOSTILE, Made, to_file


def validator(command: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads(read_schema(command)))


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def test_every_result_follows_the_schema_of_its_command(command_and_sample) -> None:
    command, sample = command_and_sample
    record = sample.record()
    assert record["schema"] == f"attn.{command}/1"
    found = [f"{e.json_path}: {e.message}" for e in validator(command).iter_errors(record)]
    assert found == []


@pytest.mark.parametrize("command", ["heads", "inspect", "tokens"])
def test_failed_line_follows_the_schema_of_its_command(command: str) -> None:
    assert validator(command).is_valid(Failure(command, 3, "not UTF-8").record())
    assert not validator(command).is_valid(Failure(command, None, "not UTF-8").record())


@pytest.mark.parametrize("command", schema_commands())
def test_schema_is_sound_and_every_field_is_described_and_closed(command: str) -> None:
    schema = json.loads(read_schema(command))
    Draft202012Validator.check_schema(schema)
    for part in _parts(schema):
        if "properties" in part and part.get("type") is not None:
            assert part["additionalProperties"] is False
            assert set(part["required"]) <= set(part["properties"])
            undescribed = [
                name
                for name, field in part["properties"].items()
                if "description" not in field
                and "description" not in schema["$defs"][field["$ref"].split("/")[-1]]
            ]
            assert undescribed == []


SPOILED = {
    "a weight above 1": lambda r: r["weights"][0].__setitem__(0, 1.5),
    "a negative contribution": lambda r: r["contributions"][0].__setitem__(0, -0.1),
    "a masked weight instead of 0": lambda r: r["weights"][0].__setitem__(0, None),
    "a cosine above 1": lambda r: r["shift"][0]["cosine"].__setitem__(0, 1.01),
    "a number as text": lambda r: r["scores"][0].__setitem__(0, "0.5"),
    "an unknown field": lambda r: r.__setitem__("heatmap", []),
    "no model": lambda r: r.pop("model"),
    "a half failed document": lambda r: r.__setitem__("error", "broken"),
    "another version": lambda r: r.__setitem__("schema", "attn.inspect/2"),
}


@pytest.mark.parametrize("what", SPOILED)
def test_schema_refuses(what: str, samples) -> None:
    record = copy.deepcopy(samples("head").record())
    SPOILED[what](record)
    assert not validator("inspect").is_valid(record)


def test_no_constant_that_is_not_json_is_ever_written(sample: Any, tmp_path) -> None:
    json.loads(to_file([sample], "json", tmp_path), parse_constant=refuse)


def test_nan_stops_the_output_instead_of_reaching_it(tmp_path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_file([Made(document={"weight": float("nan")})], "json", tmp_path)


def test_masked_scores_are_null_and_masked_weights_zero(samples) -> None:
    record = samples("random causal head").record()
    n = len(record["tokens"])
    for query in range(n):
        for key in range(n):
            assert (record["scores"][query][key] is None) == (key > query)
            assert (record["weights"][query][key] == 0) == (key > query)


def test_every_float32_reads_back_as_itself_from_the_written_text(tmp_path) -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 20_000, dtype=np.uint32)
    values = bits.view(np.float32)
    values = values[np.isfinite(values)]
    written = to_file([Made(document={"values": to_json(values)})], "json", tmp_path)
    back = np.array(json.loads(written)["values"], np.float32)
    np.testing.assert_array_equal(back.view(np.uint32), values.view(np.uint32))


def test_hostile_text_comes_back_exactly_and_stays_on_its_line(tmp_path) -> None:
    lines = to_file([Made(document={"text": text}) for text in HOSTILE], "jsonl", tmp_path)
    assert [json.loads(line)["text"] for line in lines.decode().split("\n")[:-1]] == HOSTILE
    assert b"\x1b" not in lines
    assert b"\x00" not in lines


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-16"])
def test_stream_that_is_not_utf8_gets_ascii_only(encoding: str, stdout) -> None:
    stream = stdout(encoding)
    deliver([Made(document={"text": "naïve 日本 · →"})], "json", Sink())
    assert stream.written.isascii()
    assert json.loads(stream.written) == {"text": "naïve 日本 · →"}


def test_utf8_stream_keeps_characters_readable(stdout) -> None:
    stream = stdout()
    deliver([Made(document={"text": "日本"})], "json", Sink())
    assert stream.written == '{"text": "日本"}\n'


def test_terminal_gets_one_field_a_line_and_matrices_one_row_a_line(stdout) -> None:
    stream = stdout(terminal=True)
    document = {"text": "jam", "weights": [[0.5, 0.5], [1.0, 0.0]], "notes": []}
    deliver([Made(document=document)], "json", Sink())
    assert stream.written == (
        "{\n"
        '  "text": "jam",\n'
        '  "weights": [\n'
        "    [0.5, 0.5],\n"
        "    [1.0, 0.0]\n"
        "  ],\n"
        '  "notes": []\n'
        "}\n"
    )


def test_jsonl_is_one_line_a_document_even_at_a_terminal(stdout) -> None:
    stream = stdout(terminal=True)
    deliver([Made(document={"a": [[1]], "b": 2})] * 2, "jsonl", Sink())
    assert stream.written == '{"a": [[1]], "b": 2}\n' * 2


def _parts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for part in value.values():
            yield from _parts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _parts(part)
