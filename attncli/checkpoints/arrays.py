"""Tensor stores that live in memory: initialised weights, and the arrays of an .npz file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from attncli._shapes import Float, Int, Shaped
from attncli.checkpoints.store import TensorInfo
from attncli.errors import ModelProblem, listing

if TYPE_CHECKING:
    import zipfile

Array = np.ndarray

MAX_BYTES = 4 << 30
"""Largest .npz content believed; toy models are far smaller."""
MAX_RATIO = 100
"""Compression beyond this is no weight matrix but a decompression bomb."""
MAX_ARRAYS = 10_000


class ArrayStore:
    """Named float32 arrays in memory."""

    def __init__(self, path: Path, arrays: Mapping[str, Array]) -> None:
        """Take the arrays and the path that messages name."""
        self._path = path
        self._arrays = arrays
        self._tensors = {
            name: TensorInfo("F32", array.shape, array.nbytes) for name, array in arrays.items()
        }
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise ModelProblem(
                    f"{path}: array {name} holds NaN or infinite values; "
                    "every result would be wrong."
                )

    @property
    def path(self) -> Path:
        """The file, or a name such as random:…."""
        return self._path

    @property
    def files(self) -> tuple[Path, ...]:
        """The file."""
        return (self._path,)

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """Arrays by name."""
        return self._tensors

    def read(self, name: str, out: Float[Array, "..."] | None = None) -> Shaped[Array, "..."]:
        """Return one array."""
        return self._arrays[name]

    def rows(
        self, name: str, index: Sequence[int] | Int[Array, " row"] | slice
    ) -> Float[Array, "row ..."]:
        """Return chosen rows (or a range) of an array."""
        return self._arrays[name][index if isinstance(index, slice) else np.asarray(index)]


def read_npz(path: Path) -> dict[str, Array]:
    """Return the arrays of an .npz file; names in lower case.

    Sizes are checked against the archive's directory before anything is decompressed, and
    Python objects are never read.

    Raises:
        ModelProblem: not an .npz file, objects inside, sizes that do not fit or are absurd.
    """
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if m.filename.endswith(".npy")]
            if len(members) > MAX_ARRAYS or sum(m.file_size for m in members) > MAX_BYTES:
                raise ModelProblem(
                    f"{path}: claims to hold more than attn reads from an .npz file (4 GiB)."
                )
            names = [m.filename[:-4].lower() for m in members]
            if len(set(names)) < len(names):
                raise ModelProblem(f"{path}: array names that differ only in case, or occur twice.")
            return {name: _member(path, archive, m) for name, m in zip(names, members, strict=True)}
    except FileNotFoundError:
        raise ModelProblem(f"{path}: no such file.") from None
    except ModelProblem:
        raise
    except Exception:  # damaged archives make zipfile, zlib and numpy raise a dozen types
        raise ModelProblem(f"{path}: not a sound .npz file (numpy.savez writes one).") from None


def _member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    name = member.filename[:-4]
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, _, dtype = read_header(file, max_header_size=10_000)
        if dtype.hasobject:
            raise ModelProblem(
                f"{path}: array {name} holds Python objects, which attn does not read (they can "
                "run code). Save it as numbers, or the vocabulary as an array of strings."
            )
        claimed = math.prod(shape) * dtype.itemsize
        if claimed != member.file_size - file.tell():
            raise ModelProblem(
                f"{path}: array {name} claims {claimed:,} bytes, the archive has "
                f"{member.file_size - file.tell():,}."
            )
        if claimed > 1 << 20 and claimed > MAX_RATIO * max(1, member.compress_size):
            raise ModelProblem(
                f"{path}: array {name} would grow from {member.compress_size:,} to "
                f"{claimed:,} bytes, as no weights do."
            )
    with archive.open(member) as file:
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def take(path: Path, arrays: dict[str, Array], names: Sequence[str]) -> list[Array]:
    """Take arrays that an .npz model cannot do without.

    Raises:
        ModelProblem: some are missing; lists them and what is there.
    """
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ModelProblem(
            f"{path}: arrays missing: {listing(missing)} (found {listing(arrays) or 'none'}). "
            "Needed: embedding, w_q, w_k, w_v, vocabulary; optional: w_o, n_heads, causal."
        )
    return [arrays.pop(name) for name in names]
