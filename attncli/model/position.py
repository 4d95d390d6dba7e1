"""Position bias: what is added to scaled scores because of where two tokens stand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from attncli._shapes import Float, Int
from attncli.model.disentangled import DisentangledBias
from attncli.model.params import LayerParams, Params
from attncli.model.spec import AlibiSpec, BucketSpec, DisentangledSpec, StackSpec

Array = np.ndarray
Bias = Callable[[slice, slice, Array, Array], Array]
"""(queries, keys, q [head, query, head_dim], k [kv_head, token, head_dim]) to the bias
[head, query, key]."""


def bias_for(
    stack: StackSpec, params: Params, prefix: str, layer: LayerParams, n_queries: int, n_keys: int
) -> Bias | None:
    """Return the function that gives the bias of a block of query rows, or None.

    Args:
        stack: which kind of bias.
        params: holds the table of buckets or of relative positions, shared by all layers.
        prefix: of this stack's parameters.
        layer: holds the bucket table of this layer alone, or the position projections of
            disentangled attention.
        n_queries: tokens of the text.
        n_keys: likewise; more than n_queries never happens in self-attention.
    """
    spec = stack.position_bias
    if isinstance(spec, AlibiSpec):
        return _by_key(alibi(spec, n_keys))
    if isinstance(spec, BucketSpec):
        table = layer.get("position_bias.weight")
        if table is None:
            table = params.need(f"{prefix}position_bias.weight")
        offsets = np.arange(-(n_queries - 1), n_keys)
        chosen = table[bucket(offsets, spec, both_ways=not stack.causal)]
        return _by_offset(np.ascontiguousarray(chosen.T), n_queries)
    if isinstance(spec, DisentangledSpec):
        return DisentangledBias(stack, spec, params, prefix, layer, n_queries)
    return None


def alibi_slopes(n_heads: int) -> tuple[float, ...]:
    """Return the slope of each head, a geometric series; other counts than powers of two fill up.

    Source: Press et al. 2022; transformers build_alibi_tensor in modeling_bloom.py.
    """
    whole = 2 ** math.floor(math.log2(n_heads))
    slopes = [2 ** (-8 * (i + 1) / whole) for i in range(whole)]
    slopes += [2 ** (-4 * (2 * i + 1) / whole) for i in range(n_heads - whole)]
    return tuple(slopes)


def bucket(
    offsets: Int[Array, " offset"], spec: BucketSpec, *, both_ways: bool
) -> Int[Array, " offset"]:
    """Return the bucket of each key - query: exact when near, logarithmic when far.

    Source: Raffel et al. 2020; transformers T5Attention._relative_position_bucket.
    """
    n, found = spec.n_buckets, np.zeros_like(offsets)
    if both_ways:
        n //= 2
        found += (offsets > 0) * n
        distance = np.abs(offsets)
    else:
        distance = np.maximum(-offsets, 0)
    exact = n // 2
    far = np.log(np.maximum(distance, 1).astype(np.float32) / exact)
    far = far / math.log(spec.max_distance / exact) * (n - exact)
    logarithmic = np.minimum(exact + far.astype(np.int64), n - 1)
    return found + np.where(distance < exact, distance, logarithmic)


def alibi(spec: AlibiSpec, n_keys: int) -> Float[Array, "head 1 key"]:
    """Return slope · position of each key, the same for all queries: softmax sees distances.

    Source: Press et al. 2022, section 3; transformers adds it in this form too.
    """
    slopes = np.asarray(spec.slopes, np.float32)[:, None, None]
    positions = np.arange(n_keys, dtype=np.float32)
    if spec.from_end:
        positions -= n_keys - 1
    if spec.bfloat16:
        bias = _bfloat16(_bfloat16(slopes) * _bfloat16(positions))
    else:
        bias = slopes * positions
    return bias * np.float32(spec.factor)


def _by_key(values: Float[Array, "head 1 key"]) -> Bias:
    """Bias that is the same for every query."""

    def block(queries: slice, keys: slice, q: Array, k: Array) -> Array:
        return values[:, :, keys]

    return block


def _bfloat16(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Round float32 to the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    bits = bits + (0x7FFF + (bits >> 16 & 1))
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)


def _by_offset(values: Float[Array, "head offset"], n_queries: int) -> Bias:
    """Bias that depends on key - query only; `values` begins at offset -(n_queries - 1)."""
    head_step, step = values.strides

    def block(queries: slice, keys: slice, q: Array, k: Array) -> Array:
        # entry (i, j) is offset keys.start + j - queries.start - i: a view, nothing is copied
        first = keys.start - queries.start + n_queries - 1
        shape = (len(values), queries.stop - queries.start, keys.stop - keys.start)
        return np.lib.stride_tricks.as_strided(
            values[:, first:], shape, (head_step, -step, step), writeable=False
        )

    return block
