"""Rotary positions as GGUF metadata spells them, in the spelling of configurations."""

from __future__ import annotations

import math
from typing import Any

from attncli.errors import ModelProblem
from attncli.model.gguf.metadata import Metadata

ROPE_FREQUENCIES = "rope_freqs.weight"
"""Tensor of one divisor for each rotary pair, the same for all layers."""
SHORT_DIVISORS, LONG_DIVISORS = "rope_factors_short.weight", "rope_factors_long.weight"
"""Likewise for texts up to the length of the first training, and for longer ones."""


def head_dim(metadata: Metadata) -> int:
    """Return the width of a head; keys and values must be of the same."""
    heads = metadata.count("attention.head_count")
    width = metadata.count("attention.key_length", metadata.count("embedding_length") // heads)
    metadata.expect("attention.value_length", width)
    return width


def full_rotary(metadata: Metadata) -> dict[str, Any]:
    """Read the settings of a model that turns whole heads."""
    width = head_dim(metadata)
    metadata.expect("rope.dimension_count", width)
    return {"head_dim": width, **rotary(metadata)}


def partial_rotary(metadata: Metadata) -> dict[str, Any]:
    """Read the settings of a model that may turn a part of each head only."""
    width = head_dim(metadata)
    turning = metadata.count("rope.dimension_count", width)
    part = turning / width
    if int(part * width) < turning:  # families round down
        part = math.nextafter(part, 2)
    return {"partial_rotary_factor": part, **rotary(metadata)}


def rotary(metadata: Metadata, base: float = 10_000.0) -> dict[str, Any]:
    """Read base and scaling."""
    found: dict[str, Any] = {"rope_theta": metadata.number("rope.freq_base", base)}
    scaling = _scaling(metadata)
    return found | {"rope_scaling": scaling} if scaling else found


def _scaling(metadata: Metadata) -> dict[str, Any] | None:
    kind = metadata.get("rope.scaling.type")
    if kind is None and metadata.has("rope.scale_linear"):
        factor = metadata.number("rope.scale_linear")
        return None if factor == 1 else {"rope_type": "linear", "factor": factor}
    if kind in (None, "none") or SHORT_DIVISORS in metadata.tensors:
        return None
    scaling = {"rope_type": kind, "factor": metadata.number("rope.scaling.factor")}
    if kind == "linear":
        return scaling
    if kind != "yarn":
        raise ModelProblem(
            f"{metadata.path}: rope scaling {kind!r} of {metadata.architecture} is not supported; "
            "results would be wrong, so attn stops here."
        )
    original = metadata.count("rope.scaling.original_context_length")
    scaling["original_max_position_embeddings"] = original
    for key, name in (("yarn_beta_fast", "beta_fast"), ("yarn_beta_slow", "beta_slow")):
        if metadata.has(f"rope.scaling.{key}"):
            scaling[name] = metadata.number(f"rope.scaling.{key}")
    return scaling
