"""Observers that turn the attention of many heads into one matrix of weights or contributions.

Contribution of key j to query i in one layer: the length of sum_h weights[h, i, j] f_h(x_j)
over the chosen heads (vectors are added before the length is taken), as a share of its row;
over several layers the mean of the layers' shares (whatever is shown of the weights).
f_h(x) = (x W_V + b_V) W_O of head h.
Source: Kobayashi et al. 2020, section 3 (value bias in, output bias out).
"""

from __future__ import annotations

import numpy as np

from attncli._shapes import Float, Int
from attncli.analyses.units import renormalise
from attncli.model.observe import AttentionBlock, HeadValues, Observer
from attncli.selection import Heads

Array = np.ndarray


def contribution_lengths(
    weights: Float[Array, "head query key"], gram: Float[Array, "key head head"]
) -> Float[Array, "query key"]:
    """Return the length of sum_h weights[h, i, j] f_h(x_j) from the inner products of the f_h.

    length² = sum_hg weights[h] weights[g] f_h · f_g, so no vector of width d_model is made for
    each pair of tokens.
    """
    by_key = np.ascontiguousarray(weights.transpose(2, 1, 0))
    squares = np.einsum("kqh,kqh->kq", by_key @ gram, by_key)
    # a sum of vectors that cancel may come out a rounding error below zero
    return np.sqrt(np.maximum(squares, 0)).T


class Reduction(Observer):
    """Keeps, for chosen query rows, one matrix of weights and one of contributions."""

    def __init__(self, selected: Heads, rows: Int[Array, " row"], n: int) -> None:
        """Make room for [row, token].

        Args:
            selected: layers and heads, and how they become one matrix.
            rows: rising token positions of the query rows that are kept.
            n: tokens of the text that is read.
        """
        self.selected, self.rows = selected, rows
        self.attention_layers = frozenset(selected.layers)
        self.wants_scores = selected.single
        self.weights = np.zeros((len(rows), n), np.float32)
        self.contributions: Array | None = np.zeros((len(rows), n), np.float32)
        """None once a layer's values cannot be told."""
        self.scores = np.full((len(rows), n), -np.inf, np.float32) if selected.single else None
        self._gram: tuple[int, Array] | None = None

    def on_attention(self, block: AttentionBlock) -> None:
        """Add one block of one layer."""
        here = (self.rows >= block.queries.start) & (self.rows < block.queries.stop)
        if not here.any():
            return
        places = np.flatnonzero(here)
        local = self.rows[here] - block.queries.start
        weights = block.weights[list(self.selected.heads)][:, local]
        n_layers = len(self.selected.layers)
        if block.values is None:
            self.contributions = None
        if self.contributions is not None and block.values is not None:
            shares = renormalise(self._lengths(weights, block, block.values))
            self.contributions[places, block.keys] += shares / n_layers
        if self.selected.reduce == "mean":
            self.weights[places, block.keys] += weights.mean(axis=0) / n_layers
        else:
            here = self.weights[places, block.keys]
            self.weights[places, block.keys] = np.maximum(here, weights.max(axis=0))
        if block.scores is None:
            self.scores = None
        elif self.scores is not None:
            self.scores[places, block.keys] = block.scores[self.selected.heads[0], local]

    def _lengths(self, weights: Array, block: AttentionBlock, values: HeadValues) -> Array:
        heads = self.selected.heads
        if len(heads) == 1:
            lengths: Array = weights[0] * values.norms(heads[0])[block.keys]
            return lengths
        return contribution_lengths(weights, self._gram_of(block.layer, values)[block.keys])

    def _gram_of(self, layer: int, values: HeadValues) -> Array:
        if self._gram is None or self._gram[0] != layer:
            self._gram = (layer, values.gram(self.selected.heads))
        return self._gram[1]


class HeadMatrices(Observer):
    """Keeps weights, scores and contributions of every chosen head, [layer, head, query, key]."""

    wants_scores = True
    side_by_side = True

    def __init__(self, selected: Heads, n_queries: int, n_keys: int) -> None:
        """Make room for every pair of tokens."""
        self.selected = selected
        self.attention_layers = frozenset(selected.layers)
        shape = (len(selected.layers), len(selected.heads), n_queries, n_keys)
        self.weights = np.zeros(shape, np.float32)
        self.contributions: Array | None = np.zeros(shape, np.float32)
        self.scores: Array | None = np.full(shape, -np.inf, np.float32)
        """Both None once a layer's cannot be told."""

    def on_attention(self, block: AttentionBlock) -> None:
        """Copy one block."""
        layer, heads = self.selected.layers.index(block.layer), list(self.selected.heads)
        weights = block.weights[heads]
        self.weights[layer, :, block.queries, block.keys] = weights
        if block.values is None:
            self.contributions = None
        if self.contributions is not None and block.values is not None:
            for place, head in enumerate(heads):
                lengths = weights[place] * block.values.norms(head)[block.keys]
                self.contributions[layer, place, block.queries, block.keys] = renormalise(lengths)
        if block.scores is None:
            self.scores = None
        elif self.scores is not None:
            self.scores[layer, :, block.queries, block.keys] = block.scores[heads]


class States(Observer):
    """Keeps every state of the residual stream of one text."""

    def __init__(self, n_layers: int) -> None:
        """Ask for all states: the embedding and the output of each layer."""
        self.states = frozenset(range(n_layers + 1))
        self._kept: list[Array] = []

    def on_state(self, index: int, state: Array) -> None:
        """Keep one state."""
        self._kept.append(np.array(state))

    def stacked(self) -> Float[Array, "state token d_model"]:
        """Return all states kept."""
        return np.stack(self._kept)


def cosine(a: Float[Array, "... d"], b: Float[Array, "... d"]) -> Float[Array, "..."]:
    """Cosine of the angle between vectors, -1…1; 0 where one of them is zero."""
    product = np.einsum("...d,...d->...", a, b)
    lengths = np.sqrt(np.einsum("...d,...d->...", a, a) * np.einsum("...d,...d->...", b, b))
    found: Array = np.divide(product, lengths, out=np.zeros_like(product), where=lengths > 0)
    return np.clip(found, -1, 1)
