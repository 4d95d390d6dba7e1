"""Llama and its relatives."""

from __future__ import annotations

from tests.parity.cases.case import Case

TINY_LLAMA = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 20,
    "vocab_size": 40,
    "max_position_embeddings": 32,
}
ONE_LAYER = {**TINY_LLAMA, "num_hidden_layers": 1}
LONG = tuple((7 * i + 3) % 40 for i in range(20))
"""More tokens than the models with scaled positions were first trained on."""


def rope(kind: str, **settings: Any) -> dict[str, Any]:
    """One layer whose positions are scaled, first trained on 8 tokens unless said otherwise."""
    parameters = {"rope_theta": 100.0, "rope_type": kind, **settings}
    return {**ONE_LAYER, "head_dim": 8, "rope_parameters": parameters}


YARN = {"factor": 4.0, "original_max_position_embeddings": 8, "beta_fast": 1.5, "beta_slow": 0.25}
LONGROPE = {
    "short_factor": [1.0, 1.5, 2.0, 3.0],
    "long_factor": [1.0, 2.0, 5.0, 9.0],
    "original_max_position_embeddings": 12,
}
LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}

LLAMA_CASES = [
    Case("llama", "llama", TINY_LLAMA),
    Case(
        "llama-mqa-biases-head-dim",
        "llama",
        {
            **TINY_LLAMA,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "hidden_size": 15,
            "head_dim": 6,
            "attention_bias": True,
            "mlp_bias": True,
            "hidden_act": "gelu",
            "rms_norm_eps": 0.01,
        },
    ),
    Case("llama-linear", "llama", rope("linear", factor=2.0), LONG),
    # short texts are not stretched: 32 positions are trained, 20 tokens stay as they are
    Case("llama-dynamic-short", "llama", rope("dynamic", factor=3.0), LONG),
    Case(
        "llama-dynamic-long",
        "llama",
        {**rope("dynamic", factor=3.0), "max_position_embeddings": 12},
        LONG,
    ),
    Case("llama-llama3", "llama", rope("llama3", **LLAMA3), LONG),
    Case("llama-yarn", "llama", rope("yarn", **YARN), LONG),
    Case("llama-yarn-untruncated", "llama", rope("yarn", **YARN, truncate=False), LONG),
    Case(
        "llama-yarn-mscale",
        "llama",
        rope("yarn", **YARN, mscale=0.7, mscale_all_dim=1.3),
        LONG,
    ),
    Case("llama-yarn-explicit", "llama", rope("yarn", **YARN, attention_factor=1.25), LONG),
    Case("llama-longrope-short", "llama", rope("longrope", **LONGROPE), LONG[:12]),
    Case("llama-longrope-long", "llama", rope("longrope", **LONGROPE, factor=4.0), LONG),
    Case(
        "llama-old-spelling",
        "llama",
        {
            **ONE_LAYER,
            "rope_theta": 500.0,
            "rope_scaling": {"type": "yarn", "factor": 4.0},
            "original_max_position_embeddings": 8,
        },
        LONG,
    ),
]

WINDOWED = {**TINY_LLAMA, "sliding_window": 4}
EXPERTS = {**ONE_LAYER, "intermediate_size": 6, "num_experts_per_tok": 2}
GEMMA = {**TINY_LLAMA, "head_dim": 6, "num_key_value_heads": 1}
TINY_VISION = {
    "hidden_size": 4,
    "intermediate_size": 4,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "image_size": 4,
    "patch_size": 4,
}

LLAMA_LIKE_CASES = [
    Case("mistral-window", "mistral", {**WINDOWED, "head_dim": 6}),
    Case("mistral-no-window", "mistral", {**ONE_LAYER, "sliding_window": None}),
    Case(
        "ministral",
        "ministral",
        {**WINDOWED, "head_dim": 4, "layer_types": ["full_attention", "sliding_attention"]},
    ),
    Case("mixtral", "mixtral", {**EXPERTS, "num_hidden_layers": 2, "num_local_experts": 4}),
    Case(
        "mixtral-one-of-three",
        "mixtral",
        {**EXPERTS, "num_local_experts": 3, "num_experts_per_tok": 1, "sliding_window": 3},
    ),
    Case("qwen2-window-off", "qwen2", {**WINDOWED, "max_window_layers": 0}),
    Case(
        "qwen2-window-on",
        "qwen2",
        {**WINDOWED, "use_sliding_window": True, "max_window_layers": 1, "rope_theta": 500.0},
    ),
    Case(
        "qwen3",
        "qwen3",
        {**TINY_LLAMA, "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 4},
    ),
    Case(
        "qwen3-biases-layer-types",
        "qwen3",
        {
            **WINDOWED,
            "head_dim": 6,
            "attention_bias": True,
            "use_sliding_window": True,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
    Case(
        "qwen2-moe",
        "qwen2_moe",
        {
            **EXPERTS,
            "num_hidden_layers": 3,
            "num_experts": 3,
            "mlp_only_layers": [2],
            "moe_intermediate_size": 5,
            "shared_expert_intermediate_size": 7,
            "use_sliding_window": True,
            "sliding_window": 3,
            "max_window_layers": 2,
        },
    ),
    Case(
        "qwen3-moe",
        "qwen3_moe",
        {
            **EXPERTS,
            "num_hidden_layers": 2,
            "head_dim": 6,
            "num_experts": 4,
            "moe_intermediate_size": 5,
            "decoder_sparse_step": 2,
            "norm_topk_prob": True,
            "attention_bias": True,
            "use_sliding_window": True,
            "sliding_window": 3,
        },
    ),
    Case(
        "smollm3",
        "smollm3",
        {**TINY_LLAMA, "no_rope_layer_interval": 2, "pad_token_id": 0},
    ),
    Case(
        "smollm3-window-biases",
        "smollm3",
        {
            **WINDOWED,
            "no_rope_layers": [0, 1],
            "use_sliding_window": True,
            "attention_bias": True,
            "mlp_bias": True,
            "pad_token_id": 0,
        },
    ),
    Case("gemma", "gemma", {**GEMMA, "hidden_act": "gelu"}),
    Case(
        "gemma2",
        "gemma2",
        {
            **GEMMA,
            "num_attention_heads": 2,
            "sliding_window": 4,
            "query_pre_attn_scalar": 13,
            "attn_logit_softcapping": 1.5,
            "hidden_act": "relu",
        },
    ),
    Case(
        "gemma2-uncapped-layer-types",
        "gemma2",
        {
            **GEMMA,
            "sliding_window": 3,
            "attn_logit_softcapping": None,
            "attention_bias": True,
            "layer_types": ["full_attention", "sliding_attention"],
            "hidden_activation": "silu",
        },
    ),
    Case(
        "gemma3",
        "gemma3_text",
        {
            **GEMMA,
            "sliding_window": 4,
            "query_pre_attn_scalar": 13,
            "layer_types": ["sliding_attention", "full_attention"],
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 30.0},
                "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 900.0},
            },
        },
    ),
    Case(
        "gemma3-old-spelling",
        "gemma3_text",
        {
            **GEMMA,
            "sliding_window": 4,
            "sliding_window_pattern": 2,
            "rope_theta": 900.0,
            "rope_local_base_freq": 30.0,
            "rope_scaling": {"rope_type": "linear", "factor": 4.0},
        },
    ),
    Case(
        "gemma3-both-ways",
        "gemma3_text",
        {
            **GEMMA,
            "sliding_window": 5,
            "use_bidirectional_attention": True,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
    Case("olmo", "olmo", TINY_LLAMA),
    Case("olmo-clipped", "olmo", {**TINY_LLAMA, "clip_qkv": 0.4, "attention_bias": True}),
    Case("olmo2", "olmo2", {**TINY_LLAMA, "head_dim": 6}),
    Case(
        "granite",
        "granite",
        {
            **TINY_LLAMA,
            "embedding_multiplier": 3.0,
            "residual_multiplier": 0.6,
            "attention_multiplier": 0.3,
            "logits_scaling": 8.0,
            "attention_bias": True,
            "mlp_bias": True,
        },
    ),
    Case(
        "gpt-oss",
        "gpt_oss",
        {
            **EXPERTS,
            "num_hidden_layers": 2,
            "head_dim": 6,
            "num_local_experts": 3,
            "sliding_window": 4,
            "swiglu_limit": 0.5,
            "swiglu_alpha": 1.5,
        },
        LONG,
    ),
    Case(
        "gpt-oss-old-spelling",
        "gpt_oss",
        {
            **EXPERTS,
            "head_dim": 8,
            "num_local_experts": 3,
            "num_experts_per_tok": 3,
            "layer_types": ["full_attention"],
            "attention_bias": False,
            "rope_theta": 200.0,
            "rope_scaling": {
                "rope_type": "yarn",
                "factor": 4.0,
                "beta_fast": 1.5,
                "beta_slow": 0.25,
                "truncate": False,
                "original_max_position_embeddings": 8,
            },
        },
        LONG,
    ),
    Case(
        "llava",
        "llava",
        {
            "text_config": {"model_type": "llama", **ONE_LAYER},
            "vision_config": {"model_type": "clip_vision_model", **TINY_VISION},
            "image_token_index": 39,
        },
    ),
    Case(
        "mistral3",
        "mistral3",
        {
            "text_config": {"model_type": "mistral", **WINDOWED, "head_dim": 6},
            "vision_config": {"model_type": "pixtral", **TINY_VISION},
            "image_token_index": 39,
            "spatial_merge_size": 1,
        },
    ),
    Case(
        "llava-next",
        "llava_next",
        {
            "text_config": {"model_type": "mistral", **ONE_LAYER, "sliding_window": 4},
            "vision_config": {"model_type": "clip_vision_model", **TINY_VISION},
            "image_token_index": 39,
            "image_grid_pinpoints": [[4, 4]],
        },
    ),
    Case(
        "llava-onevision",
        "llava_onevision",
        {
            "text_config": {"model_type": "qwen2", **ONE_LAYER},
            "vision_config": {"model_type": "siglip_vision_model", **TINY_VISION},
            "image_token_index": 39,
            "video_token_index": 38,
            "image_grid_pinpoints": [[4, 4]],
        },
    ),
    Case(
        "internvl",
        "internvl",
        {
            "text_config": {"model_type": "qwen3", **ONE_LAYER, "head_dim": 6},
            "vision_config": {**TINY_VISION, "image_size": [4, 4], "patch_size": [4, 4]},
            "image_token_id": 38,
        },
    ),
    Case(
        "idefics3",
        "idefics3",
        {
            "text_config": {"model_type": "llama", **ONE_LAYER, "pad_token_id": 0},
            "vision_config": TINY_VISION,
            "image_token_id": 39,
            "scale_factor": 1,
        },
    ),
    Case(
        "smolvlm",
        "smolvlm",
        {
            "text_config": {"model_type": "llama", **ONE_LAYER, "pad_token_id": 0},
            "vision_config": TINY_VISION,
            "image_token_id": 39,
            "scale_factor": 1,
        },
    ),
    Case(
        "gemma3-multimodal",
        "gemma3",
        {
            "text_config": {
                "model_type": "gemma3_text",
                **GEMMA,
                "sliding_window": 4,
                "layer_types": ["sliding_attention", "full_attention"],
            },
            "vision_config": {"model_type": "siglip_vision_model", **TINY_VISION},
            "image_token_index": 39,
            "mm_tokens_per_image": 1,
        },
    ),
]
