"""Queries, keys and values of all rows of a layer, by head, ready for attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attncli._shapes import Float
from attncli.model.ffn import affine
from attncli.model.kept import Kept
from attncli.model.ops import NORMS
from attncli.model.params import LayerParams
from attncli.model.rope import rotate
from attncli.model.spec import StackSpec
from attncli.model.stack import Piece, norm_slot

Array = np.ndarray


@dataclass(slots=True)
class ByHead:
    """What one attention of a layer reads, for all rows."""

    q: Float[Array, "head row head_dim"]
    """Scaled and rotated."""
    k: Float[Array, "kv_head key_row head_dim"]
    """Rotated."""
    v: Float[Array, "kv_head key_row head_dim"]


def room(spec: StackSpec, n_rows: int, n_key_rows: int) -> ByHead:
    """Return memory for the queries, keys and values of a layer."""
    shape = (spec.n_kv_heads, n_key_rows, spec.head_dim)
    q = np.empty((spec.n_heads, n_rows, spec.head_dim), np.float32)
    return ByHead(q, np.empty(shape, np.float32), np.empty(shape, np.float32))


@dataclass(frozen=True, slots=True)
class Projector:
    """Projects rows of one attention of a layer: `kind` is attn or cross."""

    spec: StackSpec
    layer: LayerParams
    i: int
    kind: str
    kept: Kept

    def queries(
        self, into: ByHead, rows: slice, x: Float[Array, "part d_model"], pieces: Sequence[Piece]
    ) -> None:
        """Fill the queries of some rows."""
        self._fill(into.q, rows, self._project("q", rows, into.q.shape[1], x), pieces)
        scale = self.spec.layers[self.i].scale
        into.q[:, rows] *= np.float32(self.spec.scale if scale is None else scale)

    def keys_and_values(
        self, into: ByHead, rows: slice, x: Float[Array, "part d_model"], pieces: Sequence[Piece]
    ) -> None:
        """Fill the keys and values of some rows; without pieces nothing is turned."""
        n_rows = into.k.shape[1]
        self._fill(into.k, rows, self._project("k", rows, n_rows, x), pieces)
        self._fill(into.v, rows, self._project("v", rows, n_rows, x), ())

    def _project(self, role: str, rows: slice, n_rows: int, x: Array) -> Array:
        name = f"{self.kind}.{role}"
        y = affine(x, self.layer.linear(name))
        if self.spec.qkv_clip is not None:
            np.clip(y, -self.spec.qkv_clip, self.spec.qkv_clip, out=y)
        self.kept.put(name, rows, n_rows, y)
        if f"{name}_norm.weight" in self.layer:
            y = _qk_norm(self.spec, self.layer, f"{name}_norm", y)
            self.kept.put(f"{name}_norm", rows, n_rows, y)
        return y

    def _fill(self, into: Array, rows: slice, y: Array, pieces: Sequence[Piece]) -> None:
        """Put rows in their place by head, turned where the layer has rotary positions."""
        by_head = y.reshape(len(y), -1, into.shape[2]).transpose(1, 0, 2)
        rope = self.spec.layers[self.i].rope
        if rope is None or not pieces or self.kind == "cross":
            into[:, rows] = by_head
            return
        at = 0
        for piece in pieces:
            size = piece.rows.stop - piece.rows.start
            here = slice(rows.start + at, rows.start + at + size)
            turned = rotate(by_head[:, at : at + size], rope, piece.rows.start, piece.n_tokens)
            into[:, here] = turned
            at += size


def _qk_norm(spec: StackSpec, layer: LayerParams, slot: str, x: Array) -> Array:
    """Norm of queries or keys: over each head when its weight is as wide as a head, else over all.

    A weight [head, head_dim] holds another weight for each head.
    """
    weight = layer.get(f"{slot}.weight")
    assert weight is not None
    if weight.shape == (x.shape[1],):
        return norm_slot(spec, layer, slot, x)
    heads = x.reshape(-1, spec.head_dim)
    if weight.ndim == 2:
        ones = np.ones(spec.head_dim, np.float32)
        normed = NORMS[spec.norm](heads, ones, None, spec.eps).reshape(len(x), *weight.shape)
        return (normed * weight).reshape(x.shape)
    return norm_slot(spec, layer, slot, heads).reshape(x.shape)
