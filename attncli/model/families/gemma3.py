"""Gemma 3 text: as Gemma 2, except: norms of queries and keys, two kinds of positions, no cap.

Queries and keys are normalised head by head; windowed layers have rotary settings of their own.
Reference: transformers/models/gemma3/modeling_gemma3.py (5.24). Honoured: as Gemma 2, and both
spellings of the rotary settings (rope_parameters by kind of layer; rope_theta and rope_scaling
for layers that see all, rope_local_base_freq for windowed ones); layer_types, else every
sliding_window_pattern-th layer sees all; use_bidirectional_attention (EmbeddingGemma: both ways,
the window reaches half as far to each side). Refused: attn_logit_softcapping, which the reference
does not apply. Ignored tensors: as Llama.
"""

from __future__ import annotations

from collections.abc import Collection

from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.families.gemma import scaled
from attncli.model.families.gemma2 import NORMS, head
from attncli.model.families.gemma2 import SIZES as GEMMA2_SIZES
from attncli.model.families.llama import (
    ignored,
    llama_like_sources,
    read_llama_like,
    with_layers,
    with_stack,
)
from attncli.model.families.rotary import read_rope
from attncli.model.families.windows import FULL, SLIDING, layer_types, window_sizes
from attncli.model.params import Source
from attncli.model.spec import ModelSpec, RopeSpec

__all__ = ["head", "ignored", "read_spec", "sources"]
SIZES = {
    **GEMMA2_SIZES,
    "vocab_size": 262_208,
    "max_position_embeddings": 131_072,
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
    "sliding_window_pattern": 6,
    "use_bidirectional_attention": False,
}
"""What the reference's configuration class takes for absent keys."""


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a Gemma 3 text configuration into a spec."""
    config.assume(SIZES)
    config.expect("attn_logit_softcapping")
    config.flag("attention_bias")
    config.pass_over("hidden_act", "final_logit_softcapping")
    spec = read_llama_like(config, "Gemma 3", activation_key="hidden_activation", base=1_000_000.0)
    pattern = config.count("sliding_window_pattern")
    if config.has("layer_types"):
        config.pass_over("_sliding_window_pattern")
    else:
        config.expect("_sliding_window_pattern", pattern)
    types = layer_types(config, spec.stack.n_layers, lambda i: (i + 1) % pattern != 0)
    windows = window_sizes(config, types)
    both_ways = config.flag("use_bidirectional_attention", False)
    if both_ways:
        windows = [None if window is None else window // 2 for window in windows]
    whole, local = spec.stack.layers[0].rope, _local_rope(config, spec.stack.head_dim)
    ropes = [local if kind == SLIDING else whole for kind in types]
    return with_stack(
        with_layers(scaled(spec), window=windows, rope=ropes),
        causal=not both_ways,
        scale=config.number("query_pre_attn_scalar", above=0.0) ** -0.5,
    )


def _local_rope(config: ConfigReader, head_dim: int) -> RopeSpec:
    """Rotary positions of windowed layers: never scaled unless their own map says so."""
    base = config.number("rope_local_base_freq", 10_000.0, above=0.0)
    parameters = config.mapping("rope_parameters")
    if parameters is None:
        return RopeSpec(base=base, dim=head_dim)
    if config.has("rope_scaling") or not {FULL, SLIDING} <= set(parameters):
        raise ModelProblem(
            f"{config.path}: rope_parameters needs a map for {FULL} and one for {SLIDING}, and "
            "no rope_scaling beside it."
        )
    n_positions = config.count("max_position_embeddings")
    return read_rope(
        config,
        head_dim,
        SLIDING,
        base=base,
        n_positions=n_positions,
        base_key="rope_local_base_freq",
    )


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    bias = config.flag("attention_bias")
    return llama_like_sources(
        spec, tensors, qkv_bias=bias, o_bias=bias, norms=NORMS, qk_norm="head"
    )
