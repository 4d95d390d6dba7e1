"""The safetensors reader and writer, down to the bytes; only ModelProblem may escape."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.checkpoints.safetensors import SafetensorsFile, write_safetensors
from attncli.errors import ModelProblem

F32_PAIR = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def compose(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """Return the bytes of a file with this header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def opened(file: Path, content: bytes) -> SafetensorsFile:
    file.write_bytes(content)
    return SafetensorsFile(file)


def test_literal_bytes_are_read_as_the_format_says(file: Path) -> None:
    header = b'{"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}'
    store = opened(file, b"\x38\0\0\0\0\0\0\0" + header + b"\0\0\x80\x3f\0\0\0\xc0")
    assert store.read("a").tolist() == [[1.0], [-2.0]]
    assert store.tensors["a"].shape == (2, 1)


@pytest.mark.parametrize(
    ("dtype", "data", "values"),
    [
        ("F64", struct.pack("<2d", 0.5, -3), [0.5, -3]),
        ("F32", struct.pack("<2f", 0.5, -3), [0.5, -3]),
        ("F16", struct.pack("<2e", 0.5, -3), [0.5, -3]),
        # bfloat16 is the upper half of a float32: 0x3f00 = 0.5, 0xc040 = -3
        ("BF16", b"\x00\x3f\x40\xc0", [0.5, -3]),
        ("I64", struct.pack("<2q", 2**40, -3), [2**40, -3]),
    ],
)
def test_types_are_widened_to_float32_and_integers_stay(
    file: Path, dtype: str, data: bytes, values: list[float]
) -> None:
    entry = {"dtype": dtype, "shape": [2], "data_offsets": [0, len(data)]}
    read = opened(file, compose({"a": entry}, data)).read("a")
    assert read.tolist() == values
    assert read.dtype == (np.int64 if dtype == "I64" else np.float32)


def test_rows_are_those_of_the_whole_tensor(file: Path) -> None:
    values = np.random.default_rng(0).normal(size=(7, 32)).astype(np.float32)
    write_safetensors(file, {"a": values}, {})
    store = SafetensorsFile(file)
    index = [6, 0, 0, 3]
    np.testing.assert_array_equal(store.rows("a", index), store.read("a")[index])


def test_scalar_and_empty_tensors_are_sound(file: Path) -> None:
    write_safetensors(file, {"s": np.array(3, np.float32), "e": np.zeros((0, 4), np.float32)}, {})
    store = SafetensorsFile(file)
    assert store.read("s").shape == ()
    assert store.read("e").shape == (0, 4)
    half = {"dtype": "BF16", "shape": [], "data_offsets": [0, 2]}
    assert opened(file, compose({"a": half}, b"\x00\x3f")).read("a") == 0.5


BROKEN = {
    "header longer than the file": (compose({}, length=10**15), "the file has 10"),
    "shorter than eight bytes": (b"\x01\0\0", "the file has 3"),
    "data cut short": (compose({"a": F32_PAIR}, b"1234567"), "incomplete"),
    "data too long": (compose({"a": F32_PAIR}, b"123456789"), "the rest belongs to no tensor"),
    "git lfs pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0",
        "git lfs pull",
    ),
    "web page": (b"\n<!DOCTYPE html><html>Not found</html>", "web page"),
    "empty file": (b"", "empty"),
    "list as header": (compose([]), "not a JSON object"),
    "not json": (compose(b"{'a': 1}"), "not valid JSON"),
    "not text": (compose(b"\xff\xfe\xfd\xfc"), "not valid JSON"),
    "deep nesting": (compose(b"[" * 200_000), "not valid JSON"),
    "name twice": (
        compose(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{}}'),
        "'a' occurs twice",
    ),
    "key twice within an entry": (compose(b'{"a":{"dtype":"U8","dtype":"F32"}}'), "'dtype' occurs"),
    "overlap": (
        compose({"a": F32_PAIR, "b": {**F32_PAIR, "data_offsets": [4, 12]}}, bytes(12)),
        "'b' begins at byte 4",
    ),
    "gap": (
        compose({"a": F32_PAIR, "b": {**F32_PAIR, "data_offsets": [9, 17]}}, bytes(17)),
        "'b' begins at byte 9",
    ),
    "gap before the first": (
        compose({"a": {**F32_PAIR, "data_offsets": [1, 9]}}, bytes(9)),
        "'a' begins at byte 1",
    ),
    "reversed offsets": (
        compose({"a": {**F32_PAIR, "data_offsets": [8, 0]}}, bytes(8)),
        "'a': data_offsets",
    ),
    "three offsets": (compose({"a": {**F32_PAIR, "data_offsets": [0, 8, 8]}}, bytes(8)), "'a'"),
    "past the end": (
        compose({"a": {"dtype": "U8", "shape": [100], "data_offsets": [0, 100]}}, bytes(8)),
        "incomplete",
    ),
    "unknown type": (compose({"a": {**F32_PAIR, "dtype": "F8_E4M3"}}, bytes(8)), "'F8_E4M3'"),
    "type that is no string": (
        compose({"a": {**F32_PAIR, "dtype": ["F32"]}}, bytes(8)),
        "'a': type",
    ),
    "negative count": (compose({"a": {**F32_PAIR, "shape": [-2]}}, bytes(8)), "'a': shape"),
    "count that is no integer": (compose({"a": {**F32_PAIR, "shape": [2.0]}}, bytes(8)), "shape"),
    "count that is a flag": (compose({"a": {**F32_PAIR, "shape": [True, 2]}}, bytes(8)), "shape"),
    "shape that does not fill its range": (
        compose({"a": {**F32_PAIR, "shape": [3]}}, bytes(8)),
        "needs 12 bytes",
    ),
    "empty tensor of absurd shape": (
        compose({"a": {"dtype": "F32", "shape": [2**62, 2**62, 0], "data_offsets": [0, 0]}}),
        "'a': shape",
    ),
    "entry without offsets": (compose({"a": {"dtype": "F32", "shape": [0]}}), "'a': needs"),
    "entry that is no object": (compose({"a": 3}), "'a': needs"),
    "metadata of numbers": (compose({"__metadata__": {"format": 1}}), "metadata"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_malformed_file_is_refused_in_one_line_with_its_path(file: Path, name: str) -> None:
    content, part = BROKEN[name]
    with pytest.raises(ModelProblem) as caught:
        opened(file, content)
    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    assert part in message
    assert "\n" not in message


def test_missing_file_and_folder_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(ModelProblem, match="cannot be read"):
            SafetensorsFile(path)


@pytest.mark.parametrize(
    ("dtype", "data"),
    [("F32", struct.pack("<2f", 1, np.nan)), ("F16", b"\0\0\0\x7c"), ("BF16", b"\0\0\x80\x7f")],
)
def test_nan_and_infinity_are_refused_by_the_tensors_name(
    file: Path, dtype: str, data: bytes
) -> None:
    entry = {"dtype": dtype, "shape": [2], "data_offsets": [0, len(data)]}
    store = opened(file, compose({"layer.0.weight": entry}, data))
    with pytest.raises(ModelProblem, match=r"layer\.0\.weight holds NaN"):
        store.read("layer.0.weight")
    assert store.rows("layer.0.weight", [0]).size == 1


def test_writer_is_deterministic_aligned_and_round_trips(tmp_path: Path) -> None:
    tensors = {
        "odd": np.arange(3, dtype=np.int8),
        "half": np.arange(3, dtype=np.float16),
        "wide": np.arange(3, dtype=np.int64),
        "single": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "flags": np.array([True, False]),
    }
    first, second = tmp_path / "1", tmp_path / "2"
    write_safetensors(first, tensors, {"b": "2", "a": "1"})
    write_safetensors(second, dict(reversed(tensors.items())), {"a": "1", "b": "2"})
    content = first.read_bytes()
    assert content == second.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    for name, array in tensors.items():
        assert (8 + length + header[name]["data_offsets"][0]) % array.itemsize == 0
    store = SafetensorsFile(first)
    for name, array in tensors.items():
        np.testing.assert_array_equal(store.read(name), array)


VALID = compose(
    {
        "__metadata__": {"attn.packed": "q8/32"},
        "a": {"dtype": "I8", "shape": [1, 32], "data_offsets": [0, 32]},
        "a.scale": {"dtype": "F16", "shape": [1, 1], "data_offsets": [32, 34]},
        "b": {"dtype": "F32", "shape": [2], "data_offsets": [34, 42]},
    },
    bytes(42),
)


def read_all(file: Path, content: bytes) -> None:
    """Open and read every tensor; a ModelProblem is the only way to fail."""
    try:
        store = opened(file, content)
        for name in store.tensors:
            store.read(name)
    except ModelProblem:
        return


@given(st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.binary(max_size=3)), max_size=4))
def test_damaged_files_raise_only_model_problems(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, bytes]]
) -> None:
    content = bytearray(VALID)
    for at, replacement in edits:
        content[at : at + len(replacement)] = replacement
    read_all(tmp_path_factory.getbasetemp() / "damaged", bytes(content))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
ENTRY = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "I8", "F16", "BOOL"]) | JSON,
        "shape": st.lists(st.integers(-1, 2**64), max_size=4) | JSON,
        "data_offsets": st.lists(st.integers(0, 40), min_size=2, max_size=2) | JSON,
    }
)


@given(st.dictionaries(st.text(max_size=8), ENTRY | JSON, max_size=3), st.binary(max_size=40))
def test_hostile_headers_raise_only_model_problems(
    tmp_path_factory: pytest.TempPathFactory, header: dict[str, Any], data: bytes
) -> None:
    read_all(tmp_path_factory.getbasetemp() / "hostile", compose(header, data))
