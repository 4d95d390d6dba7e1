"""Mistral: as Llama, except: every layer has a window (sliding_window; null: none), no biases.

Reference: transformers/models/mistral/modeling_mistral.py (5.24). Honoured: as Llama, and
sliding_window, which is 4,096 when the key is absent. Refused: layer_types, which the reference
only honours in Ministral. Ignored tensors: as Llama.
"""

from __future__ import annotations

from collections.abc import Collection

from attncli.model.config import ConfigReader
from attncli.model.families.llama import SIZES as LLAMA_SIZES
from attncli.model.families.llama import (
    head,
    ignored,
    llama_like_sources,
    read_llama_like,
    with_layers,
)
from attncli.model.params import Source
from attncli.model.spec import ModelSpec

__all__ = ["head", "ignored", "read_spec", "sources"]
SIZES = {
    **LLAMA_SIZES,
    "intermediate_size": 14336,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131_072,
    "sliding_window": 4096,
}
"""What the reference's configuration class takes for absent keys."""


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a Mistral configuration into a spec."""
    config.assume(SIZES)
    config.expect("layer_types")
    spec = read_llama_like(config, "Mistral")
    window = config.count("sliding_window") if config.has("sliding_window") else None
    return with_layers(spec, window=[window] * spec.stack.n_layers)


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    return llama_like_sources(spec, tensors)
