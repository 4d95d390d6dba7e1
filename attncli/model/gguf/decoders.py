"""Architectures with the tensor names of Llama: a new one is a few lines here."""

from __future__ import annotations

from typing import Any

import numpy as np

from attncli.model.gguf.architecture import HALVES, Architecture, has
from attncli.model.gguf.keys import GROUPED, LAYER_NORM, RMS
from attncli.model.gguf.metadata import Metadata
from attncli.model.gguf.rotary import (
    LONG_DIVISORS,
    ROPE_FREQUENCIES,
    SHORT_DIVISORS,
    full_rotary,
    head_dim,
    partial_rotary,
    rotary,
)

_LAYER = "model.layers.{i}"
_ENDS = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_ATTENTION = {
    "blk.{i}.attn_norm": f"{_LAYER}.input_layernorm",
    "blk.{i}.attn_q": f"{_LAYER}.self_attn.q_proj",
    "blk.{i}.attn_k": f"{_LAYER}.self_attn.k_proj",
    "blk.{i}.attn_v": f"{_LAYER}.self_attn.v_proj",
    "blk.{i}.attn_output": f"{_LAYER}.self_attn.o_proj",
}
_GATED = {
    "blk.{i}.ffn_gate": f"{_LAYER}.mlp.gate_proj",
    "blk.{i}.ffn_up": f"{_LAYER}.mlp.up_proj",
    "blk.{i}.ffn_down": f"{_LAYER}.mlp.down_proj",
}
_LLAMA = {
    **_ENDS,
    **_ATTENTION,
    "blk.{i}.ffn_norm": f"{_LAYER}.post_attention_layernorm",
    **_GATED,
}
_QK_NORMS = {
    "blk.{i}.attn_q_norm": f"{_LAYER}.self_attn.q_norm",
    "blk.{i}.attn_k_norm": f"{_LAYER}.self_attn.k_norm",
}
_FOUR_NORMS = {
    "blk.{i}.post_attention_norm": f"{_LAYER}.post_attention_layernorm",
    "blk.{i}.ffn_norm": f"{_LAYER}.pre_feedforward_layernorm",
    "blk.{i}.post_ffw_norm": f"{_LAYER}.post_feedforward_layernorm",
}


def _llama(metadata: Metadata) -> dict[str, Any]:
    metadata.expect("expert_count", 0)
    metadata.get("expert_used_count")
    return {
        **full_rotary(metadata),
        "attention_bias": has(metadata, "blk.0.attn_q.bias"),
        "mlp_bias": has(metadata, "blk.0.ffn_up.bias"),
    }


def _granite(metadata: Metadata) -> dict[str, Any]:
    return {
        **_llama(metadata),
        "attention_multiplier": metadata.number("attention.scale"),
        "embedding_multiplier": metadata.number("embedding_scale", 1.0),
        "residual_multiplier": metadata.number("residual_scale", 1.0),
        "logits_scaling": metadata.number("logit_scale", 1.0),
    }


def _olmo(metadata: Metadata) -> dict[str, Any]:
    metadata.expect(LAYER_NORM, 1e-5, np.float32(1e-5).item())
    found = full_rotary(metadata)
    if metadata.has("attention.clamp_kqv"):
        found["clip_qkv"] = metadata.number("attention.clamp_kqv")
    return {**found, "attention_bias": has(metadata, "blk.0.attn_q.bias")}


def _gemma2(metadata: Metadata) -> dict[str, Any]:
    return {
        **full_rotary(metadata),
        "query_pre_attn_scalar": _query_scale(metadata, layers_of_largest=46),
        "attn_logit_softcapping": metadata.number("attn_logit_softcapping", 50.0),
        "final_logit_softcapping": metadata.number("final_logit_softcapping", 30.0),
        "sliding_window": metadata.count("attention.sliding_window"),
        "layer_types": _layer_types(metadata, every=2),
    }


def _gemma3(metadata: Metadata) -> dict[str, Any]:
    # the file has no base for the layers with a window unless it is unusual
    capped = metadata.has("final_logit_softcapping")
    return {
        "final_logit_softcapping": metadata.number("final_logit_softcapping") if capped else None,
        **full_rotary(metadata),
        "rope_local_base_freq": metadata.number("rope.freq_base_swa", 10_000.0),
        "query_pre_attn_scalar": _query_scale(metadata, layers_of_largest=62),
        "sliding_window": metadata.count("attention.sliding_window"),
        "layer_types": _layer_types(metadata, every=6),
    }


def _query_scale(metadata: Metadata, layers_of_largest: int) -> int | float:
    """Return what 1/sqrt(…) scales the scores: the head's width, in the largest model d/heads."""
    if metadata.has("attention.scale"):
        return round(metadata.number("attention.scale") ** -2, 4)
    if metadata.count("block_count") == layers_of_largest:
        return metadata.count("embedding_length") / metadata.count("attention.head_count")
    return head_dim(metadata)


def _layer_types(metadata: Metadata, every: int) -> list[str]:
    """Return the kind of each layer: every so many see all keys, the others those in a window."""
    pattern = metadata.get("attention.sliding_window_pattern")
    n_layers = metadata.count("block_count")
    if isinstance(pattern, list):
        windowed = [bool(layer) for layer in pattern]
    else:
        every = every if pattern is None else int(pattern)
        windowed = [(i + 1) % every != 0 for i in range(n_layers)]
    return ["sliding_attention" if window else "full_attention" for window in windowed]


def _phi3(metadata: Metadata) -> dict[str, Any]:
    window = metadata.get("attention.sliding_window")
    metadata.expect("rope.scaling.type", "longrope", "none")
    found = {
        "head_dim": head_dim(metadata),
        **partial_rotary(metadata),
        "sliding_window": window or None,
    }
    if SHORT_DIVISORS not in metadata.tensors:
        return found
    original = metadata.count("rope.scaling.original_context_length")
    found["original_max_position_embeddings"] = original
    found["rope_scaling"] = {
        "rope_type": "longrope",
        "short_factor": metadata.values(SHORT_DIVISORS),
        "long_factor": metadata.values(LONG_DIVISORS),
        "original_max_position_embeddings": original,
        "attention_factor": metadata.number("rope.scaling.attn_factor"),
    }
    return found


def _stablelm(metadata: Metadata) -> dict[str, Any]:
    metadata.get("use_parallel_residual")
    return {
        **partial_rotary(metadata),
        "use_qkv_bias": has(metadata, "blk.0.attn_q.bias"),
        "use_parallel_residual": not has(metadata, "blk.0.ffn_norm.weight"),
        "qk_layernorm": has(metadata, "blk.0.attn_q_norm.weight"),
    }


def _starcoder2(metadata: Metadata) -> dict[str, Any]:
    metadata.expect("rope.dimension_count", head_dim(metadata))
    return {**rotary(metadata), "use_bias": has(metadata, "blk.0.attn_q.bias")}


DECODERS = {
    "llama": Architecture(
        "llama",
        _LLAMA,
        RMS,
        {"hidden_act": "silu"},
        _llama,
        orders=HALVES,
        consumed=frozenset({ROPE_FREQUENCIES}),
    ),
    "granite": Architecture(
        "granite", _LLAMA, RMS, {"hidden_act": "silu"}, _granite, orders=HALVES
    ),
    "smollm3": Architecture(
        "smollm3",
        _LLAMA,
        RMS,
        # every fourth layer turns nothing, says no key
        {"hidden_act": "silu", "no_rope_layer_interval": 4},
        _llama,
        orders=HALVES,
    ),
    "olmo": Architecture(
        "olmo",
        {**_ENDS, **_ATTENTION, **_GATED},
        GROUPED,
        {"hidden_act": "silu"},
        _olmo,
        orders=HALVES,
    ),
    "qwen2": Architecture("qwen2", _LLAMA, RMS, {"hidden_act": "silu"}, full_rotary),
    "qwen3": Architecture(
        "qwen3",
        {**_LLAMA, **_QK_NORMS},
        RMS,
        {"hidden_act": "silu", "attention_bias": False},
        full_rotary,
    ),
    "gemma": Architecture(
        "gemma",
        _LLAMA,
        RMS,
        {"hidden_activation": "gelu_pytorch_tanh"},
        full_rotary,
        norm_offset_included=True,
    ),
    "gemma2": Architecture(
        "gemma2",
        {**_ENDS, **_ATTENTION, **_FOUR_NORMS, **_GATED},
        RMS,
        {"hidden_activation": "gelu_pytorch_tanh"},
        _gemma2,
        norm_offset_included=True,
    ),
    "gemma3": Architecture(
        "gemma3_text",
        {**_ENDS, **_ATTENTION, **_QK_NORMS, **_FOUR_NORMS, **_GATED},
        RMS,
        {"hidden_activation": "gelu_pytorch_tanh"},
        _gemma3,
        norm_offset_included=True,
    ),
    "olmo2": Architecture(
        "olmo2",
        {
            **_ENDS,
            **_ATTENTION,
            **_QK_NORMS,
            "blk.{i}.post_attention_norm": f"{_LAYER}.post_attention_layernorm",
            "blk.{i}.post_ffw_norm": f"{_LAYER}.post_feedforward_layernorm",
            **_GATED,
        },
        RMS,
        {"hidden_act": "silu", "attention_bias": False},
        full_rotary,
    ),
    "phi2": Architecture(
        "phi",
        {
            **_ENDS,
            **_ATTENTION,
            "output_norm": "model.final_layernorm",
            "blk.{i}.attn_output": f"{_LAYER}.self_attn.dense",
            "blk.{i}.ffn_up": f"{_LAYER}.mlp.fc1",
            "blk.{i}.ffn_down": f"{_LAYER}.mlp.fc2",
        },
        {**GROUPED, LAYER_NORM: "layer_norm_eps"},
        {"hidden_act": "gelu_new", "qk_layernorm": False},
        partial_rotary,
    ),
    "phi3": Architecture(
        "phi3",
        {
            **_LLAMA,
            "blk.{i}.attn_qkv": f"{_LAYER}.self_attn.qkv_proj",
            "blk.{i}.ffn_up": f"{_LAYER}.mlp.gate_up_proj",
        },
        RMS,
        {"hidden_act": "silu"},
        _phi3,
        consumed=frozenset({SHORT_DIVISORS, LONG_DIVISORS}),
    ),
    "stablelm": Architecture(
        "stablelm",
        _LLAMA,
        {**GROUPED, LAYER_NORM: "layer_norm_eps"},
        {"hidden_act": "silu"},
        _stablelm,
    ),
    "starcoder2": Architecture(
        "starcoder2",
        {
            **_LLAMA,
            "blk.{i}.ffn_up": f"{_LAYER}.mlp.c_fc",
            "blk.{i}.ffn_down": f"{_LAYER}.mlp.c_proj",
        },
        {**GROUPED, LAYER_NORM: "norm_epsilon"},
        {"hidden_act": "gelu_pytorch_tanh"},
        _starcoder2,
    ),
}
"""`general.architecture` to what attn makes of it."""
