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
