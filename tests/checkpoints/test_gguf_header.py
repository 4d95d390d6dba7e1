"""GGUF headers written byte by byte: read as meant, or refused with a reason."""

from __future__ import annotations

import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.checkpoints.gguf_header import GgufHeader, Texts, read_header
from attncli.errors import ModelProblem
from tests.ggufs import gguf_bytes, text

PATH = Path("model.gguf")
METADATA: dict[str, Any] = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.rope.freq_base": 10000.0,
    "flag": True,
    "tokenizer.ggml.tokens": ["a", "é", "", "▁b"],
    "tokenizer.ggml.scores": np.array([0, -1, -2, -3], np.float32),
}
TENSORS = {
    "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b.weight": ("Q4_0", (3, 64), bytes(108)),
    "c.weight": np.arange(5, dtype=np.float16),
}
GOOD = gguf_bytes(METADATA, TENSORS)


def parse(data: bytes) -> GgufHeader:
    return read_header(PATH, memoryview(data))


@pytest.mark.parametrize("version", [2, 3])
def test_header_is_read_as_written(version: int) -> None:
    header = parse(gguf_bytes(METADATA, TENSORS, version=version))
    assert header.version == version
    assert header.metadata["llama.block_count"] == 2
    assert header.metadata["llama.rope.freq_base"] == 10000.0
    assert header.metadata["flag"] is True
    tokens = header.metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, Texts)
    assert [token.decode() for token in tokens] == ["a", "é", "", "▁b"]
    np.testing.assert_array_equal(header.metadata["tokenizer.ggml.scores"], [0, -1, -2, -3])
    placed = {t.name: (t.type, t.shape, t.n_bytes) for t in header.tensors.values()}
    assert placed == {
        "a.weight": ("F32", (2, 3), 24),
        "b.weight": ("Q4_0", (3, 64), 108),
        "c.weight": ("F16", (5,), 10),
    }
    start = header.tensors["c.weight"].start
    assert GOOD[start : start + 10] == TENSORS["c.weight"].tobytes()


def test_alignment_moves_the_data() -> None:
    data = gguf_bytes({**METADATA, "general.alignment": 128}, TENSORS)
    tensors = parse(data).tensors
    assert all(tensor.start % 128 == 0 for tensor in tensors.values())
    start = tensors["a.weight"].start
    assert data[start : start + 24] == TENSORS["a.weight"].tobytes()


def head(n_tensors: int, n_pairs: int, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_pairs)


def tensor(name: str = "t", sizes: tuple[int, ...] = (4,), kind: int = 0, offset: int = 0) -> bytes:
    data = text(name) + struct.pack("<I", len(sizes)) + struct.pack(f"<{len(sizes)}Q", *sizes)
    return data + struct.pack("<IQ", kind, offset)


def file_of(*tensors: bytes, data: int = 64) -> bytes:
    body = head(len(tensors), 0) + b"".join(tensors)
    return body + bytes(-len(body) % 32 + data)


def pair(key: str, kind: int, value: bytes) -> bytes:
    return head(0, 1) + text(key) + struct.pack("<I", kind) + value + bytes(64)


BROKEN = {
    "other file": (b"PK\3\4" + bytes(60), "not a GGUF file"),
    "empty": (b"", "not a GGUF file"),
    "first version": (head(0, 0, version=1), "GGUF version 1, attn reads versions 2 and 3"),
    "later version": (head(0, 0, version=4), "GGUF version 4"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
    "ends after version": (head(0, 0)[:12], "goes on after its 12 bytes"),
    "many tensors": (head(2**63, 0) + bytes(99), "promises 9,223,372,036,854,775,808 tensors"),
    "more tensors than fit": (head(4, 0) + bytes(99), "promises 4 tensors"),
    "many pairs": (head(0, 10**6) + bytes(99), "promises 1,000,000 metadata pairs"),
    "long key": (head(0, 1) + struct.pack("<Q", 2**40) + bytes(99), "a key has 1,099,511,627,776"),
    "key not text": (head(0, 1) + text(b"\xff\xfe") + bytes(99), "a key is not UTF-8"),
    "key twice": (
        head(0, 2) + 2 * (text("k") + struct.pack("<IB", 0, 1)) + bytes(64),
        "the key 'k' occurs twice",
    ),
    "unknown type": (pair("k", 13, b""), "k has the unknown type 13"),
    "long string": (pair("k", 8, struct.pack("<Q", 2**50)), "the value of k has 1,125,899"),
    "string past the end": (pair("k", 8, struct.pack("<Q", 1000)), "goes on after its"),
    "array of arrays": (pair("k", 9, struct.pack("<IQ", 9, 1)), "k is an array of arrays"),
    "array of unknown": (pair("k", 9, struct.pack("<IQ", 77, 1)), "items of the unknown type 77"),
    "many numbers": (pair("k", 9, struct.pack("<IQ", 6, 2**62)), "values of k, more than fit"),
    "many strings": (pair("k", 9, struct.pack("<IQ", 8, 2**60)), "strings of k, more than fit"),
    "string item past the end": (
        pair("k", 9, struct.pack("<IQQ", 8, 1, 2**64 - 1)),
        "goes on after its",
    ),
    "strings past the end": (pair("k", 9, struct.pack("<IQQ", 8, 2, 60)), "goes on after its"),
    "alignment 0": (pair("general.alignment", 4, bytes(4)), "general.alignment is 0"),
    "alignment text": (pair("general.alignment", 8, text("32")), "general.alignment is '32'"),
    "no dimensions": (file_of(tensor(sizes=())), "'t' has 0 dimensions"),
    "five dimensions": (file_of(tensor(sizes=(1,) * 5)), "'t' has 5 dimensions"),
    "name twice": (file_of(tensor(), tensor(offset=32)), "the tensor 't' occurs twice"),
    "unknown storage": (file_of(tensor(kind=99)), "'t' is of type 99, which attn does not know"),
    "half a block": (file_of(tensor(sizes=(33,), kind=2)), "Q4_0 with rows of 33"),
    "huge": (file_of(tensor(sizes=(2**40, 2**40))), "larger than any file"),
    "huge and empty": (file_of(tensor(sizes=(0, 2**62))), "larger than any file"),
    "past the end": (file_of(tensor(sizes=(17,))), "'t' ends at byte"),
    "far past the end": (file_of(tensor(offset=2**63)), "the file has"),
    "not aligned": (file_of(tensor(offset=8)), "begins at byte 8 of the data"),
    "overlap": (
        file_of(tensor("a", (16,)), tensor("b", (4,), offset=32)),
        "tensors 'a' and 'b' overlap",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_header_is_refused(name: str) -> None:
    data, message = BROKEN[name]
    with pytest.raises(ModelProblem) as caught:
        parse(data)
    assert message in str(caught.value)
    assert str(caught.value).startswith("model.gguf: ")
    assert "\n" not in str(caught.value)


def test_every_cut_is_seen() -> None:
    for size in range(len(GOOD)):
        with pytest.raises(ModelProblem):
            parse(GOOD[:size])


def test_vocabulary_of_a_quarter_of_a_million_is_passed_over_quickly() -> None:
    data = gguf_bytes({"k": ["abcdef"] * 262_144}, {})
    began = time.process_time()
    tokens = parse(data).metadata["k"]
    assert time.process_time() - began < 1
    assert len(tokens) == 262_144


# bytes that look like counts and lengths, large and small
SPLICES = st.one_of(
    st.binary(max_size=12),
    st.integers(0, 2**64 - 1).map(lambda number: struct.pack("<Q", number)),
    st.sampled_from([2**31, 2**32 - 1, 2**63, 2**64 - 1, 10**7]).map(
        lambda number: struct.pack("<Q", number)
    ),
)


@settings(max_examples=400)
@given(st.lists(st.tuples(st.integers(0, len(GOOD)), SPLICES), min_size=1, max_size=4))
def test_only_model_problems_escape(splices: list[tuple[int, bytes]]) -> None:
    data = bytearray(GOOD)
    for at, piece in splices:
        data[at : at + len(piece)] = piece
    _parse_within_bounds(bytes(data))


@settings(max_examples=200)
@given(st.binary(max_size=300))
def test_only_model_problems_escape_from_noise(noise: bytes) -> None:
    _parse_within_bounds(b"GGUF" + struct.pack("<I", 3) + noise)


def _parse_within_bounds(data: bytes) -> None:
    tracemalloc.start()
    began = time.process_time()
    try:
        header = parse(data)
    except ModelProblem:
        header = None
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 1 << 20
    assert time.process_time() - began < 0.5
    if header is not None:
        for found in header.tensors.values():
            assert 0 <= found.start <= found.start + found.n_bytes <= len(data)
        for value in header.metadata.values():
            if isinstance(value, Texts):
                list(value)
