"""Pegasus. As mBART, except: sine positions, no norm of the embedding.

Reference: transformers/models/pegasus/modeling_pegasus.py (5.24). Keys: those of BART. The
position tables are read where a file holds them and computed where it does not.
"""

from __future__ import annotations

from collections.abc import Collection

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
    """Turn a Pegasus configuration into a spec."""
    expect_layout(config, norm_first=True, static_positions=True)
    config.expect("normalize_embedding", False)
    return read_bart_like(config, "Pegasus", start=0, sinusoid=True)


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    return bart_like_sources(spec, tensors, norm_first=True, embed_norm=False)
