"""Qwen2: as Llama, except: biases on queries, keys and values; later layers may have a window.

Reference: transformers/models/qwen2/modeling_qwen2.py (5.24). Honoured: as Llama, and
use_sliding_window (the switch of sliding_window), layer_types, else max_window_layers, the first
layer with a window. Refused: use_mrope. Ignored tensors: as Llama.
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
from attncli.model.families.windows import layer_types, window_sizes
from attncli.model.params import Source
from attncli.model.spec import ModelSpec

__all__ = ["head", "ignored", "read_spec", "sources"]
SIZES = {
    **LLAMA_SIZES,
    "vocab_size": 151_936,
    "intermediate_size": 22016,
    "num_key_value_heads": 32,
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
    "max_window_layers": 28,
    "use_sliding_window": False,
}
"""What the reference's configuration class takes for absent keys."""


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a Qwen2 configuration into a spec."""
    config.assume(SIZES)
    return read_qwen(config, "Qwen2")


def read_qwen(config: ConfigReader, family: str) -> ModelSpec:
    """Read what Qwen2 and Qwen3 share."""
    config.expect("use_mrope", False)
    spec = read_llama_like(config, family)
    first = config.count("max_window_layers", least=0)
    on = config.flag("use_sliding_window")
    slides = on and config.has("sliding_window")
    types = layer_types(config, spec.stack.n_layers, lambda i: slides and i >= first)
    return with_layers(spec, window=window_sizes(config, types, on=on))


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    return llama_like_sources(spec, tensors, qkv_bias=True)
