"""Encoder-decoders."""

from __future__ import annotations

from tests.parity.cases.case import Case

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

SEQ2SEQ = [
    Case("t5", "t5", TINY_T5, TARGET, SOURCE),
    Case("t5-far", "t5", {**TINY_T5, **FAR, **DEEP}, TARGET, tuple(range(3, 23))),
    Case("t5-v1.1", "t5", {**TINY_T5, **FAR, **GATED}, TARGET, SOURCE),
    Case("t5-gated-silu", "t5", {**TINY_T5, "feed_forward_proj": "gated-silu"}, TARGET, SOURCE),
    Case("t5-eps", "t5", {**TINY_T5, "layer_norm_epsilon": 0.01}, TARGET, SOURCE),
    Case("mt5", "mt5", {**TINY_T5, "decoder_start_token_id": 0}, TARGET, SOURCE),
    Case("umt5", "umt5", {**TINY_T5, **FAR}, TARGET, SOURCE),
    Case("bart", "bart", TINY_BART, TARGET, SOURCE),
    Case("bart-scaled", "bart", {**TINY_BART, **LONG}, TARGET, tuple(range(3, 19))),
    Case("mbart", "mbart", {**TINY_BART, **SCALED}, TARGET, SOURCE),
    Case("marian", "marian", {**TINY_BART, **SCALED, **PAD}, TARGET, SOURCE),
    Case("marian-computed", "marian", {**TINY_BART, **PAD}, TARGET, SOURCE, SINES),
    Case("marian-untied", "marian", {**TINY_BART, **UNTIED}, (40, 17, 40), SOURCE, SINES),
    Case("pegasus", "pegasus", {**TINY_BART, **SCALED}, TARGET, SOURCE, SINES),
]
