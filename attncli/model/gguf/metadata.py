"""Typed reading of a GGUF file's metadata; a key that changes arithmetic and is not read shows."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from attncli.checkpoints.gguf import GgufFile
from attncli.checkpoints.gguf_header import Texts
from attncli.errors import ModelProblem, listing

NEUTRAL = frozenset(
    [
        "pooling_type",
        "rope.scaling.finetuned",
        "tensor_data_layout",
        "vocab_size",
    ]
)
"""Keys that change neither attention nor the residual stream, unless an architecture reads them."""


class Metadata:
    """The metadata of one file; remembers which keys of its architecture were read."""

    def __init__(self, file: GgufFile) -> None:
        """Take what the file holds.

        Raises:
            ModelProblem: the file is no model, or names no architecture.
        """
        self.path, self._file = file.path, file
        self._values, self.tensors = file.metadata, file.tensors
        self._read: set[str] = set()
        kind = self._values.get("general.type", "model")
        if kind != "model":
            raise ModelProblem(
                f"{self.path}: not a model (its general.type is {kind}); give the model "
                "it belongs to."
            )
        self.architecture = self.text("general.architecture")

    def has(self, key: str) -> bool:
        """Tell whether the architecture's key is there."""
        return f"{self.architecture}.{key}" in self._values

    def get(self, key: str) -> Any:
        """Return the value of a key of the architecture, or None; it then counts as read."""
        self._read.add(key)
        value = self._values.get(f"{self.architecture}.{key}")
        return value.tolist() if isinstance(value, np.ndarray) else value

    def count(self, key: str, default: int | None = None) -> int:
        """Return a whole number above 0."""
        value = self.get(key)
        value = default if value is None else value
        if type(value) is not int or value < 1:
            raise self._wrong(key, value, "one whole number above 0")
        return value

    def number(self, key: str, default: int | float | None = None) -> int | float:
        """Return a number; those that the file has as float32 in their shortest decimal form."""
        value = self.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, value, "a number")
        return shortest(value)

    def text(self, key: str) -> str:
        """Return a string; this key is given in full."""
        value = self._values.get(key)
        if not isinstance(value, str):
            raise ModelProblem(f"{self.path}: {key} is {_short(value)}, expected a string.")
        return value

    def expect(self, key: str, *expected: Any) -> None:
        """Read a key that is only supported with these values, or absent."""
        value = self.get(key)
        if value is not None and value not in expected:
            raise self._wrong(key, value, " or ".join(map(repr, expected)))

    def rows(self, tensor: str) -> int:
        """Return the first size of a tensor."""
        if tensor not in self.tensors:
            raise ModelProblem(f"{self.path}: the tensor {tensor} is missing.")
        return self.tensors[tensor].shape[0]

    def values(self, tensor: str) -> list[float]:
        """Return a tensor of a few numbers that are configuration rather than weights."""
        if tensor not in self.tensors:
            raise ModelProblem(f"{self.path}: the tensor {tensor} is missing.")
        return self._file.read(tensor).ravel().tolist()

    def finish(self, neutral: Collection[str]) -> None:
        """Refuse keys of the architecture that nobody read and that may change the numbers.

        Keys outside the architecture's name are about the file, the tokenizer or its parts.
        """
        prefix = f"{self.architecture}."
        own = {key[len(prefix) :] for key in self._values if key.startswith(prefix)}
        unread = own - self._read - NEUTRAL - set(neutral)
        if unread:
            raise ModelProblem(
                f"{self.path}: attn does not know what these keys of {self.architecture} change: "
                f"{listing(unread)}. Results could be wrong, so attn stops here."
            )

    def _wrong(self, key: str, value: Any, expected: str) -> ModelProblem:
        return ModelProblem(
            f"{self.path}: {self.architecture}.{key} is {_short(value)}, expected {expected}."
        )


def shortest(value: int | float) -> int | float:
    """Return the shortest decimal that is this float32 number: 1e-06 for 9.999999974752427e-07."""
    return value if isinstance(value, int) else float(str(np.float32(value)))


def _short(value: Any) -> str:
    if isinstance(value, Texts):
        return f"a list of {len(value)} strings"
    return repr(value)[:60]
