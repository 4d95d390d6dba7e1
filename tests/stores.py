"""Models laid out on disk as the programs that keep them lay them."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.toys import tiny_bert, write_folder

COMMIT = "5d09c3f1a7e24b60f8c2d9e1b3a4c5d6e7f80912"


def model_files(folder: Path, **changes: Any) -> dict[str, bytes]:
    """Return the files of a tiny checkpoint, made in `folder`."""
    config, tensors = tiny_bert(**changes)
    write_folder(folder, config, tensors)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def hub_repo(
    cache: Path, name: str, files: Mapping[str, bytes], commit: str = COMMIT, *, ref: bool = True
) -> Path:
    """Lay a snapshot of a model into a hub cache, files as links to blobs; return its folder."""
    repo = cache / f"models--{name.replace('/', '--')}"
    snapshot = repo / "snapshots" / commit
    (repo / "blobs").mkdir(parents=True, exist_ok=True)
    for path, data in files.items():
        large = path.endswith((".safetensors", ".gguf"))
        oid = hashlib.sha256(data) if large else hashlib.sha1(b"blob %d\0" % len(data) + data)
        blob = repo / "blobs" / oid.hexdigest()
        blob.write_bytes(data)
        link = snapshot / path
        link.parent.mkdir(parents=True, exist_ok=True)
        up = Path(*[".."] * (len(link.relative_to(repo).parts) - 1))
        link.symlink_to(up / "blobs" / blob.name)
    if ref:
        (repo / "refs").mkdir(exist_ok=True)
        (repo / "refs" / "main").write_text(commit)
    return snapshot


def ollama_model(
    root: Path,
    model: bytes | None,
    *manifest: str,
    layers: tuple[tuple[str, bytes], ...] = (),
) -> Path:
    """Lay a model into Ollama's store under manifests/MANIFEST…; return the blob of the model."""
    described = []
    blobs = root / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    parts = (("license", b"terms"), ("model", model), ("template", b"{{ .Prompt }}"), *layers)
    path = manifest_path = root.joinpath("manifests", *manifest)
    for kind, data in parts:
        if data is None:
            continue
        digest = hashlib.sha256(data).hexdigest()
        (blobs / f"sha256-{digest}").write_bytes(data)
        if kind == "model":
            path = blobs / f"sha256-{digest}"
        media = f"application/vnd.ollama.image.{kind}"
        described.append({"mediaType": media, "digest": f"sha256:{digest}", "size": len(data)})
    manifest_path.parent.mkdir(parents=True, exist_ok=True)
    text = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": {
            "mediaType": "application/vnd.docker.container.image.v1+json",
            "digest": "sha256:" + "0" * 64,
            "size": 2,
        },
        "layers": described,
    }
    manifest_path.write_text(json.dumps(text))
    return path


def gguf(architecture: str = "llama", *, layers: int = 2, heads: Any = 4, kind: int = 3) -> bytes:
    """Return a GGUF file without tensors: metadata as converters write it, then a vocabulary."""
    pairs = [
        _pair("general.architecture", 8, _text(architecture)),
        _pair("general.name", 8, _text("tiny")),
        _pair(f"{architecture}.block_count", 4, struct.pack("<I", layers)),
        _heads(f"{architecture}.attention.head_count", heads),
        _pair(f"{architecture}.rope.freq_base", 6, struct.pack("<f", 1e4)),
        _pair("general.file_type", 4, struct.pack("<I", kind)),
        _pair("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 2) + _text("a") + _text("b")),
    ]
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs)


def package(site: Path, name: str, files: Mapping[str, bytes]) -> None:
    """Lay an installed package into a folder of the import path."""
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = []
    for path, data in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(data)
        quoted = f'"{path}"' if "," in path else path
        lines.append(f"{quoted},sha256=x,{len(data)}\n")
    (info / "RECORD").write_text("".join(lines) + f"{info.name}/RECORD,,\n")


def _heads(key: str, heads: Any) -> bytes:
    if isinstance(heads, int):
        return _pair(key, 4, struct.pack("<I", heads))
    return _pair(key, 9, struct.pack(f"<IQ{len(heads)}I", 4, len(heads), *heads))


def _pair(key: str, kind: int, value: bytes) -> bytes:
    return _text(key) + struct.pack("<I", kind) + value


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()
