"""A folder or file that the user typed."""

from __future__ import annotations

import os
from pathlib import Path

from attncli.errors import ModelProblem, did_you_mean
from attncli.model.locate.place import (
    CONFIG,
    INDEX,
    WEIGHTS,
    Place,
    entries,
    folder_place,
    ggufs,
    is_gguf,
    only,
    transformer_folder,
    usable,
)

_CERTAIN = ("/", "./", "../", "~", os.sep)
"""What begins so can only be a path."""


def places() -> list[Place]:
    """Nothing: models are not searched for all over the disk."""
    return []


def find(name: str) -> Place | None:
    """Return the folder or file; None when there is neither.

    Raises:
        ModelProblem: something attn does not read, or a path to nothing.
    """
    path = Path(os.path.expanduser(name))
    if path.suffix == ".npz":
        return Place(path.stem, "npz", path)
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except OSError as problem:
        raise ModelProblem(f"{name[:80]}: cannot be read ({problem.strerror}).") from None
    if is_folder:
        return _folder(name, path)
    if is_file:
        if path.name in (CONFIG, WEIGHTS, INDEX):
            return _folder(name, path.parent)
        if is_gguf(path):
            return Place(path.name.removesuffix(".gguf"), "gguf", path)
        raise ModelProblem(
            f"{name}: not a model that attn reads; expected a folder with config.json, "
            "tokenizer.json and model.safetensors, a .gguf file, or an .npz file."
        )
    if name.startswith(_CERTAIN):
        near = did_you_mean(path.name, [entry.name for entry in entries(path.parent)])
        raise ModelProblem(f"{name}: no such file or folder.{near}")
    return None


def _folder(name: str, path: Path) -> Place:
    from attncli.model.locate import hub

    if path.name.startswith(hub.REPO) and (path / "snapshots").is_dir():
        return hub.snapshot_place(path)
    real = path.resolve()
    found = ggufs(entries(path))
    if found and not (path / CONFIG).exists():
        files = [Place(real.name, "gguf", file) for file in found]
        chosen = only(name, files)
        assert chosen is not None
        return chosen
    place = Place(real.name, "folder", transformer_folder(path))
    return usable(folder_place(place, hub.blobs_of(real)))
