"""Where a model name leads: the bundled default, a folder, a file, or weights made on request."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from attncli.errors import ModelProblem, did_you_mean

DEFAULT = "minilm"
BUNDLED = Path(__file__).parent.parent / "bundled"
RANDOM = "random:"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a model is."""

    name: str
    """Short name for people."""
    kind: Literal["bundled", "folder", "npz", "random"]
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
    if path.is_dir():
        return Place(path.resolve().name, "folder", _transformer_folder(path))
    if path.is_file():
        if path.name in ("config.json", "model.safetensors"):
            return locate(str(path.parent))
        raise ModelProblem(
            f"{name}: not a model that attn reads; expected a folder with config.json, "
            "tokenizer.json and model.safetensors, or an .npz file."
        )
    known = [*bundled_names(), RANDOM]
    raise ModelProblem(
        f"{name}: no such model or path; expected {', '.join(bundled_names())}, a folder, an .npz "
        f"file, or random:d_model=64,heads=4.{did_you_mean(name, known)}"
    )


def _transformer_folder(folder: Path) -> Path:
    """Return the folder of the transformer itself.

    sentence-transformers lists the steps of a model in modules.json; those saved before 2021
    keep the first step, the transformer, in a folder of its own, such as 0_Transformer.

    Raises:
        ModelProblem: the first step is something else.
    """
    steps = folder / "modules.json"
    if (folder / "config.json").exists() or not steps.is_file():
        return folder
    try:
        first = json.loads(steps.read_bytes())[0]
        kind, inner = first["type"], first["path"]
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        raise ModelProblem(f"{steps}: not a list of steps, each with type and path.") from None
    if not str(kind).endswith(".Transformer"):
        raise ModelProblem(f"{steps}: the first step is {kind}, expected a Transformer.")
    if not isinstance(inner, str) or inner != Path(inner).name:
        raise ModelProblem(f"{steps}: path {inner!r} is not the name of a folder beside it.")
    return folder / inner
