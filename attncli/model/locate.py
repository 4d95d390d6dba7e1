"""Where a model name leads: the bundled default, a folder, a file, or weights made on request."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from attncli.errors import ModelProblem, did_you_mean

DEFAULT = "minilm"
BUNDLED = Path(__file__).parent.parent / "bundled"
RANDOM = "random:"
_LATER_PART = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf$")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a model is."""

    name: str
    """Short name for people."""
    kind: Literal["bundled", "folder", "gguf", "npz", "random"]
    path: Path
    """The folder or file; for random weights the request as typed."""


def default_name() -> str:
    """Return the model used when none is named: $ATTN_MODEL, or the bundled one."""
    return os.environ.get("ATTN_MODEL") or DEFAULT


def bundled_names() -> list[str]:
    """Return the names of the models that come with attn."""
    return sorted(path.parent.name for path in BUNDLED.glob("*/config.json"))


def locate(name: str) -> Place:
    """Find a model by name.

    Raises:
        ModelProblem: nothing there, or something attn does not read; says what was expected.
    """
    if name.startswith(RANDOM) or name == RANDOM[:-1]:
        return Place(name, "random", Path(name))
    if name in bundled_names():
        return Place(name, "bundled", BUNDLED / name)
    path = Path(name)
    if path.suffix == ".npz":
        return Place(path.stem, "npz", path)
    if path.suffix == ".gguf" and path.is_file():
        return Place(path.stem, "gguf", path)
    if path.is_dir():
        only = gguf_in(path)
        if only is not None:
            return Place(path.resolve().name, "gguf", only)
        return Place(path.resolve().name, "folder", path)
    if path.is_file():
        if path.name in ("config.json", "model.safetensors", "model.safetensors.index.json"):
            return locate(str(path.parent))
        raise ModelProblem(
            f"{name}: not a model that attn reads; expected a folder with config.json, "
            "tokenizer.json and model.safetensors, a .gguf file, or an .npz file."
        )
    known = [*bundled_names(), RANDOM]
    raise ModelProblem(
        f"{name}: no such model or path; expected {', '.join(bundled_names())}, a folder, a .gguf "
        f"or .npz file, or random:d_model=64,heads=4.{did_you_mean(name, known)}"
    )


def gguf_in(folder: Path) -> Path | None:
    """Return the GGUF model of a folder that holds no other; of one in parts the first part.

    Raises:
        ModelProblem: several models, of which one must be named.
    """
    if (folder / "config.json").exists():
        return None
    files = sorted(
        path
        for path in folder.glob("*.gguf")
        # image encoders lie beside the models they are for
        if not path.name.startswith("mmproj")
    )
    models = [path for path in files if not _LATER_PART.search(path.name)]
    models = models or files[:1]
    if len(models) > 1:
        names = ", ".join(path.name for path in models[:10])
        raise ModelProblem(f"{folder}: {len(models)} GGUF models; name one of them: {names}.")
    return models[0] if models else None
