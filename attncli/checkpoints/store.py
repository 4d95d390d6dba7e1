"""What every tensor store offers: names, shapes, and float32 values read when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from attncli._shapes import Float, Int, Shaped
from attncli.checkpoints.gguf_types import QUANTISED

Array = np.ndarray

FLOAT_TYPES = frozenset({"F64", "F32", "F16", "BF16", "Q8"}) | QUANTISED
"""Storage types of numbers that can be parameters; Q8 are attn's packed ones."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor as its file describes it."""

    dtype: str
    """Storage type in the file's own spelling, such as F32, BF16 or Q8."""
    shape: tuple[int, ...]
    n_bytes: int
    """Bytes on disk, scales of packed tensors included."""


@runtime_checkable
class TensorStore(Protocol):
    """A checkpoint file, or several that belong together."""

    @property
    def path(self) -> Path:
        """The file (or folder) that messages name."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that holds tensors."""

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """Every tensor by the name it has in the file."""

    def read(self, name: str, out: Float[Array, "..."] | None = None) -> Shaped[Array, "..."]:
        """Return one whole tensor as float32 (buffers of integers as they are).

        Args:
            name: the tensor.
            out: memory of the tensor's shape to unpack into; not used when nothing is unpacked.
        """

    def rows(
        self, name: str, index: Sequence[int] | Int[Array, " row"] | slice
    ) -> Shaped[Array, "row ..."]:
        """Return chosen rows (or a range) of a tensor as float32 without reading the others."""
