"""GGUF files as a tensor store: memory-mapped, unpacked tensor by tensor or row by row.

A model in parts (NAME-00001-of-00003.gguf) is opened by any of them; the first part's metadata
is the model's.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attncli._shapes import Float, Int, Shaped
from attncli.checkpoints.gguf_header import GgufHeader, GgufTensor, Value, read_header
from attncli.checkpoints.gguf_quants import NotFiniteError, dequantise
from attncli.checkpoints.gguf_types import INTERMEDIATE, PLAIN
from attncli.checkpoints.refusals import refuse_other_files
from attncli.checkpoints.store import TensorInfo
from attncli.errors import ModelProblem, listing

Array = np.ndarray

_PART = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
_COUNT, _NUMBER, _TENSORS = "split.count", "split.no", "split.tensors.count"


class GgufFile:
    """One model: a GGUF file, or all its parts."""

    def __init__(self, path: Path) -> None:
        """Map the file, or all parts of the model it is one of, and check every header.

        Raises:
            ModelProblem: a file is missing, cut short, or not sound; parts do not fit together.
        """
        self._path = path
        self._files = tuple(part_paths(path))
        self._maps: list[mmap.mmap] = []
        headers = [self._open(part) for part in self._files]
        self.metadata: Mapping[str, Value] = headers[0].metadata
        self.version = headers[0].version
        self._check_parts(headers)
        self._places = self._join(headers)
        self._tensors = {
            name: TensorInfo(tensor.type, tensor.shape, tensor.n_bytes)
            for name, (_, tensor) in self._places.items()
        }

    @property
    def path(self) -> Path:
        """The file that was asked for."""
        return self._path

    @property
    def files(self) -> tuple[Path, ...]:
        """The file, or all parts of the model in order."""
        return self._files

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """Tensors by name; shapes outermost first, a projection is (output, input)."""
        return self._tensors

    def read(self, name: str, out: Float[Array, "..."] | None = None) -> Shaped[Array, "..."]:
        """Return one whole tensor as float32 (or its integers as they are)."""
        return self._values(name, slice(None), out)

    def rows(
        self,
        name: str,
        index: Sequence[int] | Int[Array, " row"] | slice,
        out: Float[Array, "row ..."] | None = None,
    ) -> Shaped[Array, "row ..."]:
        """Return chosen rows (or a range); only their blocks are touched.

        Args:
            name: the tensor.
            index: rows, in any order.
            out: memory of the result's shape to unpack into; not used when nothing is unpacked.
        """
        return self._values(name, index if isinstance(index, slice) else np.asarray(index), out)

    def _values(self, name: str, index: Any, out: Array | None) -> Array:
        part, tensor = self._places[name]
        data = np.frombuffer(self._maps[part], np.uint8, tensor.n_bytes, tensor.start)
        if tensor.type in PLAIN:
            return self._plain(tensor, data, index)
        if tensor.type in INTERMEDIATE:
            raise ModelProblem(
                f"{self._path}: tensor {name} is stored as {tensor.type}, which only occurs inside "
                "a product and cannot be read back."
            )
        rows, width = tensor.shape[:-1], tensor.shape[-1]
        packed = data.reshape(*rows, -1)[index] if rows else data.reshape(1, -1)
        shape = (*packed.shape[:-1], width) if rows else (width,)
        if out is None or out.shape != shape or out.dtype != np.float32:
            out = np.empty(shape, np.float32)
        try:
            # indexed rows are contiguous or a copy
            dequantise(
                tensor.type,
                np.ascontiguousarray(packed).reshape(-1, packed.shape[-1]),
                out.reshape(-1, width),
            )
        except NotFiniteError:
            raise self._not_finite(name) from None
        return out if rows else out[index]

    def _plain(self, tensor: GgufTensor, data: Array, index: Any) -> Array:
        values = data.view(PLAIN[tensor.type]).reshape(tensor.shape)[index]
        if tensor.type == "BF16":
            values = np.asarray(values.astype(np.uint32) << 16).view(np.float32)
        elif tensor.type.startswith("F"):
            values = values.astype(np.float32, copy=False)
        else:
            return values
        if not np.isfinite(values).all():
            raise self._not_finite(tensor.name)
        return values

    def _not_finite(self, name: str) -> ModelProblem:
        return ModelProblem(
            f"{self._path}: tensor {name} holds NaN or infinite values; "
            "every result would be wrong. Get a sound copy of the model."
        )

    def _open(self, path: Path) -> GgufHeader:
        try:
            with path.open("rb") as file:
                size = path.stat().st_size
                refuse_other_files(path, file.read(512), size)
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as problem:
            raise ModelProblem(f"{path}: cannot be read ({problem.strerror}).") from None
        self._maps.append(mapped)
        return read_header(path, memoryview(mapped))

    def _check_parts(self, headers: list[GgufHeader]) -> None:
        """Every part says which it is, of how many, and how many tensors all have."""
        count = headers[0].metadata.get(_COUNT, 1)
        if count != len(headers):
            raise ModelProblem(
                f"{self._files[0]}: part of a model in {count} files, but named as one of "
                f"{len(headers)}; keep the names NAME-00001-of-0000N.gguf it came with."
            )
        if len(headers) == 1:
            return
        for number, (path, header) in enumerate(zip(self._files, headers, strict=True)):
            said = header.metadata.get(_NUMBER), header.metadata.get(_COUNT)
            if said != (number, count):
                raise ModelProblem(
                    f"{path}: says it is part {said[0]} of {said[1]} (counted from 0), expected "
                    f"{number} of {count}; the files do not belong together."
                )

    def _join(self, headers: list[GgufHeader]) -> dict[str, tuple[int, GgufTensor]]:
        """Return part and place of every tensor."""
        places: dict[str, tuple[int, GgufTensor]] = {}
        for part, header in enumerate(headers):
            twice = places.keys() & header.tensors.keys()
            if twice:
                raise ModelProblem(
                    f"{self._files[part]}: tensors that an earlier part already holds: "
                    f"{listing(twice)}."
                )
            places |= {name: (part, tensor) for name, tensor in header.tensors.items()}
        promised = headers[0].metadata.get(_TENSORS, len(places))
        if promised != len(places):
            raise ModelProblem(
                f"{self._files[0]}: promises {promised} tensors in all parts, they have "
                f"{len(places)}; a part is of another download."
            )
        return places


def part_paths(path: Path) -> list[Path]:
    """Return all parts of the model that a file is part of, in order; most models have one.

    Raises:
        ModelProblem: a part is not there.
    """
    match = _PART.fullmatch(path.name)
    if match is None:
        return [path]
    count = int(match["count"])
    present = {sibling.name for sibling in path.parent.glob(f"*-of-{match['count']}.gguf")}
    names = [
        f"{match['stem']}-{number:05}-of-{match['count']}.gguf" for number in range(1, count + 1)
    ]
    missing = [name for name in names if name not in present]
    if missing or not names:
        raise ModelProblem(
            f"{path}: {len(missing)} of the model's {count} files are missing "
            f"({listing(missing)}); download them into the same folder."
        )
    return [path.with_name(name) for name in names]
