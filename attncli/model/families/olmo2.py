"""OLMo 2: as Llama, except: norms stand after each sub-layer, and on queries and keys.

The latter run over all heads together.
Reference: transformers/models/olmo2/modeling_olmo2.py (5.24). Honoured: as Llama (rms_norm_eps is
1e-5 when absent). Refused: mlp_bias. Ignored tensors: as Llama.
"""

from __future__ import annotations

from collections.abc import Collection

from attncli.model.config import ConfigReader
from attncli.model.families.llama import SIZES as LLAMA_SIZES
from attncli.model.families.llama import head, ignored, llama_like_sources, read_llama_like
from attncli.model.params import Source
from attncli.model.spec import ModelSpec

__all__ = ["head", "ignored", "read_spec", "sources"]
SIZES = {**LLAMA_SIZES, "vocab_size": 50304, "rms_norm_eps": 1e-5, "attention_bias": False}
"""What the reference's configuration class takes for absent keys."""
NORMS = {"attn_out": "post_attention_layernorm", "ffn_out": "post_feedforward_layernorm"}
"""Norm slots of a block and their tensors."""


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn an OLMo 2 configuration into a spec."""
    config.assume(SIZES)
    config.flag("attention_bias")
    return read_llama_like(config, "OLMo 2")


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    bias = config.flag("attention_bias")
    return llama_like_sources(spec, tensors, qkv_bias=bias, o_bias=bias, norms=NORMS, qk_norm="all")
