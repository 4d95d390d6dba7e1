"""Qwen2-MoE and Qwen3-MoE: as Qwen2 and Qwen3, except: some or all layers are mixtures of experts.

Reference: transformers/models/qwen2_moe/modeling_qwen2_moe.py and qwen3_moe/modeling_qwen3_moe.py
(5.24). Honoured: num_experts, num_experts_per_tok, norm_topk_prob, moe_intermediate_size,
decoder_sparse_step and mlp_only_layers (which layers have one feed-forward part as usual); in
Qwen2-MoE qkv_bias and a shared expert behind a sigmoid gate (shared_expert_intermediate_size),
windows by layer_types, else in every other of the first max_window_layers layers; in Qwen3-MoE
windows in all layers or none. Ignored tensors: as Llama.
"""

from __future__ import annotations

from collections.abc import Collection

from attncli.model.config import ConfigReader
from attncli.model.families.experts import expert_sources
from attncli.model.families.llama import (
    gated,
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
from attncli.model.families.qwen2 import SIZES as QWEN2_SIZES
from attncli.model.families.windows import layer_types, window_sizes
from attncli.model.params import Source
from attncli.model.spec import ModelSpec

__all__ = ["head", "ignored", "read_spec", "sources"]
SIZES = {
    **QWEN2_SIZES,
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "decoder_sparse_step": 1,
    "norm_topk_prob": False,
}
QWEN2_MOE = {
    **SIZES,
    "intermediate_size": 5632,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632,
    "num_experts_per_tok": 4,
    "qkv_bias": True,
}
QWEN3_MOE = {
    **SIZES,
    "intermediate_size": 6144,
    "num_key_value_heads": 4,
    "moe_intermediate_size": 768,
    "num_experts_per_tok": 8,
    "attention_bias": False,
}
"""What the references' configuration classes take for absent keys."""


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a configuration of either into a spec."""
    second = _is_second(config)
    config.assume(QWEN2_MOE if second else QWEN3_MOE)
    config.flag("qkv_bias" if second else "attention_bias")
    config.count("moe_intermediate_size")
    if second:
        config.count("shared_expert_intermediate_size")
    _expert_layers(config)
    spec = read_llama_like(config, "Qwen2-MoE" if second else "Qwen3-MoE")
    on, last = config.flag("use_sliding_window"), config.count("max_window_layers", least=0)
    slides = on and config.has("sliding_window")
    if second:
        types = layer_types(
            config, spec.stack.n_layers, lambda i: slides and i % 2 == 0 and i < last
        )
        windows = window_sizes(config, types, on=on)
    else:
        config.expect("layer_types")
        size = config.count("sliding_window") if slides else None
        config.pass_over("sliding_window")
        windows = [size] * spec.stack.n_layers
    experts = read_experts(config, 60 if second else 128, renormalise=config.flag("norm_topk_prob"))
    return with_stack(with_layers(spec, window=windows), experts=experts)


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    second, stack = _is_second(config), spec.stack
    if second:
        found = llama_like_sources(
            spec, tensors, qkv_bias=config.flag("qkv_bias"), feed_forward=False
        )
    else:
        bias = config.flag("attention_bias")
        found = llama_like_sources(
            spec, tensors, qkv_bias=bias, o_bias=bias, qk_norm="head", feed_forward=False
        )
    n_experts, with_experts = n_experts_of(spec), _expert_layers(config)
    for i in range(stack.n_layers):
        mlp = f"{model_prefix(tensors)}layers.{i}.mlp"
        if not with_experts[i]:
            found |= gated(f"{i}.ffn", mlp, stack.d_model, stack.d_ff)
            continue
        found |= linear(f"{i}.ffn.router", f"{mlp}.gate", stack.d_model, n_experts, bias=False)
        found |= expert_sources(
            i,
            f"{mlp}.experts",
            tensors,
            n_experts=n_experts,
            d_model=stack.d_model,
            d_ff=config.count("moe_intermediate_size"),
        )
        if second:
            d_shared = config.count("shared_expert_intermediate_size")
            found |= gated(f"{i}.ffn.shared", f"{mlp}.shared_expert", stack.d_model, d_shared)
            gate = f"{mlp}.shared_expert_gate"
            found |= linear(f"{i}.ffn.shared_gate", gate, stack.d_model, 1, bias=False)
    return found


def _is_second(config: ConfigReader) -> bool:
    return config.text("model_type") == "qwen2_moe"


def _expert_layers(config: ConfigReader) -> list[bool]:
    step, dense = config.count("decoder_sparse_step"), config.counts("mlp_only_layers") or []
    layers = range(config.count("num_hidden_layers"))
    return [i not in dense and (i + 1) % step == 0 for i in layers]
