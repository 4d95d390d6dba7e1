"""The header of a GGUF file: its metadata and where its tensors stand, all checked before use.

Layout (little-endian): "GGUF", version, number of tensors, number of pairs; each pair a key, a
type and a value; each tensor a name, its sizes (innermost first), a type and an offset into the
data, which begins at the next multiple of `general.alignment`. Strings are a 64-bit length and
UTF-8 bytes. No count of the file sizes an allocation or a loop before it is held against the
bytes that are there.

Source: docs/gguf.md of ggml.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attncli.checkpoints.gguf_types import BLOCKS, TYPE_NAMES
from attncli.errors import ModelProblem

Array = np.ndarray
Buffer = memoryview

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_PAIRS = 65_536
MAX_TENSORS = 262_144
MAX_KEY = 65_535
"""Bytes of a key; the limit of the format."""
MAX_NAME = 1_024
"""Bytes of a tensor's name; ggml itself allows 64."""
MAX_STRING = 64 << 20
MAX_TEXTS = 10_000_000
"""Strings in all arrays of a file; the largest vocabularies have a quarter of a million."""
MAX_DIMENSIONS = 4
MAX_ALIGNMENT = 1 << 16

_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "|b1",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_LENGTH = struct.Struct("<Q")
_UINT32 = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Texts:
    """An array of strings that stays in the file: UTF-8 bytes, decoded by whoever needs them."""

    _buffer: Buffer
    _start: int
    """Where the first string's length stands."""
    _count: int

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        data, at, length = self._buffer, self._start, _LENGTH.unpack_from
        for _ in range(self._count):
            end = at + 8 + length(data, at)[0]
            yield bytes(data[at + 8 : end])
            at = end


Value = str | int | float | bool | Array | Texts


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor as the header describes it."""

    name: str
    type: str
    """Storage type, such as F32 or Q4_K."""
    shape: tuple[int, ...]
    """Outermost first, as numpy writes it: a projection is (output, input)."""
    start: int
    """First byte in the file."""
    n_bytes: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What stands before the tensors of one file."""

    version: int
    metadata: Mapping[str, Value]
    tensors: Mapping[str, GgufTensor]


def read_header(path: Path, data: Buffer) -> GgufHeader:
    """Parse and check the header of a whole file's bytes.

    Raises:
        ModelProblem: not a GGUF file, of a version or byte order attn does not read, cut short, or
            with counts, types, names or positions that cannot be right.
    """
    return _Parser(path, data).header()


class _Parser:
    """Walks through the header; every step first asks whether the bytes are there."""

    def __init__(self, path: Path, data: Buffer) -> None:
        self._path, self._data, self._size = path, data, len(data)
        self._at = 0
        self._texts = 0

    def header(self) -> GgufHeader:
        version = self._version()
        n_tensors = self._count("tensors", MAX_TENSORS, least_bytes=32)
        n_pairs = self._count("metadata pairs", MAX_PAIRS, least_bytes=13)
        metadata: dict[str, Value] = {}
        for _ in range(n_pairs):
            key = self._string("a key", MAX_KEY)
            if key in metadata:
                raise self._broken(f"the key {key!r} occurs twice")
            metadata[key] = self._value(key)
        described = [self._tensor() for _ in range(n_tensors)]
        alignment = metadata.get("general.alignment", 32)
        if type(alignment) is not int or not 0 < alignment <= MAX_ALIGNMENT or alignment % 8:
            raise self._broken(
                f"general.alignment is {alignment!r}, expected a multiple of 8 up to "
                f"{MAX_ALIGNMENT:,}"
            )
        data_start = -(-self._at // alignment) * alignment
        return GgufHeader(version, metadata, self._place(described, alignment, data_start))

    def _version(self) -> int:
        head = bytes(self._data[:8])
        if head[:4] != MAGIC:
            raise ModelProblem(f"{self._path}: not a GGUF file (it begins with {head[:4]!r}).")
        if len(head) < 8:
            raise self._cut_short()
        version = int(_UINT32.unpack_from(head, 4)[0])
        if version not in VERSIONS:
            if int.from_bytes(head[4:8], "big") in VERSIONS:
                raise ModelProblem(
                    f"{self._path}: a big-endian GGUF file; attn reads little-endian ones "
                    "(gguf-convert-endian FILE little, of the gguf package, turns it round)."
                )
            raise ModelProblem(
                f"{self._path}: GGUF version {version}, attn reads versions 2 and 3; "
                "get a newer conversion of the model."
            )
        self._at = 8
        return version

    def _value(self, key: str) -> Value:
        kind = self._uint32()
        if kind in _SCALARS:
            (value,) = self._numbers(_SCALARS[kind], 1).tolist()
            return value
        if kind == _STRING:
            return self._string(f"the value of {key}", MAX_STRING)
        if kind != _ARRAY:
            raise self._broken(f"{key} has the unknown type {kind}")
        kind = self._uint32()
        if kind in _SCALARS:
            dtype = _SCALARS[kind]
            count = self._count(f"values of {key}", self._size, np.dtype(dtype).itemsize)
            return self._numbers(dtype, count)
        if kind != _STRING:
            what = "arrays" if kind == _ARRAY else f"items of the unknown type {kind}"
            raise self._broken(f"{key} is an array of {what}")
        return self._string_array(key)

    def _string_array(self, key: str) -> Texts:
        count = self._count(f"strings of {key}", MAX_TEXTS - self._texts, least_bytes=8)
        self._texts += count
        data, at, start = self._data, self._at, self._at
        last, length = self._size - 8, _LENGTH.unpack_from
        for _ in range(count):
            if at > last:
                raise self._cut_short()
            at += 8 + length(data, at)[0]
        if at > self._size:
            raise self._cut_short()
        self._at = at
        return Texts(data, start, count)

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        """Return name, shape (outermost first), number of its type, offset into the data."""
        name = self._string("a tensor's name", MAX_NAME)
        n_dimensions = self._uint32()
        if not 0 < n_dimensions <= MAX_DIMENSIONS:
            raise self._broken(
                f"tensor {name!r} has {n_dimensions:,} dimensions, expected 1 to {MAX_DIMENSIONS}"
            )
        sizes = [self._uint64() for _ in range(n_dimensions)]
        return name, tuple(reversed(sizes)), self._uint32(), self._uint64()

    def _place(
        self,
        described: list[tuple[str, tuple[int, ...], int, int]],
        alignment: int,
        data_start: int,
    ) -> dict[str, GgufTensor]:
        tensors: dict[str, GgufTensor] = {}
        for name, shape, kind, offset in described:
            if name in tensors:
                raise self._broken(f"the tensor {name!r} occurs twice")
            n_bytes = self._n_bytes(name, shape, kind)
            start = data_start + offset
            if offset % alignment:
                raise self._broken(
                    f"tensor {name!r} begins at byte {offset:,} of the data, "
                    f"which is no multiple of {alignment}"
                )
            if start + n_bytes > self._size:
                raise self._broken(
                    f"tensor {name!r} ends at byte {start + n_bytes:,}, the file has "
                    f"{self._size:,}; the download may be incomplete"
                )
            tensors[name] = GgufTensor(name, TYPE_NAMES[kind], shape, start, n_bytes)
        end, before = data_start, ""
        for tensor in sorted(tensors.values(), key=lambda tensor: (tensor.start, tensor.n_bytes)):
            if tensor.start < end and tensor.n_bytes:
                raise self._broken(f"tensors {before!r} and {tensor.name!r} overlap")
            end, before = tensor.start + tensor.n_bytes, tensor.name
        return tensors

    def _n_bytes(self, name: str, shape: tuple[int, ...], kind: int) -> int:
        if kind not in TYPE_NAMES:
            raise ModelProblem(
                f"{self._path}: tensor {name!r} is of type {kind}, which attn does not know; "
                f"known: {', '.join(BLOCKS)}."
            )
        items, n_bytes = BLOCKS[TYPE_NAMES[kind]]
        # numpy counts the items of an empty array without its zeros
        if math.prod(size or 1 for size in shape) >= 2**60:
            raise self._broken(f"tensor {name!r} has shape {list(shape)}, larger than any file")
        if shape[-1] % items:
            raise self._broken(
                f"tensor {name!r} is {TYPE_NAMES[kind]} with rows of {shape[-1]:,}, "
                f"expected a multiple of {items}"
            )
        return math.prod(shape) // items * n_bytes

    def _count(self, what: str, most: int, least_bytes: int) -> int:
        """Read a count that the rest of the file must have room for."""
        count = self._uint64()
        if count > most or count * least_bytes > self._size - self._at:
            raise self._broken(
                f"it promises {count:,} {what}, more than fit the {self._size:,} bytes of the "
                "file or make sense; the download may be incomplete"
            )
        return count

    def _string(self, what: str, most: int) -> str:
        length = self._uint64()
        if length > most:
            raise self._broken(f"{what} has {length:,} bytes, expected at most {most:,}")
        try:
            return str(self._take(length), "utf-8")
        except UnicodeDecodeError:
            raise self._broken(f"{what} is not UTF-8") from None

    def _numbers(self, dtype: str, count: int) -> Array:
        return np.frombuffer(self._take(np.dtype(dtype).itemsize * count), dtype)

    def _uint32(self) -> int:
        return int(_UINT32.unpack(self._take(4))[0])

    def _uint64(self) -> int:
        return int(_LENGTH.unpack(self._take(8))[0])

    def _take(self, n_bytes: int) -> Buffer:
        end = self._at + n_bytes
        if end > self._size:
            raise self._cut_short()
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def _cut_short(self) -> ModelProblem:
        return self._broken(
            f"its header goes on after its {self._size:,} bytes; the download may be incomplete"
        )

    def _broken(self, why: str) -> ModelProblem:
        return ModelProblem(f"{self._path}: not a sound GGUF file: {why}.")
