"""gpt-oss: as Llama, except: learned sinks, experts with a clamped gate, windows in some layers.

A learned sink takes a share of every row of weights, which then sums to less than 1.
Reference: transformers/models/gpt_oss/modeling_gpt_oss.py (5.24). Honoured: as Llama (head_dim is
64 when absent, the rotary scaling yarn), attention_bias, sliding_window, layer_types,
num_local_experts, num_experts_per_tok, swiglu_alpha, swiglu_limit. The experts' gate and up stand
interleaved in one tensor [expert, d_model, 2 · d_ff]. hidden_act is not used by the reference.
Ignored tensors: as Llama.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from attncli.model.config import ConfigReader
from attncli.model.families.llama import SIZES as LLAMA_SIZES
from attncli.model.families.llama import (
    head,
    ignored,
    llama_like_sources,
    model_prefix,
    read_llama_like,
    with_layers,
    with_stack,
)
from attncli.model.families.mixtral import n_experts_of, read_experts
from attncli.model.families.names import linear
from attncli.model.families.windows import layer_types, window_sizes
from attncli.model.params import Source
from attncli.model.spec import ClampedGate, ModelSpec

__all__ = ["head", "ignored", "read_spec", "sources"]
Array = np.ndarray
SIZES = {
    **LLAMA_SIZES,
    "vocab_size": 201_088,
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "sliding_window": 128,
    "max_position_embeddings": 131_072,
    "rms_norm_eps": 1e-5,
    "num_experts_per_tok": 4,
    "swiglu_alpha": 1.702,
    "swiglu_limit": 7.0,
    "attention_bias": True,
    "rope_parameters": {
        "rope_type": "yarn",
        "factor": 32.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
        "original_max_position_embeddings": 4096,
    },
}
"""What the reference's configuration class takes for absent keys."""


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a gpt-oss configuration into a spec."""
    config.assume(SIZES)
    config.flag("attention_bias")
    config.pass_over("hidden_act", "initial_context_length")
    spec = read_llama_like(config, "gpt-oss", base=150_000.0)
    types = layer_types(config, spec.stack.n_layers, lambda i: i % 2 == 0)
    experts = read_experts(config, 128, renormalise=True)
    config.expect("experts_per_token", experts.n_chosen)
    return with_stack(
        with_layers(spec, window=window_sizes(config, types)),
        experts=experts,
        clamped_gate=ClampedGate(
            config.number("swiglu_alpha"), config.number("swiglu_limit", above=0.0)
        ),
    )


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    bias, stack = config.flag("attention_bias"), spec.stack
    n_experts, d_model, d_ff = n_experts_of(spec), stack.d_model, stack.d_ff
    found = llama_like_sources(spec, tensors, qkv_bias=bias, o_bias=bias, feed_forward=False)
    for i in range(stack.n_layers):
        layer = f"{model_prefix(tensors)}layers.{i}"
        found[f"{i}.attn.sinks"] = Source(f"{layer}.self_attn.sinks", (stack.n_heads,))
        found |= linear(f"{i}.ffn.router", f"{layer}.mlp.router", d_model, n_experts)
        for expert in range(n_experts):
            found |= _expert(
                f"{i}.ffn.{expert}", f"{layer}.mlp.experts", expert, (n_experts, d_model, d_ff)
            )
    return found


def _expert(name: str, tensor: str, expert: int, sizes: tuple[int, int, int]) -> dict[str, Source]:
    """Sources of one expert: its part of the tensors that hold all of them."""
    n_experts, d_model, d_ff = sizes
    rows = (expert, expert + 1)
    both, down = f"{tensor}.gate_up_proj", f"{tensor}.down_proj"
    found = {}
    for role, pick in (("gate", _even), ("up", _odd)):
        shape = (n_experts, d_model, 2 * d_ff)
        found[f"{name}.{role}.weight"] = Source(both, shape, pick, rows=rows)
        found[f"{name}.{role}.bias"] = Source(
            f"{both}_bias", (n_experts, 2 * d_ff), pick, rows=rows
        )
    found[f"{name}.down.weight"] = Source(down, (n_experts, d_ff, d_model), _only, rows=rows)
    found[f"{name}.down.bias"] = Source(f"{down}_bias", (n_experts, d_model), _only, rows=rows)
    return found


def _even(values: Array) -> Array:
    return np.ascontiguousarray(values[0, ..., ::2])


def _odd(values: Array) -> Array:
    return np.ascontiguousarray(values[0, ..., 1::2])


def _only(values: Array) -> Array:
    return values[0]
