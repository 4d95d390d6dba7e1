"""The attention function: queries, keys and values of one text in, heads' outputs out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attncli._shapes import Float
from attncli.model.observe import AttentionBlock, HeadValues, Observer
from attncli.model.ops import softmax, visible
from attncli.model.position import Bias
from attncli.model.rope import rotate
from attncli.model.spec import LayerSpec, StackSpec

Array = np.ndarray

BLOCK_SCORES = 2_000_000
"""Scores of one block of query rows, over all heads (8 MB in float32)."""


def attend(
    stack: StackSpec,
    layer: LayerSpec,
    index: int,
    q: Float[Array, "query q_width"],
    k: Float[Array, "key kv_width"],
    v: Float[Array, "key kv_width"],
    o: Float[Array, "head head_dim d_model"] | None,
    observers: Sequence[Observer],
    *,
    bias: Bias | None = None,
    sinks: Float[Array, " head"] | None = None,
    cross: bool = False,
) -> Float[Array, "query q_width"]:
    """Return sum_j weights[h, i, j] v[j] for every query i, heads side by side.

    scores = softcap(scale · q kᵀ) + bias, masked; weights = softmax(scores). The matrix of all
    pairs is never held: query rows go in blocks, and a causal block only meets the keys it sees.

    Args:
        stack: sizes, scale, cap and direction.
        layer: window and rotary positions of this layer.
        index: number of this layer, for the observers.
        q: projected queries, all heads side by side; k and v likewise for key/value heads.
        k: projected keys.
        v: projected values.
        o: output projection by head, for observers that need it.
        observers: those that watch this attention.
        bias: gives the position bias of a block.
        sinks: scores of a learned sink, which takes a share of each row that no key gets.
        cross: the keys are those of another text: no mask, no positions.

    Source: Vaswani et al. 2017, section 3.2; grouped heads: Ainslie et al. 2023; soft cap: Gemma
    Team 2024, section 2; learned sinks: transformers/models/gpt_oss/modeling_gpt_oss.py.
    """
    n, n_keys, group = len(q), len(k), stack.n_heads // stack.n_kv_heads
    causal, window = (False, None) if cross else (stack.causal, layer.window)
    q, k, v = (_split(x, stack.head_dim) for x in (q, k, v))
    if layer.rope is not None and not cross:
        q, k = rotate(q, layer.rope), rotate(k, layer.rope)
    q *= np.float32(stack.scale if layer.scale is None else layer.scale)
    values = HeadValues(v, o, group)
    wants_scores = any(observer.wants_scores for observer in observers)
    out = np.empty((stack.n_heads, n, stack.head_dim), np.float32)
    step = max(1, BLOCK_SCORES // (stack.n_heads * n_keys))
    for start in range(0, n, step):
        queries = slice(start, min(start + step, n))
        keys = _reach(queries, n_keys, causal=causal, window=window)
        scores = _grouped(q[:, queries], stack.n_kv_heads) @ k[:, keys].transpose(0, 2, 1)
        scores = scores.reshape(stack.n_heads, -1, keys.stop - keys.start)
        if stack.softcap is not None:
            scores /= np.float32(stack.softcap)
            np.tanh(scores, out=scores)
            scores *= np.float32(stack.softcap)
        added = None
        if bias is not None:
            added = np.broadcast_to(bias(queries, keys, q[:, queries], k), scores.shape)
            scores += added
        seen = visible(queries, keys, causal=causal, window=window)
        if seen is not None:
            np.copyto(scores, -np.inf, where=~seen)
        shown = scores.copy() if wants_scores else None
        weights = softmax(scores, sinks)
        mixed = _grouped(weights, stack.n_kv_heads) @ v[:, keys]
        out[:, queries] = mixed.reshape(stack.n_heads, -1, stack.head_dim)
        for observer in observers:
            rows = q[:, queries]
            observer.on_attention(
                AttentionBlock(index, queries, keys, rows, k, values, weights, shown, added)
            )
    return out.transpose(1, 0, 2).reshape(n, -1)


def _split(x: Array, head_dim: int) -> Array:
    """[token, heads side by side] to [head, token, head_dim]; always a copy."""
    return x.reshape(len(x), -1, head_dim).transpose(1, 0, 2).copy()


def _grouped(x: Array, n_kv_heads: int) -> Array:
    """[head, query, ...] to [kv_head, queries of its heads, ...]: one product per kv head."""
    return x.reshape(n_kv_heads, -1, x.shape[-1])


def _reach(queries: slice, n: int, *, causal: bool, window: int | None) -> slice:
    """Keys that at least one of the queries can see."""
    if causal:
        return slice(0 if window is None else max(0, queries.start - window + 1), queries.stop)
    if window is None:
        return slice(0, n)
    return slice(max(0, queries.start - window), min(n, queries.stop + window))
