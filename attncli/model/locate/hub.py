"""The cache of the Hugging Face hub.

`models--ORG--NAME/refs/main` holds the name of a folder in `snapshots/`, whose files are links into
`blobs/` (or files, where links cannot be made). Large blobs are named by their SHA-256 sum.

Source: "Understand caching" in the documentation of huggingface_hub.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from attncli.model.locate.place import (
    CONFIG,
    Place,
    at_most,
    entries,
    folder_place,
    ggufs,
    missing_files,
    only,
    stays_inside,
    usable,
)

REPO = "models--"
ORIGIN = "Hugging Face cache"
_PART = re.compile(r"[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)
_REVISION = re.compile(r"[A-Za-z0-9]{1,64}")


def hub_cache() -> Path:
    """Return the folder of the cache, by the variables that huggingface_hub reads."""
    given = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if given:
        return _expanded(given)
    home = os.environ.get("HF_HOME")
    if home:
        return _expanded(home) / "hub"
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return _expanded(cache) / "huggingface" / "hub"


def blobs_of(folder: Path) -> Path | None:
    """Return where links of a snapshot may lead; None for a folder that is no snapshot."""
    repo = folder.parent.parent
    if folder.parent.name == "snapshots" and repo.name.startswith(REPO):
        return repo / "blobs"
    return None


def places() -> Iterator[Place]:
    """Return every model of the cache, one that is not whole with what it lacks."""
    return at_most(_places())


def find(name: str) -> Place | None:
    """Return what ORG/NAME, NAME or ORG/NAME/FILE.gguf leads to.

    None also for a model of which the cache does not have all files: they can be fetched.

    Raises:
        ModelProblem: a link leads out of the model, or it has several GGUF files.
    """
    parts = name.split("/")
    if len(parts) > 3 or not all(_PART.fullmatch(part) for part in parts):
        return None
    wanted = parts.pop() if len(parts) > 1 and parts[-1].endswith(".gguf") else ""
    repo = hub_cache() / (REPO + "--".join(parts))
    if len(parts) > 2 or not repo.is_dir():
        return None
    found = _models(repo)
    if wanted:
        return only(name, [p for p in found if p.kind == "gguf" and p.path.name == wanted])
    folders = [place for place in found if place.kind == "folder"]
    if folders and folders[0].incomplete:
        return None
    return only(name, folders or found)


def state(name: str) -> str:
    """Say what the cache lacks of a model that `find` did not find there; empty if all."""
    repo = hub_cache() / (REPO + name.replace("/", "--"))
    return _models(repo)[0].problem if repo.is_dir() else ""


def snapshot_place(repo: Path) -> Place:
    """Return the current model of a repository folder of the cache.

    Raises:
        ModelProblem: it is not whole.
    """
    chosen = only(str(repo), _models(repo))
    assert chosen is not None
    return usable(chosen)


def _places() -> Iterator[Place]:
    for repo in entries(hub_cache()):
        if repo.name.startswith(REPO) and repo.is_dir():
            yield from _models(repo)


def _models(repo: Path) -> list[Place]:
    """Return the models of one repository, at least one place with or without a problem."""
    name = repo.name.removeprefix(REPO).replace("--", "/")
    handle = f"hub:{name}"
    snapshot, problem = _snapshot(repo)
    if problem:
        return [Place(name, "folder", snapshot, handle, ORIGIN, problem, incomplete=True)]
    if not stays_inside(snapshot, repo):
        escaped = "its snapshot is a link that leads out of the cache of this model"
        return [Place(name, "folder", snapshot, handle, ORIGIN, escaped)]
    found = []
    files = ggufs(entries(snapshot))
    if (snapshot / CONFIG).exists() or not files:
        lacking = missing_files(snapshot)
        place = Place(name, "folder", snapshot, handle, ORIGIN, lacking, bool(lacking))
        # a link that leads elsewhere is worse than a file that is missing
        found.append(folder_place(place, repo / "blobs"))
    for file in files:
        inside = stays_inside(file, repo)
        escaped = "" if inside else "a link that leads out of the cache of this model"
        full = f"{name}/{file.name}"
        found.append(Place(full, "gguf", file, f"hub:{full}", ORIGIN, escaped))
    # a folder that has a configuration for its GGUF files only is no second model
    return [place for place in found if not (files and place.incomplete)]


def _snapshot(repo: Path) -> tuple[Path, str]:
    """Return the current snapshot of a repository, and what is wrong with it."""
    snapshots = repo / "snapshots"
    try:
        with (repo / "refs" / "main").open("rb") as file:
            revision = file.read(100).decode("ascii", "replace").strip()
    except OSError:
        kept = [path for path in entries(snapshots) if path.is_dir()]
        if len(kept) != 1:
            return snapshots, (
                "several snapshots and no refs/main; name the folder of one"
                if kept
                else "no snapshot in it, the download did not finish"
            )
        revision = kept[0].name
    folder = snapshots / revision
    if not _REVISION.fullmatch(revision):
        return snapshots, "refs/main does not name a snapshot"
    if not folder.is_dir():
        return folder, "the snapshot of refs/main is not there, the download did not finish"
    return folder, ""


def _expanded(path: str) -> Path:
    return Path(os.path.expandvars(os.path.expanduser(path)))
