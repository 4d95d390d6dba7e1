"""What is compared with transformers: one row a family or variant. A new family adds rows here.

A row gives the model_type and what differs from transformers' default configuration. Sizes are
tiny; every parameter is randomised, because a default initialisation hides half the defects.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

TINY_BERT = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 36,
    "vocab_size": 40,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "pad_token_id": 0,
}


TINY_T5 = {
    "d_model": 12,
    "d_kv": 4,
    "d_ff": 14,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 3,
    "vocab_size": 40,
}
FAR = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 11}
DEEP = {"num_decoder_layers": 1, "d_kv": 5}
GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
TINY_BART = {
    "d_model": 12,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 14,
    "decoder_ffn_dim": 16,
    "vocab_size": 40,
    "max_position_embeddings": 16,
    "activation_function": "gelu",
}
SCALED = {"scale_embedding": True, "activation_function": "relu"}
LONG = {**SCALED, "encoder_layers": 2, "decoder_layers": 1}
PAD = {"pad_token_id": 39, "decoder_start_token_id": 39, "activation_function": "swish"}
UNTIED = {**PAD, "share_encoder_decoder_embeddings": False, "decoder_vocab_size": 41}
SINES = r"embed_positions\.weight$"
SOURCE = (7, 12, 33, 7, 39, 20, 5, 28, 31, 9, 14, 22, 1)
TARGET = (0, 17, 4, 25, 4, 38, 11, 6)


@dataclass(frozen=True, slots=True)
class Case:
    """One model that transformers and attn both compute."""

    name: str
    model_type: str
    config: dict[str, Any] = field(hash=False)
    ids: tuple[int, ...] = (1, 7, 12, 33, 7, 39, 20, 5, 28, 2)
    source: tuple[int, ...] = ()
    """What the encoder of an encoder-decoder reads; `ids` are then the decoder's."""
    unwritten: str = ""
    """Pattern of tensors that a model computes itself: neither randomised nor in the file."""


CASES = [
    Case("bert", "bert", {**TINY_BERT, "hidden_act": "gelu"}),
    # a large eps, so that a wrong one shows
    Case("bert-eps-tanh", "bert", {**TINY_BERT, "hidden_act": "gelu_new", "layer_norm_eps": 0.01}),
    Case("bert-relu", "bert", {**TINY_BERT, "hidden_act": "relu", "num_attention_heads": 1}),
    # as many tokens as there are positions
    Case("bert-silu-full", "bert", {**TINY_BERT, "hidden_act": "silu"}, tuple(range(3, 19))),
    # encoder-decoders: stacks of different depth, texts of different length
    Case("t5", "t5", TINY_T5, TARGET, SOURCE),
    # buckets run full within the text, heads together wider than the model
    Case("t5-far", "t5", {**TINY_T5, **FAR, **DEEP}, TARGET, tuple(range(3, 23))),
    Case("t5-v1.1", "t5", {**TINY_T5, **FAR, **GATED}, TARGET, SOURCE),
    Case("t5-gated-silu", "t5", {**TINY_T5, "feed_forward_proj": "gated-silu"}, TARGET, SOURCE),
    Case("t5-eps", "t5", {**TINY_T5, "layer_norm_epsilon": 0.01}, TARGET, SOURCE),
    Case("mt5", "mt5", {**TINY_T5, "decoder_start_token_id": 0}, TARGET, SOURCE),
    Case("umt5", "umt5", {**TINY_T5, **FAR}, TARGET, SOURCE),
    Case("bart", "bart", TINY_BART, TARGET, SOURCE),
    # as many tokens as there are positions
    Case("bart-scaled", "bart", {**TINY_BART, **LONG}, TARGET, tuple(range(3, 19))),
    Case("mbart", "mbart", {**TINY_BART, **SCALED}, TARGET, SOURCE),
    Case("marian", "marian", {**TINY_BART, **SCALED, **PAD}, TARGET, SOURCE),
    Case("marian-computed", "marian", {**TINY_BART, **PAD}, TARGET, SOURCE, SINES),
    Case("marian-untied", "marian", {**TINY_BART, **UNTIED}, (40, 17, 40), SOURCE, SINES),
    Case("pegasus", "pegasus", {**TINY_BART, **SCALED}, TARGET, SOURCE, SINES),
]
