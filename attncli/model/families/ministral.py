"""Ministral: as Mistral, except: layer_types says which layers have the window.

Reference: transformers/models/ministral/modeling_ministral.py (5.24). Honoured, refused and
ignored: as Mistral. Without layer_types all layers have the window.
"""

from __future__ import annotations

from attncli.model.config import ConfigReader
from attncli.model.families.llama import head, ignored, read_llama_like, with_layers
from attncli.model.families.mistral import SIZES, sources
from attncli.model.families.windows import layer_types, window_sizes
from attncli.model.spec import ModelSpec

__all__ = ["head", "ignored", "read_spec", "sources"]


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a Ministral configuration into a spec."""
    config.assume(SIZES)
    spec = read_llama_like(config, "Ministral")
    slides = config.has("sliding_window")
    types = layer_types(config, spec.stack.n_layers, lambda i: slides)
    return with_layers(spec, window=window_sizes(config, types))
