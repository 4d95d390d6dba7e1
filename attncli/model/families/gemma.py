"""Gemma 1: as Llama, except: norms store weight - 1, embeddings are scaled, GELU for SiLU.

Reference: transformers/models/gemma/modeling_gemma.py (5.24). Honoured: as Llama, head_dim (256
when absent), hidden_act ("gelu" means its tanh form, as the reference reads old files). Refused:
use_bidirectional_attention, a hidden_activation that differs. Ignored tensors: as Llama.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from attncli.model.config import ConfigReader
from attncli.model.families.heads import lm_head
from attncli.model.families.llama import SIZES as LLAMA_SIZES
from attncli.model.families.llama import ignored, read_llama_like, sources, with_stack
from attncli.model.params import HeadSources
from attncli.model.spec import ModelSpec

__all__ = ["head", "ignored", "read_spec", "sources"]
TANH = "gelu_pytorch_tanh"
SIZES = {
    **LLAMA_SIZES,
    "vocab_size": 256_000,
    "hidden_size": 3072,
    "intermediate_size": 24576,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 256,
    "max_position_embeddings": 8192,
    "hidden_act": TANH,
}
"""What the reference's configuration class takes for absent keys."""


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a Gemma configuration into a spec."""
    config.assume(SIZES)
    config.flag("attention_bias", False)
    config.expect("mlp_bias", False)
    config.expect("use_bidirectional_attention", False)
    spec = scaled(read_llama_like(config, "Gemma"))
    activation = TANH if spec.stack.activation == "gelu" else spec.stack.activation
    config.expect("hidden_activation", activation)
    return with_stack(spec, activation=activation)


def scaled(spec: ModelSpec) -> ModelSpec:
    """Return the spec with what all Gemmas share: embeddings times sqrt(d_model), norms + 1."""
    return with_stack(replace(spec, embed_scale=spec.stack.d_model**0.5), norm_offset=1.0)


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits: the embedding, unless a file holds another."""
    return lm_head(spec, tensors, config, tied=True)
