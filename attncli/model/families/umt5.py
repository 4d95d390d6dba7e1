"""UMT5. As mT5, except: every layer has a table of position biases of its own.

Reference: transformers/models/umt5/modeling_umt5.py (5.24). Keys and tensors: those of mT5.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from attncli.model.config import ConfigReader
from attncli.model.families import mt5
from attncli.model.families.t5 import head, ignored, t5_like_sources
from attncli.model.params import Source
from attncli.model.spec import ModelSpec

__all__ = ["head", "ignored", "read_spec", "sources"]


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a UMT5 configuration into a spec."""
    return replace(mt5.read_spec(config), family="UMT5")


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    return t5_like_sources(spec, tensors, gated=mt5.is_gated(config), own_bias=True)
