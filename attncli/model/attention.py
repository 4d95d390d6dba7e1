"""The attention function: queries, keys and values of one text in, heads' outputs out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from attncli._shapes import Float
from attncli.model.crew import Crew
from attncli.model.observe import AttentionBlock, HeadValues, Observer
from attncli.model.ops import softmax, visible
from attncli.model.position import Bias
from attncli.model.spec import LayerSpec, StackSpec

Array = np.ndarray

BLOCK_SCORES = 2_000_000
"""Scores of one block of query rows, over all heads (8 MB in float32)."""
TILE_SCORES = 100_000
"""Scores that are worked on together, so that they stay in cache from q·k to the values."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Everything that the query rows of one text need in one layer.

    scores = softcap(q kᵀ) + bias, masked, with q scaled; weights = softmax(scores). The matrix of
    all pairs is never held: query rows go in blocks, and a causal block only meets the keys it
    sees. Source: Vaswani et al. 2017, section 3.2; grouped heads: Ainslie et al. 2023; soft cap:
    Gemma Team 2024, section 2; learned sinks: transformers/models/gpt_oss/modeling_gpt_oss.py.
    """

    stack: StackSpec
    layer: LayerSpec
    index: int
    """Number of the layer, for the observers."""
    q: Float[Array, "head query head_dim"]
    """Scaled and rotated queries."""
    k: Float[Array, "kv_head key head_dim"]
    """Rotated keys."""
    v: Float[Array, "kv_head key head_dim"]
    o: Float[Array, "head head_dim d_model"] | None
    """Output projection by head, for observers that need it."""
    observers: Sequence[Observer]
    """Those that watch this attention."""
    crew: Crew
    bias: Bias | None = None
    """Gives the position bias of a block."""
    sinks: Float[Array, " head"] | None = None
    """Scores of a learned sink, which takes a share of each row that no key gets."""
    cross: bool = False
    """The keys are those of another text: no mask, no positions."""

    def attend(self, rows: slice, out: Float[Array, "query q_width"]) -> None:
        """Write sum_j weights[h, i, j] v[j] for the queries of these rows, heads side by side.

        Observers see each block; the arrays they get are used again afterwards.
        """
        heads, n_keys = self.stack.n_heads, self.k.shape[1]
        step = max(1, BLOCK_SCORES // (heads * n_keys))
        for start in range(rows.start, rows.stop, step):
            queries = slice(start, min(start + step, rows.stop))
            place = slice(start - rows.start, queries.stop - rows.start)
            self._block(queries, out[place])

    def _block(self, queries: slice, out: Array) -> None:
        stack, scratch = self.stack, self.crew.scratch
        heads, group = stack.n_heads, stack.n_heads // stack.n_kv_heads
        causal, window = (False, None) if self.cross else (stack.causal, self.layer.window)
        keys = _reach(queries, self.k.shape[1], causal=causal, window=window)
        n, n_keys, dim = queries.stop - queries.start, keys.stop - keys.start, stack.head_dim
        seen = visible(queries, keys, causal=causal, window=window)
        hidden = None if seen is None else ~seen
        added = None
        if self.bias is not None:
            added = self.bias(queries, keys, self.q[:, queries], self.k)
            added = np.broadcast_to(added, (heads, n, n_keys))
        wants_scores = any(observer.wants_scores for observer in self.observers)
        shown = scratch.array("scores", heads, n, n_keys) if wants_scores else None
        whole = scratch.array("weights", heads, n, n_keys) if self.observers else None
        tile = max(1, TILE_SCORES // (group * n_keys))
        for kv_head in range(stack.n_kv_heads):
            own = slice(kv_head * group, (kv_head + 1) * group)
            k, v = self.k[kv_head, keys].T, self.v[kv_head, keys]
            sinks = None if self.sinks is None else self.sinks[own]
            for first in range(0, n, tile):
                part = slice(first, min(first + tile, n))
                size = part.stop - part.start
                q = self.q[own, queries.start + part.start : queries.start + part.stop]
                scores = scratch.array("tile", group, size, n_keys)
                np.matmul(q.reshape(group * size, dim), k, out=scores.reshape(-1, n_keys))
                if stack.softcap is not None:
                    scores /= np.float32(stack.softcap)
                    np.tanh(scores, out=scores)
                    scores *= np.float32(stack.softcap)
                if added is not None:
                    scores += added[own, part]
                if hidden is not None:
                    # without a window everything up to the first of the queries is seen
                    left = queries.start + part.start + 1 if causal and window is None else 0
                    np.copyto(scores[..., left:], -np.inf, where=hidden[part, left:])
                if shown is not None:
                    shown[own, part] = scores
                weights = softmax(scores, sinks)
                mixed = weights.reshape(-1, n_keys) @ v
                target = out[part].reshape(size, heads, dim)[:, own]
                target[:] = mixed.reshape(group, size, dim).transpose(1, 0, 2)
                if whole is not None:
                    whole[own, part] = weights
        if whole is None:
            return
        values = HeadValues(self.v, self.o, group)
        rows = self.q[:, queries]
        block = AttentionBlock(self.index, queries, keys, rows, self.k, values, whole, shown, added)
        for observer in self.observers:
            with nullcontext() if observer.side_by_side else self.crew.lock:
                observer.on_attention(block)


def _reach(queries: slice, n: int, *, causal: bool, window: int | None) -> slice:
    """Keys that at least one of the queries can see."""
    if causal:
        return slice(0 if window is None else max(0, queries.start - window + 1), queries.stop)
    if window is None:
        return slice(0, n)
    return slice(max(0, queries.start - window), min(n, queries.stop + window))
