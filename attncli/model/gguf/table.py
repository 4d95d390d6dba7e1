"""The architectures attn knows, as data: a new one is a few lines here.

A file can only be opened when a family of its `model_type` is registered. What a file cannot say
is what llama.cpp takes for granted, and stands here as a constant.
"""

from __future__ import annotations

from typing import Any

from attncli.model.gguf.architecture import HALVES, Architecture, by_group, by_head
from attncli.model.gguf.metadata import Metadata
from attncli.model.gguf.rotary import (
    ROPE_FREQUENCIES,
    full_rotary,
    head_dim,
    partial_rotary,
    rotary,
)

_SIZES = {
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "attention.head_count": "num_attention_heads",
}
_DECODER = {**_SIZES, "feed_forward_length": "intermediate_size"}
_ROTARY = {**_DECODER, "context_length": "max_position_embeddings"}
_GROUPED = {**_ROTARY, "attention.head_count_kv": "num_key_value_heads"}
_RMS = {**_GROUPED, "attention.layer_norm_rms_epsilon": "rms_norm_eps"}
_LAYER_NORM = "attention.layer_norm_epsilon"

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
_NO_EXPERTS = frozenset({"expert_count", "expert_used_count"})
_LOGITS = frozenset({"logit_scale", "final_logit_softcapping"})


def _has(metadata: Metadata, tensor: str) -> bool:
    return tensor in metadata.tensors


def _llama(metadata: Metadata) -> dict[str, Any]:
    metadata.expect("expert_count", 0)
    metadata.get("expert_used_count")
    return {
        **full_rotary(metadata),
        "attention_bias": _has(metadata, "blk.0.attn_q.bias"),
        "mlp_bias": _has(metadata, "blk.0.ffn_up.bias"),
    }


def _granite(metadata: Metadata) -> dict[str, Any]:
    return {
        **_llama(metadata),
        "attention_multiplier": metadata.number("attention.scale"),
        "embedding_multiplier": metadata.number("embedding_scale", 1.0),
        "residual_multiplier": metadata.number("residual_scale", 1.0),
        "logits_scaling": metadata.number("logit_scale", 1.0),
    }


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
    return {
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


def _bert(metadata: Metadata) -> dict[str, Any]:
    metadata.expect("attention.causal", False)
    return {
        "max_position_embeddings": metadata.rows("position_embd.weight"),
        "type_vocab_size": metadata.rows("token_types.weight"),
    }


def _gpt2(metadata: Metadata) -> dict[str, Any]:
    return {"n_positions": metadata.rows("position_embd.weight")}


def _phi3(metadata: Metadata) -> dict[str, Any]:
    window = metadata.get("attention.sliding_window")
    return {**partial_rotary(metadata), "sliding_window": window or None}


def _stablelm(metadata: Metadata) -> dict[str, Any]:
    metadata.get("use_parallel_residual")
    return {
        **partial_rotary(metadata),
        "use_qkv_bias": _has(metadata, "blk.0.attn_q.bias"),
        "use_parallel_residual": not _has(metadata, "blk.0.ffn_norm.weight"),
        "qk_layernorm": _has(metadata, "blk.0.attn_q_norm.weight"),
    }


def _starcoder2(metadata: Metadata) -> dict[str, Any]:
    metadata.expect("rope.dimension_count", head_dim(metadata))
    return {**rotary(metadata), "use_bias": _has(metadata, "blk.0.attn_q.bias")}


def _gpt_neox(metadata: Metadata) -> dict[str, Any]:
    found = partial_rotary(metadata)
    parallel = metadata.get("use_parallel_residual")
    return {
        "rotary_pct": found.pop("partial_rotary_factor"),
        **found,
        "use_parallel_residual": True if parallel is None else parallel,
        "attention_bias": _has(metadata, "blk.0.attn_qkv.bias"),
    }


def _falcon(metadata: Metadata) -> dict[str, Any]:
    metadata.expect("rope.dimension_count", head_dim(metadata))
    new = _has(metadata, "blk.0.attn_norm_2.weight")
    n_kv_heads = metadata.count("attention.head_count_kv")
    return {
        **rotary(metadata),
        "new_decoder_architecture": new,
        "multi_query": n_kv_heads == 1,
        "num_kv_heads": n_kv_heads,
        "parallel_attn": True,
        "alibi": False,
        "bias": _has(metadata, "blk.0.attn_qkv.bias"),
    }


ARCHITECTURES = {
    "llama": Architecture(
        "llama",
        _LLAMA,
        _RMS,
        {"hidden_act": "silu"},
        _llama,
        orders=HALVES,
        consumed=frozenset({ROPE_FREQUENCIES}),
    ),
    "granite": Architecture(
        "granite", _LLAMA, _RMS, {"hidden_act": "silu"}, _granite, orders=HALVES
    ),
    "qwen2": Architecture("qwen2", _LLAMA, _RMS, {"hidden_act": "silu"}, full_rotary),
    "qwen3": Architecture(
        "qwen3",
        {**_LLAMA, **_QK_NORMS},
        _RMS,
        {"hidden_act": "silu", "attention_bias": False},
        full_rotary,
    ),
    "gemma": Architecture(
        "gemma",
        _LLAMA,
        _RMS,
        {"hidden_activation": "gelu_pytorch_tanh"},
        full_rotary,
        norm_offset_included=True,
    ),
    "gemma2": Architecture(
        "gemma2",
        {**_ENDS, **_ATTENTION, **_FOUR_NORMS, **_GATED},
        _RMS,
        {"hidden_activation": "gelu_pytorch_tanh"},
        _gemma2,
        norm_offset_included=True,
    ),
    "gemma3": Architecture(
        "gemma3_text",
        {**_ENDS, **_ATTENTION, **_QK_NORMS, **_FOUR_NORMS, **_GATED},
        _RMS,
        {"hidden_activation": "gelu_pytorch_tanh"},
        _gemma3,
        neutral=_LOGITS,
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
        _RMS,
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
        {**_GROUPED, _LAYER_NORM: "layer_norm_eps"},
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
        _RMS,
        {"hidden_act": "silu"},
        _phi3,
    ),
    "stablelm": Architecture(
        "stablelm",
        _LLAMA,
        {**_GROUPED, _LAYER_NORM: "layer_norm_eps"},
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
        {**_GROUPED, _LAYER_NORM: "norm_epsilon"},
        {"hidden_act": "gelu_pytorch_tanh"},
        _starcoder2,
    ),
    "gptneox": Architecture(
        "gpt_neox",
        {
            "token_embd": "gpt_neox.embed_in",
            "output_norm": "gpt_neox.final_layer_norm",
            "output": "embed_out",
            "blk.{i}.attn_norm": "gpt_neox.layers.{i}.input_layernorm",
            "blk.{i}.attn_qkv": "gpt_neox.layers.{i}.attention.query_key_value",
            "blk.{i}.attn_output": "gpt_neox.layers.{i}.attention.dense",
            "blk.{i}.ffn_norm": "gpt_neox.layers.{i}.post_attention_layernorm",
            "blk.{i}.ffn_up": "gpt_neox.layers.{i}.mlp.dense_h_to_4h",
            "blk.{i}.ffn_down": "gpt_neox.layers.{i}.mlp.dense_4h_to_h",
        },
        {**_ROTARY, _LAYER_NORM: "layer_norm_eps"},
        {"hidden_act": "gelu"},
        _gpt_neox,
        orders={"attn_qkv": by_head},
    ),
    "gpt2": Architecture(
        "gpt2",
        {
            "token_embd": "transformer.wte",
            "position_embd": "transformer.wpe",
            "output_norm": "transformer.ln_f",
            "output": "lm_head",
            "blk.{i}.attn_norm": "transformer.h.{i}.ln_1",
            "blk.{i}.attn_qkv": "transformer.h.{i}.attn.c_attn",
            "blk.{i}.attn_output": "transformer.h.{i}.attn.c_proj",
            "blk.{i}.ffn_norm": "transformer.h.{i}.ln_2",
            "blk.{i}.ffn_up": "transformer.h.{i}.mlp.c_fc",
            "blk.{i}.ffn_down": "transformer.h.{i}.mlp.c_proj",
        },
        {
            "embedding_length": "n_embd",
            "block_count": "n_layer",
            "attention.head_count": "n_head",
            "feed_forward_length": "n_inner",
            _LAYER_NORM: "layer_norm_epsilon",
        },
        {"activation_function": "gelu_new"},
        _gpt2,
        neutral=frozenset({"context_length"}),
        transposed=frozenset({"attn_qkv", "attn_output", "ffn_up", "ffn_down"}),
    ),
    "bloom": Architecture(
        "bloom",
        {
            "token_embd": "transformer.word_embeddings",
            "token_embd_norm": "transformer.word_embeddings_layernorm",
            "output_norm": "transformer.ln_f",
            "output": "lm_head",
            "blk.{i}.attn_norm": "transformer.h.{i}.input_layernorm",
            "blk.{i}.attn_qkv": "transformer.h.{i}.self_attention.query_key_value",
            "blk.{i}.attn_output": "transformer.h.{i}.self_attention.dense",
            "blk.{i}.ffn_norm": "transformer.h.{i}.post_attention_layernorm",
            "blk.{i}.ffn_up": "transformer.h.{i}.mlp.dense_h_to_4h",
            "blk.{i}.ffn_down": "transformer.h.{i}.mlp.dense_4h_to_h",
        },
        {
            "embedding_length": "hidden_size",
            "block_count": "n_layer",
            "attention.head_count": "n_head",
            _LAYER_NORM: "layer_norm_epsilon",
        },
        neutral=frozenset({"context_length", "feed_forward_length", "attention.head_count_kv"}),
        orders={"attn_qkv": by_head},
    ),
    "falcon": Architecture(
        "falcon",
        {
            "token_embd": "transformer.word_embeddings",
            "output_norm": "transformer.ln_f",
            "output": "lm_head",
            "blk.{i}.attn_norm": "transformer.h.{i}.input_layernorm",
            "blk.{i}.attn_norm_2": "transformer.h.{i}.ln_attn",
            "blk.{i}.attn_qkv": "transformer.h.{i}.self_attention.query_key_value",
            "blk.{i}.attn_output": "transformer.h.{i}.self_attention.dense",
            "blk.{i}.ffn_up": "transformer.h.{i}.mlp.dense_h_to_4h",
            "blk.{i}.ffn_down": "transformer.h.{i}.mlp.dense_4h_to_h",
        },
        {**_DECODER, _LAYER_NORM: "layer_norm_epsilon"},
        {"activation": "gelu"},
        _falcon,
        neutral=frozenset({"context_length"}),
        orders={"attn_qkv": by_group},
    ),
    "bert": Architecture(
        "bert",
        {
            "token_embd": "embeddings.word_embeddings",
            "position_embd": "embeddings.position_embeddings",
            "token_types": "embeddings.token_type_embeddings",
            "token_embd_norm": "embeddings.LayerNorm",
            "blk.{i}.attn_q": "encoder.layer.{i}.attention.self.query",
            "blk.{i}.attn_k": "encoder.layer.{i}.attention.self.key",
            "blk.{i}.attn_v": "encoder.layer.{i}.attention.self.value",
            "blk.{i}.attn_output": "encoder.layer.{i}.attention.output.dense",
            "blk.{i}.attn_output_norm": "encoder.layer.{i}.attention.output.LayerNorm",
            "blk.{i}.ffn_up": "encoder.layer.{i}.intermediate.dense",
            "blk.{i}.ffn_down": "encoder.layer.{i}.output.dense",
            "blk.{i}.layer_output_norm": "encoder.layer.{i}.output.LayerNorm",
        },
        {**_DECODER, _LAYER_NORM: "layer_norm_eps"},
        {"hidden_act": "gelu"},
        _bert,
        neutral=frozenset({"context_length", "attention.head_count_kv"}),
    ),
}
"""`general.architecture` to what attn makes of it."""
