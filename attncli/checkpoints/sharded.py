"""Safetensors in several files with an index: one store over all of them.

The index maps every tensor to a file of its folder. No file is opened whose name leads out of
the folder, and what the files hold must be what the index says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from attncli._shapes import Float, Int, Shaped
from attncli.checkpoints.safetensors import SafetensorsFile
from attncli.checkpoints.store import TensorInfo
from attncli.errors import ModelProblem, listing

Array = np.ndarray

MAX_INDEX = 64 << 20
"""Bytes; an index has about a hundred bytes a tensor."""


class ShardedSafetensors:
    """All safetensors files of an index."""

    def __init__(self, index: Path) -> None:
        """Read the index and open its files.

        Raises:
            ModelProblem: the index is not sound or names a file outside its folder; a file is
                missing or not sound; a file lacks a tensor or holds one too many.
        """
        self._path = index
        names = read_weight_map(index)
        files = sorted(set(names.values()))
        missing = [file for file in files if not (index.parent / file).is_file()]
        if missing:
            lost = sum(file in missing for file in names.values())
            raise ModelProblem(
                f"{index}: {len(missing)} of {len(files)} files are missing ({listing(missing)}), "
                f"with {lost} of {len(names)} tensors; download them into the same folder."
            )
        shards = {file: SafetensorsFile(index.parent / file) for file in files}
        self._shards = {name: shards[file] for name, file in names.items()}
        self._check(shards, names)
        self._files = tuple(shard.path for shard in shards.values())

    @property
    def path(self) -> Path:
        """The index."""
        return self._path

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file the index names."""
        return self._files

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """Tensors of all files by name."""
        return {name: shard.tensors[name] for name, shard in self._shards.items()}

    def read(self, name: str, out: Float[Array, "..."] | None = None) -> Shaped[Array, "..."]:
        """Return one whole tensor as float32 (or its integers as they are)."""
        return self._shards[name].read(name, out)

    def rows(
        self, name: str, index: Sequence[int] | Int[Array, " row"] | slice
    ) -> Shaped[Array, "row ..."]:
        """Return chosen rows (or a range) of a tensor without reading the others."""
        return self._shards[name].rows(name, index)

    def _check(self, shards: Mapping[str, SafetensorsFile], names: Mapping[str, str]) -> None:
        expected = {file: set[str]() for file in shards}
        for name, file in names.items():
            expected[file].add(name)
        for file, shard in shards.items():
            absent = expected[file] - shard.tensors.keys()
            if absent:
                elsewhere = sorted(f for f, s in shards.items() if absent & s.tensors.keys())
                hint = f"; {listing(elsewhere)} holds some of them" if elsewhere else ""
                raise ModelProblem(
                    f"{shard.path}: lacks {len(absent)} tensors that {self._path.name} places "
                    f"there ({listing(absent)}){hint}. The files do not belong together."
                )
        for file, shard in shards.items():
            surplus = shard.tensors.keys() - expected[file]
            if surplus:
                raise ModelProblem(
                    f"{shard.path}: holds {len(surplus)} tensors that {self._path.name} does not "
                    f"place there ({listing(surplus)}). The files do not belong together."
                )


def read_weight_map(index: Path) -> dict[str, str]:
    """Return tensor name to file, each file inside the index's folder.

    Raises:
        ModelProblem: the index cannot be read, is no map of names, or a name leads elsewhere.
    """
    try:
        size = index.stat().st_size
        if size > MAX_INDEX:
            raise ModelProblem(f"{index}: {size:,} bytes, expected an index of up to 64 MiB.")
        content = json.loads(index.read_bytes(), object_pairs_hook=_Pairs)
    except OSError as problem:
        raise ModelProblem(f"{index}: cannot be read ({problem.strerror}).") from None
    except (ValueError, RecursionError):
        raise ModelProblem(f"{index}: not valid JSON.") from None
    found = content.last("weight_map") if isinstance(content, _Pairs) else None
    if not isinstance(found, _Pairs) or not found.pairs:
        raise ModelProblem(f"{index}: no weight_map of tensor names to files in it.")
    names: dict[str, str] = {}
    for name, file in found.pairs:
        if name in names:
            raise ModelProblem(f"{index}: the tensor {name!r} occurs twice in weight_map.")
        if not isinstance(file, str) or not _stays_inside(file):
            raise ModelProblem(
                f"{index}: weight_map places {name!r} in {_shown(file)}, expected a .safetensors "
                "file inside the folder; nothing outside it is read."
            )
        names[name] = file
    return names


class _Pairs:
    """A JSON object with its names as written, doubles included."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs

    def last(self, name: str) -> Any:
        return dict(self.pairs).get(name)


def _stays_inside(file: str) -> bool:
    parts = PurePosixPath(file).parts
    return (
        file.endswith(".safetensors")
        and not file.startswith("/")
        and not any(c in file for c in "\\:\0")
        and ".." not in parts
    )


def _shown(value: Any) -> str:
    return repr(value)[:80] if isinstance(value, str) else f"a {type(value).__name__}"
