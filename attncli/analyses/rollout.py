"""Rollout: from which tokens of the input, through all layers, a query's state is mixed.

Layer l mixes states by A_l = ½ (mean over heads of the weights) + ½ I, rows scaled to sum to 1:
the half stands for the residual stream. Rollout is the product A_last … A_1 A_0. Source: Abnar
and Zuidema 2020, section 3; a chosen head takes the place of the mean in its layer, as there.

In a causal model early tokens are on more paths than late ones, whatever the heads do. There each
entry is divided by what the same product gives when every query weighs all keys it can see alike,
and rows are scaled to sum to 1 again. Abnar and Zuidema ask for such a normalisation by receptive
field (section 3) and leave open which: this one makes uniform attention uniform.
"""

from __future__ import annotations

import numpy as np

from attncli._shapes import Float
from attncli.analyses.units import renormalise
from attncli.model.observe import AttentionBlock, Observer
from attncli.model.ops import visible
from attncli.model.spec import StackSpec
from attncli.selection import Heads

Array = np.ndarray


class Rollout(Observer):
    """Multiplies the layers as they come; holds a few n × n matrices."""

    def __init__(self, selected: Heads, stack: StackSpec, n: int) -> None:
        """Start from the embedding, where every token is itself.

        Args:
            selected: rollout goes up to the last of its layers; in those, its heads take the place
                of all.
            stack: number of heads, direction and windows.
            n: tokens of the text.
        """
        self.attention_layers = frozenset(range(max(selected.layers) + 1))
        self._selected, self._stack = selected, stack
        self._below = np.eye(n, dtype=np.float32)
        self._here = np.empty_like(self._below)
        self._mixed = 0
        # the same through uniform attention, where some tokens are on more paths than others
        self._field = Field(stack, n) if stack.causal else None

    def on_attention(self, block: AttentionBlock) -> None:
        """Mix the rows of one block; the last block of a layer ends it."""
        chosen = block.layer in self._selected.layers
        heads = self._selected.heads if chosen else range(self._stack.n_heads)
        mean = block.weights[list(heads)].mean(axis=0)
        own = self._below[block.queries]
        mixed = mean @ self._below[block.keys] + own
        # a learned sink's share of a row goes to no token
        self._here[block.queries] = mixed / (mean.sum(axis=1, keepdims=True) + 1)
        self._mixed += len(own)
        if self._mixed == len(self._below):
            self._mixed = 0
            self._below, self._here = self._here, self._below
            if self._field is not None:
                self._field.add(block.layer)

    def result(self) -> Float[Array, "query token"]:
        """Return shares of each row; rows sum to 1."""
        if self._field is None:
            return renormalise(self._below)
        uniform = self._field.paths
        scaled = np.divide(self._below, uniform, out=np.zeros_like(self._below), where=uniform > 0)
        return renormalise(scaled)


class Field:
    """Rollout of uniform attention: how large the receptive field of each layer makes a share."""

    def __init__(self, stack: StackSpec, n: int) -> None:
        """Start from the embedding."""
        self._stack = stack
        self.paths: Float[Array, "query token"] = np.eye(n, dtype=np.float32)

    def add(self, layer: int) -> None:
        """Go up through one layer."""
        n = len(self.paths)
        seen = visible(
            slice(0, n), slice(0, n), causal=True, window=self._stack.layers[layer].window
        )
        assert seen is not None
        uniform = seen / seen.sum(axis=1, keepdims=True, dtype=np.float32)
        self.paths = (uniform.astype(np.float32) @ self.paths + self.paths) / 2
