"""The safetensors format: an 8-byte length, a JSON header, then the tensors' bytes without gaps.

Own reader, because the safetensors package cannot give numpy BF16 tensors or single rows. The
header is checked in full before a byte of data is used: every name once, known types, shapes
that match their byte ranges, ranges that cover the data exactly.

Source: the format section of the safetensors README.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attncli._shapes import Float, Int, Shaped
from attncli.checkpoints import packed
from attncli.checkpoints.refusals import refuse_other_files
from attncli.checkpoints.store import TensorInfo
from attncli.errors import ModelProblem

Array = np.ndarray

MAX_HEADER = 100_000_000
"""Bytes; the limit of the reference implementation."""

ITEM_TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U8": "|u1",
    "BOOL": "|b1",
}
FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
_WRITTEN_TYPES = {np.dtype(item).name: name for name, item in ITEM_TYPES.items() if name != "BF16"}


class SafetensorsFile:
    """One safetensors file, memory-mapped; tensors are read when asked for."""

    def __init__(self, path: Path) -> None:
        """Map the file and check its header.

        Raises:
            ModelProblem: the file is missing, empty, cut short, or its header is not sound.
        """
        self._path = path
        try:
            with path.open("rb") as file:
                size = path.stat().st_size
                refuse_other_files(path, file.read(512), size)
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as problem:
            raise ModelProblem(f"{path}: cannot be read ({problem.strerror}).") from None
        self._header, self.metadata, self._data = _read_header(path, self._map, size)
        self.is_packed = "attn.packed" in self.metadata
        if self.is_packed and self.metadata["attn.packed"] != packed.METADATA["attn.packed"]:
            raise ModelProblem(
                f"{path}: packed as {self.metadata['attn.packed']!r}, this version of attn reads "
                f"{packed.METADATA['attn.packed']!r}. Pack it again from the original."
            )
        self._tensors = self._describe()

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def files(self) -> tuple[Path, ...]:
        """The file."""
        return (self._path,)

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """Tensors by name; a packed pair of values and scales counts as one."""
        return self._tensors

    def read(self, name: str, out: Float[Array, "..."] | None = None) -> Shaped[Array, "..."]:
        """Return one whole tensor as float32 (or its integers as they are)."""
        return self._values(name, ..., out)

    def rows(
        self, name: str, index: Sequence[int] | Int[Array, " row"] | slice
    ) -> Shaped[Array, "row ..."]:
        """Return chosen rows (or a range) as float32; only their bytes are touched."""
        return self._values(name, index if isinstance(index, slice) else np.asarray(index))

    def _values(self, name: str, index: Any, out: Array | None = None) -> Array:
        values = self._raw(name)[index]
        dtype = self._header[name]["dtype"]
        if self._tensors[name].dtype == "Q8":
            scales = self._raw(name + packed.SCALE_SUFFIX)[index]
            return packed.unpack(values, self._finite(name, scales), out)
        if dtype == "BF16":
            values = np.asarray(values.astype(np.uint32) << 16).view(np.float32)
        elif dtype in FLOATS:
            values = values.astype(np.float32, copy=False)
        return self._finite(name, values) if dtype in FLOATS else values

    def _finite(self, name: str, values: Array) -> Array:
        if not np.isfinite(values).all():
            raise ModelProblem(
                f"{self._path}: tensor {name} holds NaN or infinite values; "
                "every result would be wrong. Get a sound copy of the checkpoint."
            )
        return values

    def _raw(self, name: str) -> Array:
        entry = self._header[name]
        dtype = np.dtype(ITEM_TYPES[entry["dtype"]])
        start, stop = entry["data_offsets"]
        count = (stop - start) // dtype.itemsize
        flat = (
            np.frombuffer(self._map, dtype, count, self._data + start)
            if count
            else np.empty(0, dtype)
        )
        return flat.reshape(entry["shape"])

    def _describe(self) -> dict[str, TensorInfo]:
        described = {}
        for name, entry in self._header.items():
            start, stop = entry["data_offsets"]
            info = TensorInfo(entry["dtype"], tuple(entry["shape"]), stop - start)
            if self.is_packed and entry["dtype"] == "I8":
                info = self._packed_info(name, info)
            elif self.is_packed and name.endswith(packed.SCALE_SUFFIX):
                continue
            described[name] = info
        return described

    def _packed_info(self, name: str, info: TensorInfo) -> TensorInfo:
        scale = self._header.get(name + packed.SCALE_SUFFIX)
        expected = [*info.shape[:-1], info.shape[-1] // packed.GROUP] if info.shape else []
        if not packed.can_pack(info.shape) or scale is None or scale["shape"] != expected:
            raise ModelProblem(
                f"{self._path}: packed tensor {name} has no scales of shape {expected}."
            )
        start, stop = scale["data_offsets"]
        return TensorInfo("Q8", info.shape, info.n_bytes + stop - start)


def _read_header(
    path: Path, data: mmap.mmap, size: int
) -> tuple[dict[str, Any], dict[str, str], int]:
    """Return (entries by name, metadata, where the tensors' bytes begin)."""

    def broken(why: str) -> ModelProblem:
        return ModelProblem(f"{path}: not a sound safetensors file: {why}.")

    length = int.from_bytes(data[:8], "little")
    if size < 8 or length > min(size - 8, MAX_HEADER):
        raise broken(
            f"its first 8 bytes promise a header of {length:,} bytes, the file has {size:,}; "
            "the download may be incomplete"
        )
    try:
        header = json.loads(data[8 : 8 + length], object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as problem:
        why = problem if isinstance(problem, _DuplicateName) else "its header is not valid JSON"
        raise broken(str(why)) from None
    if not isinstance(header, dict):
        raise broken("its header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise broken("its metadata is not a map of strings")
    for name, entry in header.items():
        why_not = _check_entry(entry)
        if why_not:
            raise broken(f"tensor {name!r}: {why_not}")
    end = 0
    for start, stop, name in sorted(
        (*entry["data_offsets"], name) for name, entry in header.items()
    ):
        if start != end:
            raise broken(f"tensor {name!r} begins at byte {start:,} of the data, expected {end:,}")
        end = stop
    if 8 + length + end != size:
        short = 8 + length + end > size
        reason = "the download may be incomplete" if short else "the rest belongs to no tensor"
        raise broken(
            f"its header promises {8 + length + end:,} bytes, the file has {size:,}; {reason}"
        )
    return header, metadata, 8 + length


def _check_entry(entry: Any) -> str:
    """Return what is wrong with one header entry, or an empty string."""
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        return "needs dtype, shape and data_offsets"
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ITEM_TYPES:
        return f"type {dtype!r} is not one of {', '.join(ITEM_TYPES)}"
    if not _counts(shape) or len(shape) > 8:
        return f"shape {shape!r} is not a list of up to 8 counts"
    # numpy counts the items of an empty array without its zeros
    if math.prod(count or 1 for count in shape) >= 2**60:
        return f"shape {shape!r} is larger than any file"
    if not _counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        return f"data_offsets {offsets!r} are not two rising positions"
    expected = math.prod(shape) * np.dtype(ITEM_TYPES[dtype]).itemsize
    if offsets[1] - offsets[0] != expected:
        found = offsets[1] - offsets[0]
        return f"{dtype} of shape {shape} needs {expected:,} bytes, its range has {found:,}"
    return ""


def _counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(v) is int and 0 <= v < 2**63 for v in value)


class _DuplicateName(ValueError):
    pass


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _DuplicateName(f"the name {name!r} occurs twice in its header")
        found[name] = value
    return found


def write_safetensors(
    path: Path, tensors: Mapping[str, Array], metadata: Mapping[str, str]
) -> None:
    """Write arrays of numbers as a safetensors file.

    Widest numbers first, then by name, and the header padded to 8 bytes: every tensor is aligned
    and the same tensors give the same bytes. A mapping may make its arrays one at a time; each is
    asked for twice. Nothing is written, the folder neither, before every array was made once.
    """
    kinds = {name: (array.dtype, array.shape, array.nbytes) for name, array in tensors.items()}
    order = sorted(kinds, key=lambda name: (-kinds[name][0].itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))} if metadata else {}
    end = 0
    for name in order:
        dtype, shape, n_bytes = kinds[name]
        offsets = [end, end + n_bytes]
        header[name] = {
            "dtype": _WRITTEN_TYPES[dtype.name],
            "shape": list(shape),
            "data_offsets": offsets,
        }
        end += n_bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name in order:
            file.write(np.ascontiguousarray(tensors[name]).tobytes())
