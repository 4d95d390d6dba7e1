"""Installed Python packages that ship a GGUF file or a model folder.

Only the lists of files that installers wrote are read, no package is imported. One package is
looked at when its name is given, all of them only for a list of models.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from itertools import islice
from pathlib import Path, PurePosixPath

from attncli.model.locate.place import (
    CONFIG,
    INDEX,
    MOST,
    WEIGHTS,
    Kind,
    Place,
    at_most,
    folder_place,
    ggufs,
    only,
)

ORIGIN = "package"
_NAME = re.compile(r"[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?", re.ASCII)
_LINE = re.compile(
    rf"^.*(?:\.gguf|[\\/]{re.escape(WEIGHTS)}|[\\/]{re.escape(INDEX)})\"?,.*$",
    re.MULTILINE | re.IGNORECASE,
)
_OURS = "attncli"


def places() -> Iterator[Place]:
    """Return every model of every package."""
    return at_most(_places())


def find(name: str) -> Place | None:
    """Return where DISTRIBUTION or DISTRIBUTION/PATH leads.

    Raises:
        ModelProblem: the package ships several models, or a link leads out of the folder.
    """
    package, _, inside = name.partition("/")
    if not _NAME.fullmatch(package):
        return None
    try:
        found = _models(distribution(package))
    except PackageNotFoundError:
        return None
    return only(name, [place for place in found if not inside or place.name == name])


def _places() -> Iterator[Place]:
    for installed in islice(distributions(), MOST):
        yield from _models(installed)


def _models(installed: Distribution) -> list[Place]:
    try:
        record = installed.read_text("RECORD") or ""
        package = installed.metadata["Name"] or ""
    except (OSError, ValueError, KeyError):
        return []
    if not package or package == _OURS:
        return []
    shipped: dict[PurePosixPath, Kind] = {}
    for row in csv.reader(_LINE.findall(record)[:MOST]):
        path = PurePosixPath(row[0])
        is_file = path.suffix.lower() == ".gguf"
        shipped[path if is_file else path.parent] = "gguf" if is_file else "folder"
    where = {path: Path(str(installed.locate_file(str(path)))) for path in shipped}
    first_parts = set(ggufs(where[path] for path, kind in shipped.items() if kind == "gguf"))
    models = [
        path
        for path, kind in shipped.items()
        if (kind == "gguf" and where[path] in first_parts and where[path].is_file())
        or (kind == "folder" and (where[path] / CONFIG).is_file())
    ]
    places = []
    for path in models:
        name = package if len(models) == 1 else f"{package}/{path}"
        place = Place(name, shipped[path], where[path], f"package:{name}", ORIGIN)
        places.append(folder_place(place) if place.kind == "folder" else place)
    return places
