"""Value-zeroing: how much a query's state after a block would turn without one key's value.

zeroed(i, j) = 1 - cos(y_i, y_i without the value of key j), y the output of the whole block
(residual sums, norms and feed-forward part in), as a share of its row. The value is taken away
from the chosen heads only; weights stay as they are. Over several layers the mean of the layers'
shares. Source: Mohebbi et al. 2023, section 3, equations 5 and 6.
"""

from __future__ import annotations

import numpy as np

from attncli._shapes import Float, Int
from attncli.analyses.units import renormalise
from attncli.errors import UsageProblem
from attncli.model.observe import AttentionBlock, Block, Observer
from attncli.selection import Heads

Array = np.ndarray

MAX_PAIRS = 100_000
"""Queries × keys: each is one more run of a block for one token."""
ROWS = 256
"""Rows that go through a block together."""


class ValueZeroing(Observer):
    """Runs the end of each chosen block again for every chosen query and every key."""

    def __init__(self, selected: Heads, rows: Int[Array, " row"], n: int) -> None:
        """Make room for [row, key].

        Args:
            selected: layers and heads whose values are taken away.
            rows: rising token positions of the query rows.
            n: tokens of the text that is read.

        Raises:
            UsageProblem: so many pairs that it would take minutes.
        """
        if len(rows) * n > MAX_PAIRS:
            raise UsageProblem(
                f"--by value-zeroing runs every block again for each of {len(rows):,} × {n:,} "
                f"pairs of query and key, at most {MAX_PAIRS:,}; choose rows with --query."
            )
        self.selected, self.rows = selected, rows
        self.attention_layers = self.block_layers = frozenset(selected.layers)
        self.shares = np.zeros((len(rows), n), np.float32)
        self._parts = np.zeros((len(selected.heads), len(rows), n), np.float32)
        self._v: Array | None = None

    def on_attention(self, block: AttentionBlock) -> None:
        """Keep the weights of the chosen rows and the values of this layer."""
        here = (self.rows >= block.queries.start) & (self.rows < block.queries.stop)
        local, heads = self.rows[here] - block.queries.start, list(self.selected.heads)
        places = np.flatnonzero(here)
        self._parts[:, places, block.keys] = block.weights[heads][:, local]
        if block.values is not None:
            kv = [head // block.values.group for head in heads]
            self._v = block.values.v[kv]

    def on_block(self, block: Block) -> None:
        """Take away one key's value after the other."""
        v = self._v
        assert v is not None, "attention is shown before the block it is in"
        head_dim = v.shape[-1]
        columns = np.concatenate(
            [np.arange(h * head_dim, (h + 1) * head_dim) for h in self.selected.heads]
        )
        turned = np.zeros_like(self.shares)
        # a key without weight changes nothing
        places, keys = np.nonzero(self._parts.any(axis=0))
        for start in range(0, len(places), ROWS):
            at, key = places[start : start + ROWS], keys[start : start + ROWS]
            rows = self.rows[at]
            mixed = block.mixed[rows]
            taken = self._parts[:, at, key][..., None] * v[:, key]
            mixed[:, columns] -= taken.transpose(1, 0, 2).reshape(len(at), -1)
            turned[at, key] = turn(block.out[rows], block.again(rows, mixed))
        self.shares += renormalise(turned) / len(self.selected.layers)
        self._parts[:] = 0


def turn(a: Float[Array, "row d"], b: Float[Array, "row d"]) -> Float[Array, " row"]:
    """Return 1 - cosine of each pair of rows; 0 where one of them is zero.

    1 - cos = |a/|a| - b/|b||² / 2 keeps its digits where the two hardly differ.
    """
    both = [x.astype(np.float64) for x in (a, b)]
    lengths = [np.sqrt(np.einsum("rd,rd->r", x, x)) for x in both]
    units = [x / np.maximum(s, 1e-300)[:, None] for x, s in zip(both, lengths, strict=True)]
    apart = units[0] - units[1]
    turned = np.einsum("rd,rd->r", apart, apart) / 2
    found: Array = np.where(np.minimum(*lengths) > 0, turned, 0.0).astype(np.float32)
    return found
