"""The most telling head of each query: weight beyond what the head gives by position alone.

excess(h, i, j) = weights[h, i, j] minus the mean weight of head h over all other pairs of
non-special tokens with the same offset j - i in the same text. A head that always looks at the
previous token has excess 0 there; a head that chose a key by content keeps nearly its weight.
Special tokens and the query itself do not compete, nor does the first token of a causal model,
where heads rest (Xiao et al. 2024). An offset that occurs once has nothing to subtract and does
not compete either: in short texts far pairs are never telling. In a pair of texts distances run
over the whole sequence, with the special tokens between, as the model's positions do: pairs of
tokens within a text and across both share their offsets. This measure is attn's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attncli._shapes import Bool, Float, Int
from attncli.analyses.largest import largest
from attncli.model.observe import AttentionBlock, Observer
from attncli.selection import Heads

Array = np.ndarray

CANDIDATES = 16
"""Keys with the largest weights that compete, per head and query. A key below them has a weight
under 1/16, so it can only be missed where no head has a telling key at all."""


QUERIES = 128
"""Queries whose telling heads are found together: all heads' candidates in float64 are large."""
LEAST = 0.05
"""A smaller excess tells nothing: the query then has no telling head."""


@dataclass(frozen=True, slots=True)
class Telling:
    """The head and key with the largest excess for one query."""

    layer: int
    head: int
    key: int
    """Token index."""
    weight: float
    excess: float


class Excess(Observer):
    """One pass: sums of each head's weights per offset, and each query's strongest keys."""

    def __init__(self, selected: Heads, ordinary: Bool[Array, " token"], *, causal: bool) -> None:
        """Make room for offsets and candidates; nothing of size n².

        Args:
            selected: layers and heads that compete.
            ordinary: False for special tokens.
            causal: direction of the model.
        """
        self.selected, self.ordinary, self.causal = selected, ordinary, causal
        self.attention_layers = frozenset(selected.layers)
        n = len(ordinary)
        shape = (len(selected.layers), len(selected.heads))
        self._sums = np.zeros((*shape, 2 * n - 1), np.float64)
        self._keys = np.zeros((*shape, n, min(n, CANDIDATES)), np.int32)
        self._weights = np.zeros((*shape, n, min(n, CANDIDATES)), np.float32)

    def on_attention(self, block: AttentionBlock) -> None:
        """Add one block of one layer."""
        n, layer = len(self.ordinary), self.selected.layers.index(block.layer)
        weights = block.weights[list(self.selected.heads)]
        weights *= self.ordinary[block.queries, None] & self.ordinary[block.keys]
        sums = sum_by_offset(weights)
        # offsets of the block run from its first key - last query upwards
        first = block.keys.start - (block.queries.stop - 1) + n - 1
        self._sums[layer, :, first : first + sums.shape[-1]] += sums
        rows = np.arange(block.queries.start, block.queries.stop)
        inside = (rows >= block.keys.start) & (rows < block.keys.stop)
        weights[:, np.flatnonzero(inside), rows[inside] - block.keys.start] = 0
        places = largest(weights, CANDIDATES)
        found = places.shape[-1]
        self._keys[layer, :, block.queries, :found] = places + block.keys.start
        self._weights[layer, :, block.queries, :found] = np.take_along_axis(
            weights, places, axis=-1
        )

    def telling(
        self,
        queries: Sequence[int] | None = None,
        barred: Sequence[Sequence[int]] | None = None,
    ) -> list[Telling | None]:
        """Return the most telling head of each query token, or None where none reaches LEAST.

        Args:
            queries: token positions; None for all.
            barred: for each query, keys that do not compete, such as the pieces of its own word.
        """
        n = len(self.ordinary)
        chosen = np.arange(n) if queries is None else np.asarray(queries, dtype=np.int64)
        found: list[Telling | None] = []
        for start in range(0, len(chosen), QUERIES):
            part = slice(start, start + QUERIES)
            found += self._telling(chosen[part], (barred or ())[part])
        return found

    def _telling(
        self, chosen: Int[Array, " query"], barred: Sequence[Sequence[int]]
    ) -> list[Telling | None]:
        n = len(self.ordinary)
        counts = count_by_offset(self.ordinary, causal=self.causal)
        keys, weights = self._keys[:, :, chosen], self._weights[:, :, chosen].astype(np.float64)
        offsets = keys - chosen[:, None] + n - 1
        layer, head = np.ogrid[: keys.shape[0], : keys.shape[1]]
        sums = self._sums[layer[..., None, None], head[..., None, None], offsets]
        others = counts[offsets] - 1
        excess = np.full(weights.shape, -np.inf)
        competes = (others > 0) & (weights > 0)
        if self.causal:
            # heads of causal models rest on the first token, and each query sees it from another
            # distance, so that no mean over pairs would take that away
            competes &= keys > 0
        for row, own in enumerate(barred):
            if len(own) > 1:
                competes[:, :, row] &= ~np.isin(keys[:, :, row], own)
        np.subtract(weights, (sums - weights) / np.maximum(others, 1), out=excess, where=competes)
        flat = excess.transpose(2, 0, 1, 3).reshape(len(chosen), -1)
        best = flat.argmax(axis=1)
        found: list[Telling | None] = []
        for row, at in enumerate(best):
            if flat[row, at] < LEAST:
                found.append(None)
                continue
            i, j, place = np.unravel_index(at, (*keys.shape[:2], keys.shape[3]))
            found.append(
                Telling(
                    self.selected.layers[i],
                    self.selected.heads[j],
                    int(keys[i, j, row, place]),
                    float(weights[i, j, row, place]),
                    float(flat[row, at]),
                )
            )
        return found

    def of_pairs(
        self,
        queries: Int[Array, " pair"],
        keys: Int[Array, " pair"],
        weights: Float[Array, "layer head pair"],
    ) -> tuple[Float[Array, "layer head pair"], Bool[Array, " pair"]]:
        """Return the excess of given pairs for every head, and which pairs have one.

        Args:
            queries: token positions.
            keys: token positions, one for each query.
            weights: what each head gives to them.
        """
        offsets = keys - queries + len(self.ordinary) - 1
        others = count_by_offset(self.ordinary, causal=self.causal)[offsets] - 1
        known = self.ordinary[queries] & self.ordinary[keys] & (others > 0)
        rest = self._sums[:, :, offsets] - weights
        return weights - rest / np.maximum(others, 1), known


def sum_by_offset(weights: Float[Array, "head query key"]) -> Float[Array, "head offset"]:
    """Sum along diagonals: entry d is the sum over key - query = d - (queries - 1).

    Rows are reversed and laid out one element longer than the columns, so that reading the same
    memory with rows one element shorter shifts each row by one: diagonals become columns.
    """
    heads, rows, columns = weights.shape
    skewed = np.zeros((heads, rows, columns + rows), weights.dtype)
    skewed[:, :, :columns] = weights[:, ::-1]
    width = columns + rows - 1
    flat = skewed.reshape(heads, -1)[:, : rows * width]
    return flat.reshape(heads, rows, width).sum(axis=1, dtype=np.float64)


def count_by_offset(ordinary: Bool[Array, " token"], *, causal: bool) -> Array:
    """Count pairs of ordinary tokens by key - query, from -(n - 1) to n - 1."""
    flags = ordinary.astype(np.float64)
    counts = np.correlate(flags, flags, "full").round().astype(np.int64)
    if causal:
        counts[len(ordinary) :] = 0
    return counts
