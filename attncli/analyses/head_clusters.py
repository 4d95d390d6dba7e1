"""Heads that read alike: Jensen-Shannon distances between them, and clusters of near ones.

Distance of two heads: the mean over queries of JS(α_h, α_g), in nats, 0 … ln 2; rows are scaled to
sum to 1 (a learned sink leaves less). Clark et al. 2019, section 6, take the sum over tokens; the
mean does not grow with the text. Clusters: average linkage (Sokal and Michener 1958), cut where
the mean distance between two clusters exceeds CUT.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attncli._shapes import Float, Int
from attncli.analyses.units import renormalise
from attncli.model.observe import AttentionBlock, Observer
from attncli.selection import Heads

Array = np.ndarray

CUT = 0.1
"""Nats; about a seventh of ln 2, which is the distance of heads that share no key."""
BUDGET = 300_000_000
"""Most pairs of heads · rows · keys that are compared: some seconds."""
STEP = 1_000_000
"""Numbers worked on at once."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Heads by cluster; clusters are numbered by size, the largest first."""

    numbers: Int[Array, "layer head"]
    rows: int
    """Query rows that were compared."""
    distances: Float[Array, "a b"]
    """Between all chosen heads, layer by layer."""


def rows_within(n_rows: int, cost_of_row: int, budget: int) -> Int[Array, " row"]:
    """Choose rows, evenly spaced, so that together they cost no more than the budget."""
    n = min(n_rows, budget // max(cost_of_row, 1))
    return np.floor((np.arange(n) + 0.5) * n_rows / max(n, 1)).astype(np.int64)


def rows_to_compare(selected: Heads, n_queries: int, n_keys: int) -> Int[Array, " row"]:
    """Choose the query rows whose distances fit the budget: all of them in a short text."""
    heads = len(selected.layers) * len(selected.heads)
    return rows_within(n_queries, heads * (heads - 1) // 2 * n_keys, BUDGET)


class KeptRows(Observer):
    """Keeps the weights of a few query rows, [layer, head, row, key]."""

    def __init__(self, selected: Heads, rows: Int[Array, " row"], n_keys: int) -> None:
        """Make room.

        Args:
            selected: layers and heads.
            rows: rising query positions.
            n_keys: tokens of the text that is read.
        """
        self.selected, self.rows = selected, rows
        self.attention_layers = frozenset(selected.layers)
        shape = (len(selected.layers), len(selected.heads), len(rows), n_keys)
        self.weights = np.zeros(shape, np.float32)

    def on_attention(self, block: AttentionBlock) -> None:
        """Copy the rows that are in this block."""
        places = np.flatnonzero(
            (self.rows >= block.queries.start) & (self.rows < block.queries.stop)
        )
        if not len(places):
            return
        local = self.rows[places] - block.queries.start
        layer = self.selected.layers.index(block.layer)
        rows = block.weights[np.ix_(self.selected.heads, local)]
        self.weights[layer, :, places[0] : places[-1] + 1, block.keys] = rows


def find_clusters(kept: KeptRows) -> Clusters | None:
    """Group the heads; None for a single head, or where not even one row fits the budget."""
    n_layers, n_heads, n_rows, n_keys = kept.weights.shape
    if n_layers * n_heads < 2 or not n_rows:
        return None
    distances = js_distances(kept.weights.reshape(-1, n_rows, n_keys))
    numbers = average_linkage(distances, CUT)
    return Clusters(numbers.reshape(n_layers, n_heads), n_rows, distances)


def js_distances(weights: Float[Array, "head row key"]) -> Float[Array, "head head"]:
    """Return the mean over rows of JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2, in nats."""
    n_heads, n_rows, n_keys = weights.shape
    rows = renormalise(weights)
    distances = np.zeros((n_heads, n_heads))
    at_once = max(1, STEP // n_keys)
    for row in range(n_rows):
        shares = np.ascontiguousarray(rows[:, row])
        entropy = _entropy(shares)
        for one in range(n_heads - 1):
            for start in range(one + 1, n_heads, at_once):
                others = slice(start, min(start + at_once, n_heads))
                mixed = shares[others] + shares[one]
                mixed *= np.float32(0.5)
                js = _entropy(mixed) - (entropy[others] + entropy[one]) / 2
                distances[one, others] += np.maximum(js, 0)
    distances /= n_rows
    return distances + distances.T


def _entropy(shares: Float[Array, "row key"]) -> Float[Array, " row"]:
    logs = np.maximum(shares, np.float32(1e-38))
    np.log(logs, out=logs)
    return -np.einsum("rk,rk->r", shares, logs).astype(np.float64)


def average_linkage(distances: Float[Array, "head head"], cut: float) -> Int[Array, " head"]:
    """Merge the two nearest clusters until the mean distance of the nearest two exceeds `cut`.

    Returns:
        The number of each head's cluster: 0 for the largest; of equal ones the first to appear.
    """
    n = len(distances)
    between = distances.astype(np.float64)
    np.fill_diagonal(between, np.inf)
    nearest = between.argmin(axis=1)
    sizes, owner = np.ones(n), np.arange(n)
    for _ in range(n - 1):
        a = int(between[np.arange(n), nearest].argmin())
        b = int(nearest[a])
        if between[a, b] > cut:
            break
        # Lance and Williams: the mean over all pairs of members
        merged = (sizes[a] * between[a] + sizes[b] * between[b]) / (sizes[a] + sizes[b])
        merged[[a, b]] = np.inf
        between[a], between[:, a] = merged, merged
        between[b], between[:, b] = np.inf, np.inf
        sizes[a], sizes[b] = sizes[a] + sizes[b], 0
        owner[owner == b] = a
        stale = np.flatnonzero((nearest == a) | (nearest == b))
        for at in {a, b, *stale.tolist()}:
            nearest[at] = between[at].argmin()
        closer = between[:, a] < between[np.arange(n), nearest]
        nearest[closer] = a
    names, first, count = np.unique(owner, return_index=True, return_counts=True)
    order = sorted(range(len(names)), key=lambda i: (-count[i], first[i]))
    number = {int(names[i]): place for place, i in enumerate(order)}
    return np.array([number[int(name)] for name in owner])
