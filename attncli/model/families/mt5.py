"""mT5. As T5, except: a gated tanh GELU where the configuration names no feed-forward part.

Reference: transformers/models/mt5/modeling_mt5.py (5.24). Keys and tensors: those of T5;
decoder_start_token_id is 0 where it is not named.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from attncli.model.config import ConfigReader
from attncli.model.families.heads import lm_head
from attncli.model.families.seq2seq import read_start, with_shared_table
from attncli.model.families.t5 import ignored, read_t5_like, t5_like_sources
from attncli.model.params import HeadSources, Source
from attncli.model.spec import ModelSpec

__all__ = ["head", "ignored", "read_spec", "sources"]
FEED_FORWARD = "gated-gelu"


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn an mT5 configuration into a spec."""
    spec = read_t5_like(config, "mT5", feed_forward=FEED_FORWARD)
    return replace(spec, decoder_start=read_start(config, 0))


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    return t5_like_sources(spec, tensors, gated=is_gated(config))


def is_gated(config: ConfigReader) -> bool:
    """Tell whether the feed-forward part has a gate."""
    named = config.has("feed_forward_proj")
    return (config.text("feed_forward_proj") if named else FEED_FORWARD).startswith("gated-")


def head(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> HeadSources | None:
    """Return the table that gives logits; they are not scaled."""
    return with_shared_table(lm_head(spec, tensors, config, tied=True), spec, tensors)
