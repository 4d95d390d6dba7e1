"""A GGUF file's tensors under the names, shapes and row orders of a family's checkpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attncli._shapes import Float, Int, Shaped
from attncli.checkpoints.gguf import GgufFile
from attncli.checkpoints.store import TensorInfo
from attncli.errors import ModelProblem
from attncli.model.gguf.architecture import Architecture, Sizes

Array = np.ndarray

_LAYER = re.compile(r"\bblk\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tensor of the checkpoint is in the file."""

    tensor: str
    order: Array | None = None
    """Rows of the file in the checkpoint's order; None: as they are."""
    transposed: bool = False


class GgufCheckpoint:
    """A tensor store that renames; nothing is read before it is asked for."""

    def __init__(self, file: GgufFile, architecture: Architecture, sizes: Sizes) -> None:
        """Map every tensor; those without a name in a checkpoint keep their own.

        Raises:
            ModelProblem: a tensor's rows cannot be brought into order.
        """
        self._file = file
        self._places: dict[str, _Place] = {}
        self._tensors: dict[str, TensorInfo] = {}
        names = dict(architecture.names)
        for sign, others in architecture.names_if.items():
            if sign in file.tensors:
                names |= others
        for tensor, info in file.tensors.items():
            if tensor in architecture.consumed:
                continue
            name, role = _rename(tensor, names)
            place = _Place(
                tensor,
                self._order(tensor, role, architecture, sizes),
                role in architecture.transposed and len(info.shape) == 2,
            )
            shape = info.shape[::-1] if place.transposed else info.shape
            self._places[name] = place
            self._tensors[name] = TensorInfo(info.dtype, shape, info.n_bytes)

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    @property
    def files(self) -> tuple[Path, ...]:
        """The file, or all its parts."""
        return self._file.files

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """Tensors by their name in a checkpoint."""
        return self._tensors

    def read(self, name: str, out: Float[Array, "..."] | None = None) -> Shaped[Array, "..."]:
        """Return one whole tensor as float32."""
        place = self._places[name]
        if place.transposed:
            return self._file.read(place.tensor).T
        if place.order is None:
            return self._file.read(place.tensor, out)
        return self._file.rows(place.tensor, place.order, out)

    def rows(
        self, name: str, index: Sequence[int] | Int[Array, " row"] | slice
    ) -> Shaped[Array, "row ..."]:
        """Return chosen rows (or a range); only their blocks are touched."""
        place = self._places[name]
        index = index if isinstance(index, slice) else np.asarray(index)
        if place.transposed:
            return self._file.read(place.tensor).T[index]
        return self._file.rows(place.tensor, index if place.order is None else place.order[index])

    def _order(
        self, tensor: str, role: str, architecture: Architecture, sizes: Sizes
    ) -> Array | None:
        if role not in architecture.orders:
            return None
        n_rows = self._file.tensors[tensor].shape[0]
        try:
            return architecture.orders[role](sizes, n_rows)
        except ValueError:
            raise ModelProblem(
                f"{self.path}: tensor {tensor} has {n_rows:,} rows, which do not split into "
                f"{sizes.n_heads} heads and {sizes.n_kv_heads} key/value heads."
            ) from None


def _rename(tensor: str, names: Mapping[str, str]) -> tuple[str, str]:
    """Return the name in a checkpoint, and the tensor's role such as attn_q."""
    stem, _, suffix = tensor.rpartition(".")
    match = _LAYER.search(stem)
    pattern = _LAYER.sub("blk.{i}.", stem)
    role = pattern.rsplit(".", 1)[-1]
    if pattern not in names:
        return tensor, role
    name = names[pattern]
    if suffix:
        name = f"{name}.{suffix}"
    return name.replace("{i}", match[1]) if match else name, role
