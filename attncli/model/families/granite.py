"""Granite: as Llama, except: multipliers on embeddings, scores and what sub-layers add.

Reference: transformers/models/granite/modeling_granite.py (5.24). Honoured: as Llama, and
embedding_multiplier, residual_multiplier, attention_multiplier (the factor on q·k itself, in place
of 1/sqrt(head_dim)); all are 1 when absent. logits_scaling changes next-token scores only.
Ignored tensors: as Llama.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from attncli.model.config import ConfigReader
from attncli.model.families.heads import lm_head
from attncli.model.families.llama import SIZES as LLAMA_SIZES
from attncli.model.families.llama import ignored, read_llama_like, sources, with_stack
from attncli.model.params import HeadSources
from attncli.model.spec import HeadSpec, ModelSpec

__all__ = ["head", "ignored", "read_spec", "sources"]


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a Granite configuration into a spec."""
    config.assume(LLAMA_SIZES)
    config.flag("attention_bias", False)
    config.flag("mlp_bias", False)
    config.pass_over("logits_scaling")
    spec = read_llama_like(config, "Granite")
    spec = replace(spec, embed_scale=config.number("embedding_multiplier", 1.0))
    return with_stack(
        spec,
        residual_scale=config.number("residual_multiplier", 1.0),
        scale=config.number("attention_multiplier", 1.0),
    )


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits and divides them (logits_scaling)."""
    scale = 1.0 / config.number("logits_scaling", 1.0, above=0.0)
    return lm_head(spec, tensors, config, tied=False, head=HeadSpec(scale=scale))
