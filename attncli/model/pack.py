"""Write a model folder again with smaller numbers: 8-bit groups, float16, or float32.

The result is an ordinary folder that `-m` loads: same config and tokenizer, one
model.safetensors. Packing the same original twice gives the same bytes.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from attncli.checkpoints import packed
from attncli.checkpoints.safetensors import FLOATS, SafetensorsFile, write_safetensors
from attncli.checkpoints.store import TensorStore
from attncli.errors import ModelProblem
from attncli.model.load import CHECKSUMS
from attncli.model.locate import locate
from attncli.model.locate.place import WEIGHTS
from attncli.model.resolve import open_folder, resolve

Array = np.ndarray
Dtype = Literal["q8", "f16", "f32"]

COPIED = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
NOTICES = ("LICENSE*", "NOTICE*", "COPYING*")


@dataclass(frozen=True, slots=True)
class Packed:
    """What packing did."""

    folder: Path
    dtype: Dtype
    n_tensors: int
    bytes_before: int
    bytes_after: int
    largest_error: float
    """Largest difference between a number before and after."""


def pack_model(source: Path, folder: Path, dtype: Dtype, *, overwrite: bool = False) -> Packed:
    """Pack the model in `source` (a folder, or the name of a bundled model) into `folder`.

    Only models that attn can compute are packed, so an unknown or incomplete one is refused
    before anything is written.

    Raises:
        ModelProblem: the source cannot be read, or the folder holds a model already.
    """
    place = locate(str(source))
    if place.kind not in ("bundled", "folder"):
        raise ModelProblem(f"{source}: only a model folder can be packed.")
    source = place.path
    config, store = open_folder(source)
    resolve(config, store)
    target = folder / WEIGHTS
    if target.exists() and (not overwrite or target.resolve() == store.path.resolve()):
        raise ModelProblem(
            f"{target}: already there; choose another folder, or --force to replace it."
        )
    tensors = _Packed(store, dtype)
    metadata = packed.METADATA if dtype == "q8" else {"format": "attn"}
    write_safetensors(target, tensors, metadata)
    for pattern in (*COPIED, *NOTICES):
        for file in sorted(source.glob(pattern)):
            if (folder / file.name).resolve() != file.resolve():
                shutil.copyfile(file, folder / file.name)
    write_checksums(folder)
    return Packed(
        folder=folder,
        dtype=dtype,
        n_tensors=len(store.tensors),
        bytes_before=sum(file.stat().st_size for file in store.files),
        bytes_after=target.stat().st_size,
        largest_error=_largest_error(store, SafetensorsFile(target)),
    )


def write_checksums(folder: Path) -> None:
    """Write SHA256SUMS for the files that decide the numbers (`sha256sum -c` checks it)."""
    lines = []
    for name in ("config.json", WEIGHTS, "tokenizer.json"):
        if (folder / name).exists():
            with (folder / name).open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    (folder / CHECKSUMS).write_text("".join(lines), "ascii")


class _Packed(Mapping[str, Array]):
    """The tensors to write, made one at a time so that no whole model is in memory."""

    def __init__(self, store: TensorStore, dtype: Dtype) -> None:
        self._store, self._dtype = store, dtype
        self._names: dict[str, str] = {}
        for name in store.tensors:
            self._names[name] = name
            if self._is_packed(name):
                self._names[name + packed.SCALE_SUFFIX] = name

    def _is_packed(self, name: str) -> bool:
        info = self._store.tensors[name]
        is_float = info.dtype in FLOATS or info.dtype == "Q8"
        return self._dtype == "q8" and is_float and packed.can_pack(info.shape)

    def __getitem__(self, name: str) -> Array:
        original = self._names[name]
        values = self._store.read(original)
        if self._is_packed(original):
            whole, scales = packed.pack(values)
            return scales if name != original else whole
        if self._dtype == "f16" and values.dtype == np.float32:
            return _to_f16(self._store.path, name, values)
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _to_f16(path: Path, name: str, values: Array) -> Array:
    if values.size and np.abs(values).max() > np.finfo(np.float16).max:
        raise ModelProblem(f"{path}: tensor {name} does not fit float16; pack as f32.")
    return values.astype(np.float16)


def _largest_error(before: TensorStore, after: TensorStore) -> float:
    largest = 0.0
    for name in before.tensors:
        a, b = before.read(name), after.read(name)
        if a.size and a.dtype == np.float32:
            largest = max(largest, float(np.abs(a - b).max()))
    return largest
