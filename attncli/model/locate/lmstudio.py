"""Models that LM Studio keeps: ORG/REPO/FILE.gguf, or ORG/REPO as a folder of safetensors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attncli.model.locate.place import (
    CONFIG,
    Place,
    at_most,
    entries,
    folder_place,
    ggufs,
    only,
    stays_inside,
)

ORIGIN = "LM Studio"
_POINTER = ".lmstudio-home-pointer"
"""File in the home folder that says where LM Studio's own folder is, where it was moved."""


def roots() -> list[Path]:
    """Return the folders that hold ORG/REPO."""
    home = Path("~").expanduser()
    found = [home / ".lmstudio" / "models", home / ".cache" / "lm-studio" / "models"]
    try:
        moved = (home / _POINTER).read_text("utf-8")[:4096].strip()
    except (OSError, ValueError):
        moved = ""
    return list(dict.fromkeys([*([Path(moved) / "models"] if moved else []), *found]))


def places() -> Iterator[Place]:
    """Return every GGUF file and every folder with a configuration."""
    return at_most(_places())


def find(name: str) -> Place | None:
    """Return where ORG/REPO, ORG/REPO/FILE.gguf or FILE.gguf leads.

    Raises:
        ModelProblem: several models go by this name, or it cannot be used.
    """
    found = list(places())
    return only(name, [place for place in found if place.name == name]) or only(
        name,
        [p for p in found if name in (p.name.rpartition("/")[0], p.path.name) and "/" in p.name],
    )


def _places() -> Iterator[Place]:
    for root in roots():
        for organisation in entries(root):
            for repo in entries(organisation):
                name = f"{organisation.name}/{repo.name}"
                inside = entries(repo)
                for file in ggufs(inside):
                    escaped = not stays_inside(file, root)
                    yield Place(
                        f"{name}/{file.name}",
                        "gguf",
                        file,
                        f"lmstudio:{name}/{file.name}",
                        ORIGIN,
                        "a link that leads out of LM Studio's models" if escaped else "",
                    )
                if repo / CONFIG in inside:
                    place = Place(name, "folder", repo, f"lmstudio:{name}", ORIGIN)
                    yield folder_place(place)
