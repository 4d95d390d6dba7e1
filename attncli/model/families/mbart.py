"""mBART. As BART, except: norms stand before the sub-layers, one more after each stack.

Reference: transformers/models/mbart/modeling_mbart.py (5.24). Keys and tensors: those of BART.
The decoder starts with the last token of the encoded target, the code of its language, where
the configuration names no decoder_start_token_id.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from attncli.model.config import ConfigReader
from attncli.model.families.bart import (
    OFFSET,
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
    """Turn an mBART configuration into a spec."""
    expect_layout(config, norm_first=True, static_positions=False)
    config.expect("normalize_embedding", True)
    spec = read_bart_like(config, "mBART", start=None, position_offset=OFFSET)
    return spec if spec.decoder_start is not None else replace(spec, decoder_start="last")


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    return bart_like_sources(spec, tensors, norm_first=True, embed_norm=True)
