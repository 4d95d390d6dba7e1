"""Metadata keys that architectures share, and what configurations call them."""

from __future__ import annotations

SIZES = {
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "attention.head_count": "num_attention_heads",
}
DECODER = {**SIZES, "feed_forward_length": "intermediate_size"}
ROTARY = {**DECODER, "context_length": "max_position_embeddings"}
GROUPED = {**ROTARY, "attention.head_count_kv": "num_key_value_heads"}
RMS = {**GROUPED, "attention.layer_norm_rms_epsilon": "rms_norm_eps"}
LAYER_NORM = "attention.layer_norm_epsilon"
