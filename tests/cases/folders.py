"""Checkpoint folders of the frozen models, with texts that have the frozen ids."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attncli.checkpoints.safetensors import write_safetensors
from tests.parity.comparison import TOLERANCE, Golden, read_golden
from tests.toys import word_tokenizer, write_folder

Array = np.ndarray

VOCABULARY = [f"w{i}" for i in range(40)]


@dataclass(slots=True)
class Case:
    """A frozen model on disk, and what transformers made of one text."""

    golden: Golden
    folder: Path

    @property
    def text(self) -> str:
        """The text whose tokens are those of the frozen run."""
        return " ".join(VOCABULARY[i] for i in self.golden.ids)

    def weights_of(self, attn: Callable[..., Any], layer: int, head: int) -> Array:
        """Return the weights of one head [query, key], as the command line prints them."""
        ran = attn("inspect", self.text, "-m", str(self.folder), "-H", f"{layer}.{head}", "--json")
        assert (ran.code, ran.err) == (0, "")
        return np.array(ran.document["weights"])

    def assert_numbers(self, attn: Callable[..., Any]) -> None:
        """Compare the last head of each layer with the frozen numbers."""
        for layer, heads in enumerate(self.golden.weights):
            found = self.weights_of(attn, layer, len(heads) - 1)
            np.testing.assert_allclose(found, heads[-1], atol=TOLERANCE)


def on_disk(
    folder: Path,
    name: str,
    *,
    rename: Callable[[str], str] = str,
    more: Mapping[str, Array] | None = None,
    config: Mapping[str, Any] | None = None,
) -> Case:
    """Write a frozen model as a folder.

    Args:
        folder: where.
        name: of the golden case.
        rename: gives the name of a tensor in the file.
        more: tensors to add.
        config: the configuration, if another than the frozen one.
    """
    golden = read_golden(name)
    tensors = {rename(n): values for n, values in golden.tensors.items()} | dict(more or {})
    write_folder(folder, config or golden.config, tensors, word_tokenizer(VOCABULARY, "w0"))
    return Case(golden, folder)


def in_two_bytes(folder: Path, kind: str) -> dict[str, Array]:
    """Store the weights of a folder as BF16 or F16; return their exact values in float32."""
    file = folder / "model.safetensors"
    content = file.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    short, wide = {}, {}
    for name, entry in header.items():
        begin, end = (start + position for position in entry["data_offsets"])
        values = np.frombuffer(content[begin:end], "<f4").reshape(entry["shape"])
        if kind == "BF16":  # the upper half of the bits of a float32
            bits = values.view("<u4") >> 16
            short[name] = bits.astype("<u2").view("<i2")
            wide[name] = (bits << 16).astype("<u4").view("<f4")
        else:
            short[name] = values.astype("<f2")
            wide[name] = short[name].astype("<f4")
    write_safetensors(file, short, {})
    content = file.read_bytes()
    if kind == "BF16":
        end = 8 + int.from_bytes(content[:8], "little")
        head = content[8:end].replace(b'"I16"', b'"BF16"')
        file.write_bytes(len(head).to_bytes(8, "little") + head + content[end:])
    return wide
