"""Gemma 2: as Gemma 1, except: norms after each sub-layer too, scores capped, windows.

Reference: transformers/models/gemma2/modeling_gemma2.py (5.24). Honoured: as Gemma 1 (the
activation is hidden_activation, whatever hidden_act says), query_pre_attn_scalar,
attn_logit_softcapping, sliding_window, layer_types, else every other layer beginning with the
first. Refused: use_bidirectional_attention. final_logit_softcapping changes next-token scores
only. Ignored tensors: as Llama.
"""

from __future__ import annotations

from collections.abc import Collection

from attncli.model.config import ConfigReader
from attncli.model.families.gemma import SIZES as GEMMA_SIZES
from attncli.model.families.gemma import TANH, scaled
from attncli.model.families.heads import lm_head
from attncli.model.families.llama import (
    ignored,
    llama_like_sources,
    read_llama_like,
    with_layers,
    with_stack,
)
from attncli.model.families.windows import layer_types, window_sizes
from attncli.model.params import HeadSources, Source
from attncli.model.spec import HeadSpec, ModelSpec

__all__ = ["head", "ignored", "read_spec", "sources"]
SIZES = {
    **GEMMA_SIZES,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "hidden_activation": TANH,
    "query_pre_attn_scalar": 256,
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
    "sliding_window": 4096,
    "attention_bias": False,
}
"""What the reference's configuration class takes for absent keys."""
NORMS = {
    "attn_in": "input_layernorm",
    "attn_out": "post_attention_layernorm",
    "ffn_in": "pre_feedforward_layernorm",
    "ffn_out": "post_feedforward_layernorm",
}
"""Norm slots of a block and their tensors."""


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a Gemma 2 configuration into a spec."""
    config.assume(SIZES)
    config.expect("use_bidirectional_attention", False)
    config.flag("attention_bias")
    config.pass_over("hidden_act", "final_logit_softcapping")
    spec = scaled(read_llama_like(config, "Gemma 2", activation_key="hidden_activation"))
    types = layer_types(config, spec.stack.n_layers, lambda i: i % 2 == 0)
    windows = window_sizes(config, types)
    # old files repeat the size under a second name
    config.expect("sliding_window_size", *(w for w in windows if w))
    capped = config.has("attn_logit_softcapping")
    return with_stack(
        with_layers(spec, window=windows),
        scale=config.number("query_pre_attn_scalar", above=0.0) ** -0.5,
        softcap=config.number("attn_logit_softcapping", above=0.0) if capped else None,
    )


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    bias = config.flag("attention_bias")
    return llama_like_sources(spec, tensors, qkv_bias=bias, o_bias=bias, norms=NORMS)


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits and caps them (final_logit_softcapping)."""
    capped = config.has("final_logit_softcapping")
    cap = config.number("final_logit_softcapping", above=0.0) if capped else None
    return lm_head(spec, tensors, config, tied=True, head=HeadSpec(softcap=cap))
