"""GGUF files in the cache of llama.cpp."""

from __future__ import annotations

import os
from pathlib import Path

from attncli.cache import user_cache
from attncli.model.locate.place import Place, entries, ggufs, only, stays_inside

ORIGIN = "llama.cpp"


def root() -> Path:
    """Return the folder of the cache."""
    given = os.environ.get("LLAMA_CACHE")
    return Path(given).expanduser() if given else user_cache() / "llama.cpp"


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
