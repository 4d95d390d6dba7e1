"""Small helpers that family modules share to spell their sources."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from attncli.model.params import Source


def transpose(values: np.ndarray) -> np.ndarray:
    """Turn [output, input] (how torch stores a linear map) into [input, output]; a view."""
    return values.T


def prefix_in(tensors: Collection[str], *prefixes: str) -> str:
    """Return the first prefix that some tensor's name begins with, or none."""
    for prefix in prefixes:
        if any(name.startswith(prefix) for name in tensors):
            return prefix
    return ""


def linear(
    name: str, tensor: str, d_in: int, d_out: int, *, bias: bool = True, optional: bool = False
) -> dict[str, Source]:
    """Sources of one linear map stored as torch does, [output, input]."""
    found = {f"{name}.weight": Source(f"{tensor}.weight", (d_out, d_in), transpose, optional)}
    if bias:
        found[f"{name}.bias"] = Source(f"{tensor}.bias", (d_out,), None, optional)
    return found


def norm(name: str, tensor: str, width: int, *, bias: bool = True) -> dict[str, Source]:
    """Sources of one norm slot."""
    found = {f"{name}.weight": Source(f"{tensor}.weight", (width,))}
    if bias:
        found[f"{name}.bias"] = Source(f"{tensor}.bias", (width,))
    return found


def old_norm_names(sources: dict[str, Source], tensors: Collection[str]) -> dict[str, Source]:
    """Spell norms as checkpoints from before 2019 do where this one does: gamma and beta."""
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    found = dict(sources)
    for name, source in sources.items():
        for new_end, old_end in old.items():
            renamed = source.tensor.removesuffix(new_end) + old_end
            if source.tensor.endswith(new_end) and renamed in tensors:
                found[name] = replace(source, tensor=renamed)
    return found


def part(
    name: str, tensor: str, d_in: int, d_out: int, rows: tuple[int, int], *, bias: bool = True
) -> dict[str, Source]:
    """Sources of one linear map that is some rows of a fused one, [d_out, d_in] as a whole."""
    found = {f"{name}.weight": Source(f"{tensor}.weight", (d_out, d_in), transpose, rows=rows)}
    if bias:
        found[f"{name}.bias"] = Source(f"{tensor}.bias", (d_out,), rows=rows)
    return found


def fused_qkv(
    name: str,
    tensor: str,
    d_in: int,
    heads: tuple[int, int],
    head_dim: int,
    *,
    bias: bool = True,
) -> dict[str, Source]:
    """Sources of queries, keys and values that stand in one tensor, key/value head after head.

    Its rows are, for each key/value head: the queries of its group of heads, its key, its value.
    As many key/value heads as heads give the interleaving q k v q k v; one gives three parts in
    a row, which are read alone.

    Args:
        name: such as "0.attn"; q, k and v are appended.
        tensor: such as "h.0.self_attention.query_key_value".
        d_in: width of the input.
        heads: query heads and key/value heads.
        head_dim: width of a head.
        bias: the fused map has one.
    """
    n_heads, n_kv_heads = heads
    group = n_heads // n_kv_heads
    width = (group + 2) * head_dim
    bounds = {"q": (0, group), "k": (group, group + 1), "v": (group + 1, group + 2)}
    found: dict[str, Source] = {}
    for role, (start, stop) in bounds.items():
        a, b = start * head_dim, stop * head_dim
        slot, d_out = f"{name}.{role}", n_kv_heads * width
        if n_kv_heads == 1:
            found |= part(slot, tensor, d_in, d_out, (a, b), bias=bias)
            continue
        pick = _block_rows(width, a, b)
        found[f"{slot}.weight"] = Source(f"{tensor}.weight", (d_out, d_in), _transposed(pick))
        if bias:
            found[f"{slot}.bias"] = Source(f"{tensor}.bias", (d_out,), pick)
    return found


def _block_rows(width: int, start: int, stop: int) -> Callable[[np.ndarray], np.ndarray]:
    """Pick rows start to stop of every block of `width` rows; a copy."""

    def pick(values: np.ndarray) -> np.ndarray:
        blocks = values.reshape(-1, width, *values.shape[1:])[:, start:stop]
        return np.ascontiguousarray(blocks).reshape(-1, *values.shape[1:])

    return pick


def _transposed(pick: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: pick(values).T


def columns(start: int, stop: int) -> Callable[[np.ndarray], np.ndarray]:
    """Pick columns of a fused map that is stored [input, output]; a copy, so the rest can go."""
    return lambda values: np.ascontiguousarray(values[:, start:stop])
