"""The families attn can compute: one small module each, named here and nowhere else.

A family module offers

* `read_spec(config) -> ModelSpec`: every key of the configuration that changes the numbers;
* `sources(spec, tensors, config) -> {canonical name: Source}`: where each parameter stands;
* `ignored(name) -> bool`: tensors that are knowingly left unused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Protocol, cast, runtime_checkable

from attncli.model.config import ConfigReader
from attncli.model.params import Source
from attncli.model.spec import ModelSpec

REGISTRY = {
    "attn-toy": "toy",
    "bert": "bert",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3": "multimodal",
    "gemma3_text": "gemma3",
    "gpt_oss": "gpt_oss",
    "granite": "granite",
    "llama": "llama",
    "llava": "multimodal",
    "ministral": "ministral",
    "mistral": "mistral",
    "mistral3": "multimodal",
    "mixtral": "mixtral",
    "olmo": "olmo",
    "olmo2": "olmo2",
    "qwen2": "qwen2",
    "qwen2_moe": "qwen_moe",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen_moe",
    "smollm3": "smollm3",
}
"""`model_type` of a configuration to the module that knows the family."""


@runtime_checkable
class Family(Protocol):
    """What a family module offers."""

    def read_spec(self, config: ConfigReader) -> ModelSpec:
        """Turn a configuration into what the arithmetic needs."""

    def sources(
        self, spec: ModelSpec, tensors: Collection[str], config: ConfigReader
    ) -> Mapping[str, Source]:
        """Say where each parameter stands in a checkpoint with these tensor names.

        Whether a bias exists is read from the configuration where it says so, never guessed from
        the tensors: a missing one must be seen.
        """

    def ignored(self, name: str) -> bool:
        """Tell whether a tensor is knowingly left unused."""


def find_family(model_type: str) -> Family:
    """Return the module of a registered family."""
    return cast(Family, import_module(f"{__name__}.{REGISTRY[model_type]}"))
