"""Models laid out on disk as the programs that keep them lay them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers.pre_tokenizers import ByteLevel

from tests.ggufs import gguf_bytes
from tests.toys import random_array, tiny_bert, write_folder

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


def gguf(architecture: str = "llama", *, layers: int = 2, heads: int = 2) -> bytes:
    """Return a tiny GGUF model with random parameters, in the layout of Llama."""
    d_model, d_ff = 8, 12
    pieces = sorted(ByteLevel.alphabet())
    pieces.append(pieces[0] + pieces[1])
    metadata = {
        "general.architecture": architecture,
        f"{architecture}.embedding_length": d_model,
        f"{architecture}.block_count": layers,
        f"{architecture}.feed_forward_length": d_ff,
        f"{architecture}.context_length": 64,
        f"{architecture}.attention.head_count": heads,
        f"{architecture}.attention.head_count_kv": heads,
        f"{architecture}.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.token_type": np.ones(len(pieces), np.int32),
        "tokenizer.ggml.merges": [f"{pieces[0]} {pieces[1]}"],
    }
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (len(pieces), d_model),
        "output_norm.weight": (d_model,),
    }
    for i in range(layers):
        shapes |= {f"blk.{i}.{norm}.weight": (d_model,) for norm in ("attn_norm", "ffn_norm")}
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            shapes[f"blk.{i}.{name}.weight"] = (d_model, d_model)
        shapes |= {f"blk.{i}.{name}.weight": (d_ff, d_model) for name in ("ffn_gate", "ffn_up")}
        shapes[f"blk.{i}.ffn_down.weight"] = (d_model, d_ff)
    rng = np.random.default_rng(0)
    return gguf_bytes(metadata, {n: random_array(rng, n, shape) for n, shape in shapes.items()})


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
