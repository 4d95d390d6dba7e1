"""Rotary positions: queries and keys are turned by an angle that grows with their position.

After that, q·k depends on the distance of the two tokens only. Source: Su et al. 2021,
equation 34; the scalings as transformers/modeling_rope_utils.py (5.24) computes them.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from attncli._shapes import Float
from attncli.model.spec import RopeScaling, RopeSpec

Array = np.ndarray


def rotate(
    x: Float[Array, "head row head_dim"], rope: RopeSpec, start: int = 0, n: int | None = None
) -> Float[Array, "head row head_dim"]:
    """Turn the first `rope.dim` dimensions of every head by position · frequency.

    Dimensions i and i + dim/2 form a pair; with `rope.adjacent`, dimensions 2i and 2i + 1.

    Args:
        x: rows of a text that follow each other.
        rope: base, width and scaling.
        start: position of the first row.
        n: tokens of the whole text; None: these are all.
    """
    cos, sin = angles(rope, x.shape[1] if n is None else n)
    cos, sin = cos[start : start + x.shape[1]], sin[start : start + x.shape[1]]
    half = rope.dim // 2
    out = x.copy()
    if rope.adjacent:
        first, second = x[..., 0 : rope.dim : 2], x[..., 1 : rope.dim : 2]
        out[..., 0 : rope.dim : 2] = first * cos - second * sin
        out[..., 1 : rope.dim : 2] = second * cos + first * sin
    else:
        first, second = x[..., :half], x[..., half : rope.dim]
        out[..., :half] = first * cos - second * sin
        out[..., half : rope.dim] = second * cos + first * sin
    return out


@lru_cache(maxsize=16)
def angles(rope: RopeSpec, n: int) -> tuple[Array, Array]:
    """Return cosines and sines [token, dim / 2] for n positions, the attention factor included."""
    frequencies, factor = rope_frequencies(rope, n)
    turns = np.arange(n, dtype=np.float32)[:, None] * frequencies
    return np.cos(turns) * np.float32(factor), np.sin(turns) * np.float32(factor)


def rope_frequencies(rope: RopeSpec, n: int) -> tuple[Array, float]:
    """Return the angle per position of each pair, and the factor on rotated vectors.

    Args:
        rope: base, width and scaling.
        n: tokens of the text; "dynamic" and "longrope" depend on it.
    """
    exponents = np.arange(0, rope.dim, 2, dtype=np.float32) / np.float32(rope.dim)
    plain = (1.0 / np.float32(rope.base) ** exponents).astype(np.float32)
    scaling = rope.scaling
    if scaling is None:
        return plain, 1.0
    if scaling.kind == "linear":
        return plain / np.float32(scaling.factor), 1.0
    if scaling.kind == "dynamic":
        return _dynamic(rope, scaling, n, exponents), 1.0
    if scaling.kind == "llama3":
        return _llama3(scaling, plain), 1.0
    if scaling.kind == "yarn":
        return _yarn(rope, scaling, plain), scaling.attention_factor
    factors = scaling.long_factors if n > scaling.original_positions else scaling.short_factors
    return plain / np.asarray(factors, np.float32), scaling.attention_factor


def _dynamic(rope: RopeSpec, scaling: RopeScaling, n: int, exponents: Array) -> Array:
    """Raise the base with the length of the text once it exceeds what the model was trained on."""
    longer = max(n, scaling.original_positions) / scaling.original_positions
    growth = scaling.factor * longer - (scaling.factor - 1)
    base = rope.base * growth ** (rope.dim / (rope.dim - 2))
    return (1.0 / np.float32(base) ** exponents).astype(np.float32)


def _llama3(scaling: RopeScaling, plain: Array) -> Array:
    """Slow pairs are divided by the factor, fast ones stay, those between are blended."""
    wavelengths = 2 * math.pi / plain
    low, high = scaling.low_factor, scaling.high_factor
    blend = (scaling.original_positions / wavelengths - low) / (high - low)
    blend = np.clip(blend, 0, 1).astype(np.float32)
    scaled = plain / np.float32(scaling.factor)
    return ((1 - blend) * scaled + blend * plain).astype(np.float32)


def _yarn(rope: RopeSpec, scaling: RopeScaling, plain: Array) -> Array:
    """As llama3, with a ramp over the pairs between beta_fast and beta_slow turns."""

    def pair_of(turns: float) -> float:
        ratio = scaling.original_positions / (turns * 2 * math.pi)
        return rope.dim * math.log(ratio) / (2 * math.log(rope.base))

    low, high = pair_of(scaling.beta_fast), pair_of(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rope.dim - 1)
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(rope.dim // 2, dtype=np.float32) - low) / (high - low), 0, 1)
    kept = (1 - ramp).astype(np.float32)
    return (plain / np.float32(scaling.factor) * (1 - kept) + plain * kept).astype(np.float32)
