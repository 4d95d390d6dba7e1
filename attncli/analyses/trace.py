"""An observer that follows one row of one head through a layer, and keeps every step of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attncli._shapes import Float
from attncli.model.observe import EMBEDDING, AttentionBlock, Observer

Array = np.ndarray


@dataclass(slots=True)
class Row:
    """What attention did for one query in one layer, all heads; all arrays are copies."""

    q: Float[Array, "head head_dim"]
    """Scaled and rotated."""
    k: Float[Array, "kv_head key head_dim"]
    """Rotated."""
    v: Float[Array, "kv_head key head_dim"]
    o: Float[Array, "head head_dim d_model"] | None
    scores: Float[Array, "head key"]
    """Masked keys -inf."""
    weights: Float[Array, "head key"]
    bias: Float[Array, "head key"]
    """0 where position adds nothing."""
    reach: slice
    """Keys that were computed together with this query; all others are masked, their bias unset."""
    group: int
    """Query heads that share one key/value head."""

    def mixes(self) -> Float[Array, "head head_dim"]:
        """Return Σ_j α_j v_j of every head."""
        found = [self.weights[h] @ self.v[h // self.group] for h in range(len(self.weights))]
        return np.stack(found)

    def outputs(self) -> Float[Array, "head d_model"]:
        """Return what each head adds to the attention output: its mix through its part of W_O."""
        mixes = self.mixes()
        if self.o is not None:
            return np.einsum("hd,hdm->hm", mixes, self.o)
        wide = np.zeros((len(mixes), mixes.size), np.float32)
        for head, mix in enumerate(mixes):
            wide[head, head * len(mix) : (head + 1) * len(mix)] = mix
        return wide

    def lengths(self, head: int) -> Float[Array, " key"]:
        """Return |α_j f(x_j)| of every key: what it adds to the head's output."""
        v = self.v[head // self.group]
        vectors = v if self.o is None else v @ self.o[head]
        lengths: Array = self.weights[head] * np.sqrt(np.einsum("kd,kd->k", vectors, vectors))
        return lengths


class Trace(Observer):
    """Follows one query token through the embedding and one layer."""

    wants_scores = True

    def __init__(self, layer: int, query: int) -> None:
        """Say which row to follow.

        Args:
            layer: number of the layer.
            query: position of the token.
        """
        self._layer, self._query = layer, query
        self.attention_layers = self.output_layers = frozenset({layer})
        self.step_layers = frozenset({EMBEDDING, layer})
        self.embedding: dict[str, Float[Array, " width"]] = {}
        """Steps of the embedding by name, of the query's token."""
        self.steps: dict[str, Float[Array, "token width"]] = {}
        """Steps of the layer by name, all tokens."""
        self.row: Row | None = None
        self.output = np.zeros(0, np.float32)
        """Attention output of the query, the bias of W_O included."""

    def on_step(self, layer: int, name: str, values: Array) -> None:
        """Keep the row of the query; of keys and values all rows."""
        if layer == EMBEDDING:
            self.embedding[name] = values[self._query].copy()
        else:
            self.steps[name] = values.copy()

    def on_attention(self, block: AttentionBlock) -> None:
        """Keep the row, with what it was made of."""
        if not block.queries.start <= self._query < block.queries.stop:
            return
        at = self._query - block.queries.start
        assert block.q is not None
        assert block.k is not None
        assert block.values is not None
        assert block.scores is not None
        heads, n_keys = len(block.q), block.k.shape[1]
        row = Row(
            block.q[:, at].copy(),
            block.k.copy(),
            block.values.v.copy(),
            None if block.values.o is None else block.values.o.copy(),
            np.full((heads, n_keys), -np.inf, np.float32),
            np.zeros((heads, n_keys), np.float32),
            np.zeros((heads, n_keys), np.float32),
            block.keys,
            block.values.group,
        )
        row.scores[:, block.keys] = block.scores[:, at]
        row.weights[:, block.keys] = block.weights[:, at]
        if block.bias is not None:
            row.bias[:, block.keys] = block.bias[:, at]
        self.row = row

    def on_output(self, layer: int, output: Array) -> None:
        """Keep the query's attention output."""
        self.output = output[self._query].copy()
