"""OLMo 1: as Llama, except: layer norms without weights, queries, keys and values may be clipped.

Reference: transformers/models/olmo/modeling_olmo.py (5.24), whose norms have an eps of 1e-5 that
no configuration changes. Honoured: as Llama, and clip_qkv. Refused: rms_norm_eps, mlp_bias.
Ignored tensors: as Llama.
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
    with_stack,
)
from attncli.model.params import Source
from attncli.model.spec import ModelSpec

__all__ = ["head", "ignored", "read_spec", "sources"]
EPS = 1e-5
SIZES = {
    **{key: value for key, value in LLAMA_SIZES.items() if key != "rms_norm_eps"},
    "vocab_size": 50304,
    "attention_bias": False,
}
"""What the reference's configuration class takes for absent keys."""


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn an OLMo configuration into a spec."""
    config.assume(SIZES)
    config.flag("attention_bias")
    config.expect("rms_norm_eps", EPS)
    spec = read_llama_like(config, "OLMo")
    clips = config.has("clip_qkv")
    return with_stack(
        spec,
        norm="layer",
        eps=EPS,
        plain_norms=("attn_in", "ffn_in", "final_norm"),
        qkv_clip=config.number("clip_qkv", above=0.0) if clips else None,
    )


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    bias = config.flag("attention_bias")
    return llama_like_sources(spec, tensors, qkv_bias=bias, o_bias=bias, norms={})
