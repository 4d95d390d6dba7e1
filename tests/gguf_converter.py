"""Checkpoints to GGUF as llama.cpp's converter writes them: the opposite direction, told apart.

Names come from the gguf package, values and metadata from what convert_hf_to_gguf.py does to each
architecture; nothing is taken from attncli, so that a mistake there cannot cancel out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gguf import MODEL_ARCH_NAMES, get_tensor_name_map
from tokenizers.pre_tokenizers import ByteLevel

Array = np.ndarray

PREFIXES = {
    "bert": "bert.",
    "gpt2": "transformer.",
    "bloom": "transformer.",
    "falcon": "transformer.",
    "gptneox": "gpt_neox.",
    "mpt": "transformer.",
    "t5": "",
}
"""What the names of a whole model begin with; "model." for all others."""
SIZES = {
    "embedding_length": ("hidden_size", "n_embd", "n_embed", "d_model"),
    "block_count": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "feed_forward_length": ("intermediate_size", "n_inner", "d_ff", "ffn_hidden_size"),
    "context_length": ("max_position_embeddings", "n_positions", "max_seq_len"),
    "attention.head_count": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "attention.head_count_kv": ("num_key_value_heads", "num_kv_heads"),
    "attention.key_length": ("head_dim", "d_kv"),
    "attention.value_length": ("head_dim", "d_kv"),
    "attn_logit_softcapping": ("attn_logit_softcapping",),
    "attention.scale": ("attention_multiplier",),
    "embedding_scale": ("embedding_multiplier",),
    "residual_scale": ("residual_multiplier",),
    "logit_scale": ("logits_scaling",),
}


def bytes_tokenizer(n_tokens: int) -> dict[str, Any]:
    """Metadata of a byte-level tokenizer with as many tokens as a model has rows."""
    pieces = [*sorted(ByteLevel.alphabet()), *(f"<{i}>" for i in range(n_tokens))][:n_tokens]
    pieces[-1] = pieces[0] + pieces[1]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.token_type": np.ones(n_tokens, np.int32),
        "tokenizer.ggml.merges": [f"{pieces[0]} {pieces[1]}"],
    }


def convert(
    architecture: str, config: Mapping[str, Any], tensors: Mapping[str, Array]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return metadata and tensors of the GGUF file."""
    metadata: dict[str, Any] = {"general.architecture": architecture}
    for key, spellings in SIZES.items():
        found = [config[name] for name in spellings if config.get(name) is not None]
        if found:
            metadata[f"{architecture}.{key}"] = found[0]
    arch = next(number for number, name in MODEL_ARCH_NAMES.items() if name == architecture)
    names = get_tensor_name_map(arch, 8)
    prefix = PREFIXES.get(architecture, "model.")
    converted: dict[str, Array] = {}
    for name, values in tensors.items():
        stem, suffix = name.rsplit(".", 1)
        renamed = names.get_name(prefix + stem) or names.get_name(stem)
        assert renamed is not None, name
        converted[f"{renamed}.{suffix}"] = _value(architecture, config, renamed, suffix, values)
    return metadata, converted


def _value(
    architecture: str, config: Mapping[str, Any], name: str, suffix: str, values: Array
) -> Array:
    heads = config.get("num_attention_heads") or config.get("n_head") or config.get("n_heads") or 0
    kv_heads = config.get("num_key_value_heads") or config.get("num_kv_heads") or heads
    role = name.rsplit(".", 1)[-1]
    if architecture in ("llama", "granite", "olmo", "smollm3") and role in ("attn_q", "attn_k"):
        n = heads if role == "attn_q" else kv_heads
        halves = values.reshape(n, 2, -1, *values.shape[1:])
        values = halves.swapaxes(1, 2).reshape(values.shape)
    if architecture.startswith("gemma") and name.endswith("norm") and suffix == "weight":
        values = values + 1
    if architecture in ("bloom", "gptneox") and role == "attn_qkv":
        values = (
            values.reshape(heads, 3, -1, *values.shape[1:]).swapaxes(0, 1).reshape(values.shape)
        )
    if architecture == "falcon" and role == "attn_qkv":
        kv = config.get("num_kv_heads", 1 if config.get("multi_query", True) else heads)
        groups = values.reshape(kv, heads // kv + 2, -1, *values.shape[1:])
        parts = groups[:, :-2], groups[:, -2], groups[:, -1]
        width = groups.shape[2]
        flat = [part.reshape(-1, width, *values.shape[1:]) for part in parts]
        values = np.concatenate(flat).reshape(values.shape)
    if (
        architecture == "gpt2"
        and suffix == "weight"
        and role
        in (
            "attn_qkv",
            "attn_output",
            "ffn_up",
            "ffn_down",
        )
    ):
        values = values.T
    return np.ascontiguousarray(values, np.float32)
