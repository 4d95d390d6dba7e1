"""Marian (opus-mt). As BART, except: sine positions, no norm of the embedding, other vocabularies.

Reference: transformers/models/marian/modeling_marian.py (5.24). Keys: those of BART,
share_encoder_decoder_embeddings, decoder_vocab_size. The position tables are read where a file
holds them (old ones do) and computed where it does not.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from attncli.model.config import ConfigReader
from attncli.model.families.bart import (
    bart_like_sources,
    expect_layout,
    head,
    ignored,
    read_bart_like,
)
from attncli.model.params import Source
from attncli.model.spec import ModelSpec

__all__ = ["head", "ignored", "read_spec", "sources"]


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a Marian configuration into a spec."""
    expect_layout(config, norm_first=False, static_positions=True)
    config.expect("normalize_embedding", False)
    spec = read_bart_like(config, "Marian", start=58100, sinusoid=True)
    n_target = config.count("decoder_vocab_size", spec.vocab_size)
    if config.flag("share_encoder_decoder_embeddings", True):
        return spec
    return replace(spec, target_vocab_size=n_target)


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    return bart_like_sources(spec, tensors, norm_first=False, embed_norm=False)
