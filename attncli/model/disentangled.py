"""Disentangled attention: scores from content to position and from position to content.

Positions are no part of the token vectors. The distance of query and key picks a row of a table
of relative positions, which each layer projects like content:

    score(i, j) = scale · (q_i · k_j + q_i · pk(i, j) + pq(i, j) · k_j)

with pk, pq the projected rows of the bucket of i - j. Source: He et al. 2021, section 3.1, and
their released code for the log buckets; transformers modeling_deberta.py and
modeling_deberta_v2.py (5.24), DisentangledSelfAttention.disentangled_attention_bias.
"""

from __future__ import annotations

import numpy as np

from attncli._shapes import Float, Int
from attncli.model.ffn import affine
from attncli.model.ops import NORMS
from attncli.model.params import LayerParams, Params
from attncli.model.spec import DisentangledSpec, StackSpec

Array = np.ndarray


class DisentangledBias:
    """What one layer adds to scaled scores: call it as a `Bias` of position.py.

    Parameters: `position_table` [2 · span, d_model] and the norm slot `position_norm` of the
    stack; `attn.position_k` and `attn.position_q` of the layer, as far as the spec asks for them.
    """

    def __init__(
        self,
        stack: StackSpec,
        spec: DisentangledSpec,
        params: Params,
        prefix: str,
        layer: LayerParams,
        n_tokens: int,
    ) -> None:
        """Project the rows of the table that a text of n_tokens reaches."""
        self._scale = np.float32(stack.scale)
        self._last = n_tokens - 1
        rows = row_of(np.arange(-self._last, n_tokens), spec)
        first = int(rows[0])
        self._rows = rows - first
        table = params.rows(f"{prefix}position_table", np.arange(first, int(rows[-1]) + 1))
        weight = params.get(f"{prefix}position_norm.weight")
        if weight is not None:
            bias = params.get(f"{prefix}position_norm.bias")
            table = NORMS[stack.norm](table, weight, bias, stack.eps)

        def projected(name: str) -> Float[Array, "head head_dim row"]:
            x = affine(table, layer.linear(name))
            return x.reshape(len(x), stack.n_heads, stack.head_dim).transpose(1, 2, 0).copy()

        self._k = projected("attn.position_k") if spec.content_to_position else None
        self._q = projected("attn.position_q") if spec.position_to_content else None
        self._to_content: Array | None = None

    def __call__(self, queries: slice, keys: slice, q: Array, k: Array) -> Array:
        """Return the bias [head, query, key] of a block; q comes scaled, k does not."""
        offsets = np.arange(queries.start, queries.stop)[:, None] - np.arange(keys.start, keys.stop)
        rows = self._rows[offsets + self._last][None]
        bias = np.zeros((len(q), *offsets.shape), np.float32)
        if self._k is not None:
            bias += np.take_along_axis(q @ self._k, rows, axis=2)
        if self._q is not None:
            if self._to_content is None:
                # two threads may both come here; each sees a finished product
                to_content = k @ self._q
                to_content *= self._scale
                self._to_content = to_content
            by_key = self._to_content[:, keys]
            bias += np.take_along_axis(by_key, rows.swapaxes(1, 2), axis=2).swapaxes(1, 2)
        return bias


def row_of(distances: Int[Array, "..."], spec: DisentangledSpec) -> Int[Array, "..."]:
    """Return the row of the table for each distance query - key; far ones share the outer rows."""
    buckets = distances if spec.n_buckets == 0 else log_bucket(distances, spec)
    return np.clip(buckets + spec.span, 0, 2 * spec.span - 1)


def log_bucket(distances: Int[Array, "..."], spec: DisentangledSpec) -> Int[Array, "..."]:
    """Return the signed bucket of each distance: its own up to half of them, logarithmic beyond.

    Computed in float32, as the reference does: its rounding decides at the edges of buckets.
    """
    middle = spec.n_buckets // 2
    distance = np.maximum(np.abs(distances), middle).astype(np.float32)
    far = np.log(distance / np.float32(middle))
    far = far / np.log(np.float32((spec.n_positions - 1) / middle)) * np.float32(middle - 1)
    logarithmic = np.ceil(far).astype(np.int64) + middle
    return np.where(np.abs(distances) <= middle, distances, np.sign(distances) * logarithmic)
