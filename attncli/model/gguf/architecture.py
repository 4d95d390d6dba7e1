"""What a GGUF architecture is: a family under other names, with some rows in another order.

An entry of `table.py` says which `model_type` computes the architecture, how its metadata is
spelled there, and how its tensors are. Families stay untouched: they see the configuration and the
tensors that transformers would have written.

Source: convert_hf_to_gguf.py and gguf-py/gguf/tensor_mapping.py of llama.cpp (gguf 0.19).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attncli._shapes import Int
from attncli.model.gguf.metadata import Metadata

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the order of rows depends on."""

    n_heads: int
    n_kv_heads: int
    head_dim: int


Order = Callable[[Sizes, int], Int[Array, " row"]]
"""Sizes and number of rows to the rows of the file in the order of the checkpoint."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """One `general.architecture`."""

    model_type: str
    """The family that computes it."""
    names: Mapping[str, str]
    """Tensor in the file (without .weight or .bias) to its name in a checkpoint; {i} is a layer."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Metadata key (without the architecture) to configuration key."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Configuration that every file of the architecture has and none names."""
    special: Callable[[Metadata], Mapping[str, Any]] = lambda metadata: {}
    """Configuration that takes more than a new name."""
    neutral: frozenset[str] = frozenset()
    """Further keys that change neither attention nor the residual stream."""
    orders: Mapping[str, Order] = field(default_factory=dict)
    """Tensor (last part of its name) whose rows stand in another order."""
    transposed: frozenset[str] = frozenset()
    """Tensors (last part) that the checkpoint stores as [input, output]."""
    consumed: frozenset[str] = frozenset()
    """Tensors that become configuration."""
    names_if: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Names that hold instead when the file has this tensor."""
    norm_offset_included: bool = False
    """Norm weights hold the 1 that the family adds."""


def has(metadata: Metadata, tensor: str) -> bool:
    """Tell whether the file has a tensor whose presence is the only sign of something."""
    return tensor in metadata.tensors


def adjacent_to_halves(n_heads: Callable[[Sizes], int]) -> Order:
    """Rotary pairs stand side by side in the file, half a head apart in the checkpoint."""

    def order(sizes: Sizes, n_rows: int) -> Array:
        rows = np.arange(n_rows).reshape(n_heads(sizes), -1, 2)
        return rows.swapaxes(1, 2).ravel()

    return order


HALVES = {
    "attn_q": adjacent_to_halves(lambda sizes: sizes.n_heads),
    "attn_k": adjacent_to_halves(lambda sizes: sizes.n_kv_heads),
}
"""Llama and the families whose converter treats them as Llama."""


def by_head(sizes: Sizes, n_rows: int) -> Array:
    """All q, all k, all v in the file; q, k, v of each head in the checkpoint."""
    return np.arange(n_rows).reshape(3, sizes.n_heads, -1).swapaxes(0, 1).ravel()


def by_group(sizes: Sizes, n_rows: int) -> Array:
    """All q, all k, all v in the file; q of a group, its k, its v in the checkpoint."""
    group = sizes.n_heads // sizes.n_kv_heads
    heads = np.arange(n_rows).reshape(-1, sizes.head_dim)
    q = heads[: sizes.n_heads].reshape(sizes.n_kv_heads, group, -1)
    k, v = np.split(heads[sizes.n_heads :].reshape(2, sizes.n_kv_heads, 1, -1), 2)
    return np.concatenate([q, k[0], v[0]], axis=1).ravel()
