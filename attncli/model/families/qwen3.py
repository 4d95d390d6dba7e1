"""Qwen3: as Qwen2, except: queries and keys are normalised head by head, biases only if asked for.

Reference: transformers/models/qwen3/modeling_qwen3.py (5.24). Honoured: as Qwen2, and head_dim
(128 when absent) and attention_bias, of all four projections. Ignored tensors: as Llama.
"""

from __future__ import annotations

from collections.abc import Collection

from attncli.model.config import ConfigReader
from attncli.model.families.llama import head, ignored, llama_like_sources
from attncli.model.families.qwen2 import SIZES as QWEN2_SIZES
from attncli.model.families.qwen2 import read_qwen
from attncli.model.params import Source
from attncli.model.spec import ModelSpec

__all__ = ["head", "ignored", "read_spec", "sources"]
SIZES = {**QWEN2_SIZES, "head_dim": 128, "attention_bias": False}
"""What the reference's configuration class takes for absent keys."""


def read_spec(config: ConfigReader) -> ModelSpec:
    """Turn a Qwen3 configuration into a spec."""
    config.assume(SIZES)
    config.flag("attention_bias")
    return read_qwen(config, "Qwen3")


def sources(spec: ModelSpec, tensors: Collection[str], config: ConfigReader) -> dict[str, Source]:
    """Say where each parameter stands."""
    bias = config.flag("attention_bias")
    return llama_like_sources(spec, tensors, qkv_bias=bias, o_bias=bias, qk_norm="head")
