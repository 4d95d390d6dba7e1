"""What finding a model gives, and the looks at a folder that all finders share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal

from attncli.errors import ModelProblem, listing

Kind = Literal["bundled", "folder", "npz", "gguf", "random", "remote"]

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
GGUF_MAGIC = b"GGUF"
MOST = 1000
"""Entries looked at in one folder, and models listed of one kind of store."""
_MAX_INDEX = 50 << 20
_SPLIT = re.compile(r"-(\d{5})-of-\d{5}\.gguf$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a model is."""

    name: str
    """Short name for people."""
    kind: Kind
    path: Path
    """The folder or file; for random weights the request as typed, for remote ones the hub id."""
    handle: str = ""
    """What -m takes and nothing else answers to, such as hub:ORG/NAME; empty for typed paths."""
    origin: str = ""
    """Whose store it is, such as Ollama."""
    problem: str = ""
    """Why it cannot be used, where that shows without opening it; empty when nothing does."""
    incomplete: bool = False
    """True when the problem is only that files are missing, which a download mends."""


def usable(place: Place) -> Place:
    """Return the place.

    Raises:
        ModelProblem: it was found and cannot be used.
    """
    if place.problem:
        raise ModelProblem(f"{place.path}: {place.problem}.")
    return place


def folder_place(place: Place, blobs: Path | None = None) -> Place:
    """Return the place with the problem of links that lead out of its folder, if there are any.

    Args:
        place: a folder.
        blobs: the one other folder that links may lead to.
    """
    escaped = leaving_link(place.path, blobs)
    if not escaped:
        return place
    return replace(
        place,
        incomplete=False,
        problem=f"{escaped} is a link that leads out of the folder, which could be any file of "
        "this machine; put the file itself there",
    )


def transformer_folder(folder: Path) -> Path:
    """Return the folder of the transformer itself.

    sentence-transformers lists the steps of a model in modules.json; those saved before 2021
    keep the first step, the transformer, in a folder of its own, such as 0_Transformer.

    Raises:
        ModelProblem: the first step is something else.
    """
    steps = folder / "modules.json"
    if (folder / CONFIG).exists() or not steps.is_file():
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
    if not stays_inside(folder / inner, folder):
        raise ModelProblem(f"{folder / inner}: a link that leads out of the folder.")
    return folder / inner


def leaving_link(folder: Path, blobs: Path | None = None) -> str:
    """Return the name of a file that leads out of its folder by a link, or an empty string."""
    allowed = [_real(path) for path in (folder, blobs) if path is not None]
    names = [path.name for path in entries(folder) if path.suffix in (".json", ".safetensors")]
    for name in dict.fromkeys([*names, *weight_files(folder)]):
        real = _real(folder / name)
        if real is None or not any(a is not None and real.is_relative_to(a) for a in allowed):
            return name
    return ""


def stays_inside(path: Path, root: Path) -> bool:
    """Tell whether a path, its links followed, is below a folder."""
    real, top = _real(path), _real(root)
    return real is not None and top is not None and real.is_relative_to(top)


def weight_files(folder: Path) -> list[str]:
    """Return the names of a folder's safetensors files, in sub-folders too; [] if it has none.

    Names that are no plain paths below the folder are left out; whoever opens them refuses them.
    """
    if (folder / WEIGHTS).exists():
        return [WEIGHTS]
    try:
        with (folder / INDEX).open("rb") as file:
            names = set(json.loads(file.read(_MAX_INDEX))["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
    plain = {name for name in names if isinstance(name, str)}
    return sorted(n for n in plain if not Path(n).is_absolute() and ".." not in Path(n).parts)


def missing_files(folder: Path) -> str:
    """Say what a model folder lacks, or return an empty string."""
    if not (folder / CONFIG).exists():
        return f"no {CONFIG} in it"
    names = weight_files(folder)
    if not names:
        others = [path.name for path in entries(folder) if path.suffix in (".bin", ".pt", ".pth")]
        pickled = f", only {others[0]}, a pickle, which is never read" if others else " in it"
        return f"no {WEIGHTS}{pickled}"
    absent = [name for name in names if not (folder / name).exists()]
    if absent:
        return f"{len(absent)} of {len(names)} weight files missing ({listing(absent, 3)})"
    return ""


def entries(folder: Path) -> list[Path]:
    """Return what a folder holds, sorted, up to MOST entries; [] when it cannot be read."""
    try:
        return sorted(islice(folder.iterdir(), MOST))
    except OSError:
        return []


def ggufs(paths: Iterable[Path]) -> list[Path]:
    """Return the GGUF files among paths; of a split model the first part, no image projectors."""
    first: dict[str, Path] = {}
    for path in sorted(paths):
        if path.suffix.lower() == ".gguf" and not path.name.lower().startswith("mmproj"):
            first.setdefault(_SPLIT.sub("", path.name), path)
    return list(first.values())


def gguf_parts(path: Path) -> list[Path]:
    """Return all parts of a split GGUF file, or the file alone."""
    if not _SPLIT.search(path.name):
        return [path]
    stem = _SPLIT.sub("", path.name)
    return [p for p in entries(path.parent) if _SPLIT.sub("", p.name) == stem]


def is_gguf(path: Path) -> bool:
    """Tell whether a file is a GGUF file, whatever its name."""
    if path.suffix.lower() == ".gguf":
        return True
    try:
        with path.open("rb") as file:
            return file.read(4) == GGUF_MAGIC
    except OSError:
        return False


def only(name: str, found: Sequence[Place]) -> Place | None:
    """Return the one place that a name leads to, None when there is none.

    Raises:
        ModelProblem: several, or one that cannot be used.
    """
    if len(found) > 1:
        handles = listing((place.handle or str(place.path) for place in found), 6)
        raise ModelProblem(f"{name}: {len(found)} models go by this name; say which: {handles}.")
    return usable(found[0]) if found else None


def at_most(places: Iterable[Place]) -> Iterator[Place]:
    """Return the first MOST places; of those of one handle, which is the first of two folders."""
    seen = set()
    for place in islice(places, MOST):
        if place.handle not in seen:
            seen.add(place.handle)
            yield place


def _real(path: Path) -> Path | None:
    """Return a path with its links followed; None when they go in circles."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return None
