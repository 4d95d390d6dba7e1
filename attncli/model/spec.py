"""What the arithmetic of a transformer needs to know, and nothing about products.

A family file turns a configuration into these dataclasses; `forward.py` reads only them.
Differences between families that are a norm's place are no field at all: each block has
named norm slots, and a slot whose tensor is absent is the identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NORM_SLOTS = (
    "attn_in",
    "attn_out",
    "attn_residual",
    "ffn_in",
    "ffn_out",
    "ffn_residual",
)
"""Places for a norm in a block: before a sub-layer, after it, after its residual sum."""


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """What may differ from layer to layer."""

    window: int | None = None
    """Keys within reach: query - key < window (causal) or |query - key| <= window; None: all."""


@dataclass(frozen=True, slots=True)
class StackSpec:
    """One stack of blocks."""

    layers: tuple[LayerSpec, ...]
    d_model: int
    """Width of the residual stream."""
    n_heads: int
    """Query heads of a layer."""
    n_kv_heads: int
    """Key/value heads; query head h reads key/value head h // (n_heads // n_kv_heads)."""
    head_dim: int
    """Width of one head's query, key and value."""
    scale: float
    """Factor on q·k, usually 1/sqrt(head_dim)."""
    causal: bool
    """True when a query sees only itself and what stands before it."""
    norm: Literal["layer", "rms"] = "layer"
    eps: float = 1e-5
    """Added to the variance inside a norm."""
    activation: str = "gelu"
    d_ff: int = 0
    """Inner width of the feed-forward part; 0: the blocks have none."""

    @property
    def n_layers(self) -> int:
        """Number of blocks."""
        return len(self.layers)


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A whole model: its embedding and its stack."""

    family: str
    """Name shown to people, such as "BERT"."""
    stack: StackSpec
    vocab_size: int
    """Rows of the embedding table (it may be padded beyond the vocabulary)."""
    n_positions: int | None = None
    """Tokens that fit the learned position table; None: no such limit."""
    position_offset: int = 0
    """Row of the position table that the first token uses."""
