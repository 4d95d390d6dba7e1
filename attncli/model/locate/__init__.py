"""Where a model name leads.

In this order: the bundled models, a path, the Hugging Face cache, Ollama, LM Studio, llama.cpp, an
installed package, and last the hub itself, from which `download` fetches. Each store is a module
with

* `places()`: every model in it, broken ones with their problem;
* `find(name)`: the place a name leads to, or None.

Nothing here goes to the network, and a store is only looked at when those before it have nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

from attncli.errors import ModelProblem
from attncli.model.locate.bundled import BUNDLED, DEFAULT, bundled_names
from attncli.model.locate.place import Place

__all__ = [
    "BUNDLED",
    "DEFAULT",
    "RANDOM",
    "Place",
    "all_places",
    "bundled_names",
    "default_name",
    "hub_id",
    "locate",
    "suggestion",
]

RANDOM = "random:"
HUB = "hub"
STORES = {
    "bundled": "bundled",
    "path": "paths",
    HUB: "hub",
    "ollama": "ollama",
    "lmstudio": "lmstudio",
    "llamacpp": "llamacpp",
    "package": "packages",
}
"""What a name may begin with to mean one store (hub:ORG/NAME) to the module that knows the store,
in the order of looking."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)


@runtime_checkable
class Store(Protocol):
    """What a store module offers."""

    def places(self) -> Iterable[Place]:
        """Return every model of the store; a broken one with its problem."""

    def find(self, name: str) -> Place | None:
        """Return where a name leads, None when it is not in this store.

        Raises:
            ModelProblem: it is there and cannot be used, or the name means several.
        """


def default_name() -> str:
    """Return the model used when none is named: $ATTN_MODEL, or the bundled one."""
    return os.environ.get("ATTN_MODEL") or DEFAULT


def locate(name: str) -> Place:
    """Find a model by name; one that only the hub may have is of the kind "remote".

    Raises:
        ModelProblem: nothing there, or something attn does not read; says what was expected.
    """
    if name.startswith(RANDOM) or name == RANDOM[:-1]:
        return Place(name, "random", Path(name))
    if not _can_be_a_path(name):
        raise ModelProblem(f"{name[:60]!r}…: no such model or path; no file can have this name.")
    prefix, _, rest = name.partition(":")
    if prefix in STORES and rest:
        place = _store(prefix).find(rest)
        if place is None and prefix == HUB and (_HUB_ID.fullmatch(rest) or "/" not in rest):
            return _remote(rest)
        if place is None:
            raise ModelProblem(f"{name}: not there; attn models shows what is.{suggestion(name)}")
        return place
    for store in STORES:
        place = _store(store).find(name)
        if place is not None:
            return place
    if _HUB_ID.fullmatch(name) and ".." not in name:
        if Path(name).parent.is_dir():
            raise ModelProblem(
                f"{name}: no such file or folder in {Path(name).parent}; to look on the Hugging "
                f"Face hub, write hub:{name}.{suggestion(name)}"
            )
        return _remote(name)
    raise ModelProblem(
        f"{name}: no such model or path; expected a name that attn models lists, a folder, a "
        f".gguf or .npz file, ORG/NAME of the Hugging Face hub, or random:d_model=64,heads=4."
        f"{suggestion(name)}"
    )


def hub_id(name: str) -> str:
    """Return the id on the hub that a name is: ORG/NAME, or NAME for old models.

    Raises:
        ModelProblem: it is none.
    """
    bare = name.removeprefix(f"{HUB}:")
    if _HUB_ID.fullmatch(f"x/{bare}" if "/" not in bare else bare) and ".." not in bare:
        return bare
    raise ModelProblem(f"{name}: no name of the Hugging Face hub; expected ORG/NAME.")


def all_places() -> Iterator[Place]:
    """Return every model found anywhere, in the order of looking."""
    for store in STORES:
        yield from _store(store).places()


def suggestion(name: str) -> str:
    """Return " Did you mean X?" for the closest model on this machine, or an empty string."""
    handles = [RANDOM, *(place.handle for place in all_places() if place.handle)]
    spellings = {handle.partition(":")[2] or handle: handle for handle in reversed(handles)}
    spellings |= {handle: handle for handle in handles}
    wanted = name.rpartition("/")[2].lower()
    same_end = [h for h in handles if re.split("[:/]", h.lower())[-1].startswith(wanted)]
    close = get_close_matches(name, list(spellings), n=1)
    best = spellings[close[0]] if close else same_end[0] if same_end and wanted else ""
    return f" Did you mean {best}?" if best else ""


def _can_be_a_path(name: str) -> bool:
    try:
        parts = os.fsencode(name).split(b"/")
    except ValueError:
        return False
    return "\0" not in name and max(map(len, parts)) <= 255 and len(name) < 4096


def _remote(name: str) -> Place:
    repo = hub_id(name)
    return Place(repo, "remote", Path(repo), f"{HUB}:{repo}", "Hugging Face hub")


def _store(name: str) -> Store:
    return cast(Store, import_module(f"{__name__}.{STORES[name]}"))
