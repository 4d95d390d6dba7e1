"""Models that attn does not compute: one line that names the reason, exit 1, no number."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli.checkpoints.safetensors import write_safetensors
from tests.parity.comparison import read_golden
from tests.toys import tiny_bert, write_folder

Break = Callable[[Path], object]


def config(**changes: Any) -> Break:
    """Change the configuration."""

    def change(folder: Path) -> None:
        found = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**found, **changes}))

    return change


def weights(content: bytes) -> Break:
    """Put other bytes in the place of the weights."""
    return lambda folder: (folder / "model.safetensors").write_bytes(content)


def without(name: str) -> Break:
    """Leave a tensor out."""

    def write(folder: Path) -> None:
        tensors = tiny_bert()[1]
        del tensors[name]
        write_safetensors(folder / "model.safetensors", tensors, {})

    return write


def with_another(name: str) -> Break:
    """Add a tensor."""

    def write(folder: Path) -> None:
        tensors = {**tiny_bert()[1], name: np.ones((12, 12), np.float32)}
        write_safetensors(folder / "model.safetensors", tensors, {})

    return write


def pickle_only(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def gptq(folder: Path) -> None:
    """Write packed integers under the names GPTQ gives them."""
    settings = {"quant_method": "gptq", "bits": 4, "group_size": 32}
    packed = {
        "model.layers.0.self_attn.q_proj.qweight": np.ones((2, 24), np.int32),
        "model.layers.0.self_attn.q_proj.scales": np.ones((1, 24), np.float16),
    }
    llama = {**read_golden("llama").config, "quantization_config": settings}
    write_folder(folder, llama, packed)


def lost_shard(folder: Path) -> None:
    """Name two files in an index; have one."""
    tensors = tiny_bert()[1]
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    places = dict.fromkeys(tensors, "model-00001-of-00002.safetensors")
    places["embeddings.LayerNorm.bias"] = "model-00002-of-00002.safetensors"
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 438000000\n"
REFUSED: dict[str, tuple[Break, list[str]]] = {
    "key that could change the numbers": (
        config(attention_temperature=0.5),
        ["config.json", "attention_temperature"],
    ),
    "tensor too few": (
        without("encoder.layer.1.attention.self.key.bias"),
        ["encoder.layer.1.attention.self.key.bias"],
    ),
    "tensor too many": (
        with_another("encoder.layer.1.attention.self.gate.weight"),
        ["encoder.layer.1.attention.self.gate.weight"],
    ),
    "unknown family": (config(model_type="bertt"), ["bertt", "Did you mean bert?"]),
    "pickle": (pickle_only, ["only pytorch_model.bin", "pickle", "safetensors"]),
    "git lfs pointer": (weights(LFS), ["model.safetensors", "Git LFS pointer", "git lfs pull"]),
    "web page": (weights(b"<!DOCTYPE html><html></html>"), ["model.safetensors", "web page"]),
    "empty file": (weights(b""), ["model.safetensors", "empty"]),
    "gptq": (gptq, ["config.json", "gptq, 4 bits", "GGUF"]),
    "lost shard": (lost_shard, ["model-00002-of-00002.safetensors"]),
}


@pytest.mark.parametrize("command", [["inspect", "the dog", "-m"], ["models", "info"]])
@pytest.mark.parametrize("name", REFUSED)
def test_refusal_is_one_line_that_names_the_reason(
    attn, bert_folder: Path, name: str, command: list[str]
) -> None:
    spoil, named = REFUSED[name]
    spoil(bert_folder)
    ran = attn(*command, str(bert_folder), "--json")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert ran.err.startswith("attn: ")
    for part in named:
        assert part in ran.err


def test_download_cut_short_says_how_much_is_there(attn, bert_folder: Path) -> None:
    file = bert_folder / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    ran = attn("inspect", "the dog", "-m", str(bert_folder), "--json")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert f"{len(whole):,} bytes, the file has {len(whole) // 2:,}" in ran.err
