"""GGUF files in the cache of llama.cpp."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from attncli.model.locate.place import Place, entries, ggufs, only, stays_inside

ORIGIN = "llama.cpp"


def root() -> Path:
    """Return the folder of the cache."""
    given = os.environ.get("LLAMA_CACHE")
    if given:
        return Path(given).expanduser()
    if sys.platform == "darwin":
        caches = "~/Library/Caches"
    elif sys.platform == "win32":
        caches = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    else:
        caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(caches)) / "llama.cpp"


def places() -> list[Place]:
    """Return every GGUF file."""
    return [
        Place(
            file.name,
            "gguf",
            file,
            f"llamacpp:{file.name}",
            ORIGIN,
            "" if stays_inside(file, root()) else "a link that leads out of llama.cpp's cache",
        )
        for file in ggufs(entries(root()))
    ]


def find(name: str) -> Place | None:
    """Return where FILE.gguf or FILE leads.

    Raises:
        ModelProblem: it cannot be used.
    """
    return only(name, [p for p in places() if name in (p.name, p.name.removesuffix(".gguf"))])
