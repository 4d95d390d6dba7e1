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


@dataclass(frozen=True, slots=True)
class Case:
    """One model that transformers and attn both compute."""

    name: str
    model_type: str
    config: dict[str, Any] = field(hash=False)
    ids: tuple[int, ...] = (1, 7, 12, 33, 7, 39, 20, 5, 28, 2)


CASES = [
    Case("bert", "bert", {**TINY_BERT, "hidden_act": "gelu"}),
    # a large eps, so that a wrong one shows
    Case("bert-eps-tanh", "bert", {**TINY_BERT, "hidden_act": "gelu_new", "layer_norm_eps": 0.01}),
    Case("bert-relu", "bert", {**TINY_BERT, "hidden_act": "relu", "num_attention_heads": 1}),
    # as many tokens as there are positions
    Case("bert-silu-full", "bert", {**TINY_BERT, "hidden_act": "silu"}, tuple(range(3, 19))),
]

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
CASES += LLAMA_CASES
