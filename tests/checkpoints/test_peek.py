"""The first metadata of a GGUF file."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.checkpoints.peek import GgufPeek, peek_gguf
from attncli.errors import ModelProblem
from tests.stores import gguf


def peek(folder: Path, data: bytes) -> GgufPeek:
    (folder / "m.gguf").write_bytes(data)
    return peek_gguf(folder / "m.gguf")


def test_file_says_what_it_is(tmp_path: Path) -> None:
    assert peek(tmp_path, gguf("qwen3", layers=28, heads=16, kind=15)) == GgufPeek(
        "qwen3", 28, 16, "Q4_K_M"
    )


@pytest.mark.parametrize(("kind", "name"), [(0, "F32"), (7, "Q8_0"), (18, "Q6_K"), (32, "BF16"),
                                            (4, ""), (33, ""), (999, "")])  # fmt: skip
def test_storage_type_by_its_number(tmp_path: Path, kind: int, name: str) -> None:
    assert peek(tmp_path, gguf(kind=kind)).storage == name


def test_heads_that_differ_between_layers_are_not_one_number(tmp_path: Path) -> None:
    assert peek(tmp_path, gguf(heads=[4, 4, 4])).heads == 4
    assert peek(tmp_path, gguf(heads=[4, 8, 4])).heads is None


def test_other_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelProblem, match=r"m\.gguf: not a GGUF file, it begins with b'PK"):
        peek(tmp_path, b"PK\3\4" + bytes(40))
    with pytest.raises(ModelProblem, match=r"m\.gguf: cut short"):
        peek(tmp_path, gguf()[:20])
    with pytest.raises(ModelProblem, match=r"gone\.gguf: cannot be read"):
        peek_gguf(tmp_path / "gone.gguf")


def test_lengths_of_the_file_are_not_believed(tmp_path: Path) -> None:
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63)
    key = struct.pack("<Q", 1) + b"k"
    for value in (
        struct.pack("<Q", 2**62),
        key + struct.pack("<IQ", 8, 2**62),
        key + struct.pack("<IIQ", 9, 4, 2**62),
        key + struct.pack("<IIQ", 9, 9, 1),
        key + struct.pack("<I", 77),
    ):
        assert peek(tmp_path, head + value) == GgufPeek("", None, None, "")


@given(st.integers(0, 300), st.binary(max_size=8))
def test_damaged_file_is_read_as_far_as_it_goes_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: int, patch: bytes
) -> None:
    data = gguf()
    try:
        found = peek(tmp_path_factory.getbasetemp(), data[:at] + patch + data[at + len(patch) :])
    except ModelProblem:
        return
    assert found.layers is None or found.layers > 0
