"""Models that Ollama keeps.

`manifests/HOST/NAMESPACE/NAME/TAG` is a JSON list of layers; the layer of the model's media type is
a GGUF file, `blobs/sha256-SUM`. A name is [HOST/][NAMESPACE/]NAME[:TAG].

Source: docs/modelfile and server/manifest of Ollama.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from attncli.model.locate.place import Place, at_most, entries, stays_inside, usable

ORIGIN = "Ollama"
HOST, NAMESPACE, TAG = "registry.ollama.ai", "library", "latest"
SERVICE = Path("/usr/share/ollama/.ollama/models")
"""Where Ollama keeps its models when it runs as a service of the system."""

_MODEL = "application/vnd.ollama.image.model"
_ADAPTER = "application/vnd.ollama.image.adapter"
_TENSOR = "application/vnd.ollama.image.tensor"
_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")
_PART = re.compile(r"[A-Za-z0-9_][\w.:-]*", re.ASCII)
_MAX_MANIFEST = 4 << 20


def roots() -> list[Path]:
    """Return the folders that hold manifests and blobs."""
    given = os.environ.get("OLLAMA_MODELS")
    if given:
        return [Path(given).expanduser()]
    return [Path("~/.ollama/models").expanduser(), SERVICE]


def places() -> Iterator[Place]:
    """Return every model and tag."""
    return at_most(_places())


def find(name: str) -> Place | None:
    """Return where NAME:TAG leads; without a tag, `latest`.

    Raises:
        ModelProblem: its manifest or its file cannot be used.
    """
    *before, last = name.split("/")
    model, _, tag = last.partition(":")
    parts = [*before, model, tag or TAG]
    if len(parts) > 4 or not all(_PART.fullmatch(part) for part in parts):
        return None
    parts = [HOST, NAMESPACE][: 4 - len(parts)] + parts
    for root in roots():
        manifest = root.joinpath("manifests", *parts)
        try:
            there = manifest.is_file()
        except OSError:
            continue
        if there:
            return usable(_place(root, manifest))
    return None


def _places() -> Iterator[Place]:
    for root in roots():
        level = [root / "manifests"]
        for _ in range(4):
            level = [path for folder in level for path in entries(folder)]
        for manifest in level:
            if manifest.is_file() and not manifest.name.startswith("."):
                yield _place(root, manifest)


def _place(root: Path, manifest: Path) -> Place:
    host, namespace, model, tag = manifest.relative_to(root / "manifests").parts
    name = f"{model}:{tag}"
    if (host, namespace) != (HOST, NAMESPACE):
        name = f"{namespace}/{name}" if host == HOST else f"{host}/{namespace}/{name}"
    path, problem = _weights(root, manifest)
    return Place(name, "gguf", path, f"ollama:{name}", ORIGIN, problem)


def _weights(root: Path, manifest: Path) -> tuple[Path, str]:
    """Return the GGUF file of a manifest, or the manifest and what is wrong."""
    try:
        with manifest.open("rb") as file:
            layers = json.loads(file.read(_MAX_MANIFEST))["layers"]
        kinds = {layer["mediaType"]: layer["digest"] for layer in reversed(layers)}
    except OSError as problem:
        return manifest, f"cannot be read ({problem.strerror})"
    except (ValueError, KeyError, TypeError, RecursionError):
        return manifest, "not a manifest of Ollama"
    if _ADAPTER in kinds:
        return manifest, "has a LoRA adapter, which attn does not apply"
    if _MODEL not in kinds:
        split = "stored tensor by tensor, not as GGUF" if _TENSOR in kinds else "no model in it"
        return manifest, split
    digest = _DIGEST.fullmatch(str(kinds[_MODEL]))
    if not digest:
        return manifest, "its model layer has no SHA-256 digest"
    for spelling in (f"sha256-{digest[1]}", f"sha256:{digest[1]}"):
        blob = root / "blobs" / spelling
        if blob.is_file():
            if not stays_inside(blob, root):
                return blob, "a link that leads out of Ollama's models"
            return blob, ""
    return manifest, f"its file sha256-{digest[1][:12]}… is not there, pull it again"
