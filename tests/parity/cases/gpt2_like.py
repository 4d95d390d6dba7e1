"""GPT-2 and the decoders of its shape."""

from __future__ import annotations

from tests.parity.cases.case import Case

TINY_GPT2 = {
    "n_embd": 18,
    "n_layer": 2,
    "n_head": 3,
    "n_inner": 28,
    "vocab_size": 40,
    "n_positions": 12,
    "layer_norm_epsilon": 0.01,
}
TINY_DECODER = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "vocab_size": 40,
    "max_position_embeddings": 16,
    "pad_token_id": 0,
}
TINY_OPT = {
    "hidden_size": 18,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "ffn_dim": 28,
    "vocab_size": 40,
    "max_position_embeddings": 12,
}
TINY_FALCON = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 40,
    "ffn_hidden_size": 28,
    "max_position_embeddings": 16,
    "layer_norm_epsilon": 0.01,
    "multi_query": True,
    "parallel_attn": True,
}
TINY_MPT = {
    "d_model": 18,
    "n_heads": 3,
    "n_layers": 2,
    "max_seq_len": 12,
    "vocab_size": 40,
    "layer_norm_epsilon": 0.01,
}
PHI3_LONGROPE = {
    **TINY_DECODER,
    "num_key_value_heads": 2,
    "original_max_position_embeddings": 6,
    "max_position_embeddings": 24,
    "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.1], "long_factor": [1.5, 3.0]},
}

GPT2_LIKE_CASES = [
    # GPT-2-like decoders
    Case("gpt2", "gpt2", {**TINY_GPT2}),
    Case(
        "gpt2-scales",
        "gpt2",
        {**TINY_GPT2, "scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True},
    ),
    Case(
        "gpt2-upcast",
        "gpt2",
        {
            **TINY_GPT2,
            "n_inner": None,
            "activation_function": "relu",
            "scale_attn_by_inverse_layer_idx": True,
            "reorder_and_upcast_attn": True,
        },
    ),
    # a window of 4 in the second layer
    Case(
        "gpt-neo",
        "gpt_neo",
        {
            "hidden_size": 18,
            "num_layers": 2,
            "num_heads": 3,
            "intermediate_size": 28,
            "vocab_size": 40,
            "max_position_embeddings": 12,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 4,
        },
    ),
    Case("gptj", "gptj", {**TINY_GPT2, "rotary_dim": 4, "n_inner": None}),
    # half of 8 dimensions turn
    Case(
        "gpt-neox",
        "gpt_neox",
        {
            **TINY_DECODER,
            "num_attention_heads": 2,
            "rotary_pct": 0.5,
            "rotary_emb_base": 500,
            "layer_norm_eps": 0.01,
        },
    ),
    Case(
        "gpt-neox-sequential",
        "gpt_neox",
        {
            **TINY_DECODER,
            "num_attention_heads": 2,
            "hidden_act": "gelu_fast",
            "use_parallel_residual": False,
            "attention_bias": False,
            "rope_parameters": {
                "rope_type": "linear",
                "factor": 2.0,
                "rope_theta": 700.0,
                "partial_rotary_factor": 0.75,
            },
        },
    ),
    Case("opt", "opt", {**TINY_OPT}),
    # as opt-350m
    Case(
        "opt-post-norm",
        "opt",
        {
            **TINY_OPT,
            "hidden_size": 16,
            "num_attention_heads": 4,
            "word_embed_proj_dim": 10,
            "do_layer_norm_before": False,
            "activation_function": "gelu",
        },
    ),
    Case(
        "opt-no-bias",
        "opt",
        {**TINY_OPT, "word_embed_proj_dim": 24, "enable_bias": False},
    ),
    Case("opt-no-final-norm", "opt", {**TINY_OPT, "_remove_final_layer_norm": True}),
    # head counts that are no power of two
    Case(
        "bloom-3-heads",
        "bloom",
        {"hidden_size": 15, "n_layer": 2, "n_head": 3, "vocab_size": 40, "pretraining_tp": 2},
    ),
    Case(
        "bloom-7-heads",
        "bloom",
        {"n_embed": 14, "num_hidden_layers": 2, "num_attention_heads": 7, "vocab_size": 40},
    ),
    # one key/value head, one norm for both sub-layers
    Case("falcon-7b", "falcon", {**TINY_FALCON}),
    Case(
        "falcon-40b",
        "falcon",
        {**TINY_FALCON, "new_decoder_architecture": True, "num_kv_heads": 2, "bias": True},
    ),
    Case(
        "falcon-11b",
        "falcon",
        {
            **TINY_FALCON,
            "new_decoder_architecture": True,
            "num_kv_heads": 2,
            "num_ln_in_parallel_attn": 1,
            "rope_theta": 300.0,
        },
    ),
    Case(
        "falcon-rw",
        "falcon",
        {
            **TINY_FALCON,
            "hidden_size": 18,
            "num_attention_heads": 3,
            "alibi": True,
            "bias": True,
            "multi_query": False,
            "parallel_attn": False,
        },
    ),
    # so many heads that the slopes are no powers of two, and rounding shows
    Case(
        "falcon-alibi-multi-query",
        "falcon",
        {
            **TINY_FALCON,
            "hidden_size": 34,
            "num_attention_heads": 17,
            "ffn_hidden_size": 20,
            "alibi": True,
        },
    ),
    Case("mpt", "mpt", {**TINY_MPT}),
    # a bound that cuts off
    Case(
        "mpt-clip",
        "mpt",
        {**TINY_MPT, "n_heads": 6, "attn_config": {"clip_qkv": 0.4, "softmax_scale": 0.7}},
    ),
    Case("phi", "phi", {**TINY_DECODER, "partial_rotary_factor": 0.5, "layer_norm_eps": 0.01}),
    Case(
        "phi-qk-norm",
        "phi",
        {
            **TINY_DECODER,
            "num_key_value_heads": 2,
            "qk_layernorm": True,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 300.0,
                "partial_rotary_factor": 1.0,
            },
        },
    ),
    Case(
        "starcoder2",
        "starcoder2",
        {
            **TINY_DECODER,
            "num_key_value_heads": 2,
            "sliding_window": 4,
            "rope_theta": 300.0,
            "norm_epsilon": 0.01,
        },
    ),
    Case(
        "starcoder2-no-bias",
        "starcoder2",
        {**TINY_DECODER, "num_key_value_heads": 1, "use_bias": False},
    ),
    Case(
        "stablelm",
        "stablelm",
        {**TINY_DECODER, "num_key_value_heads": 4, "partial_rotary_factor": 0.5},
    ),
    Case(
        "stablelm-parallel",
        "stablelm",
        {
            **TINY_DECODER,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "use_parallel_residual": True,
            "qk_layernorm": True,
            "use_qkv_bias": True,
            "layer_norm_eps": 0.01,
        },
    ),
    Case(
        "phi3",
        "phi3",
        {
            **TINY_DECODER,
            "num_key_value_heads": 2,
            "head_dim": 6,
            "sliding_window": 4,
            "partial_rotary_factor": 0.67,
        },
    ),
    # ten tokens are more than the original length, five are not
    Case("phi3-long", "phi3", {**PHI3_LONGROPE}),
    Case("phi3-short", "phi3", {**PHI3_LONGROPE}, (1, 7, 12, 33, 7)),
    Case(
        "phi3-factor",
        "phi3",
        {
            **PHI3_LONGROPE,
            "rope_scaling": None,
            "rope_parameters": {
                "rope_type": "longrope",
                "factor": 8.0,
                "rope_theta": 300.0,
                "partial_rotary_factor": 1.0,
                "short_factor": [1.0, 1.1],
                "long_factor": [1.5, 3.0],
            },
        },
    ),
]
