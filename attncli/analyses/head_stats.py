"""Statistics of every head over one text, gathered while the text runs.

Rows: every query of the text counts, special tokens too (as Clark et al. 2019 count them), except
where a measure says otherwise. What is kept is of size heads · tokens, never a matrix of pairs.

* entropy: mean over queries of -sum_j α_ij ln α_ij, in nats. Where a learned sink takes a share,
  the row is scaled to sum to 1 first: entropy of what the tokens get.
* effective_keys: e to the mean entropy.
* relative_entropy: mean over the queries that see at least two keys of their entropy / ln(keys
  seen); 1 for a uniform head.
* distance: sum α_ij (j - i) / sum α_ij over all pairs: negative looks back. absolute_distance
  likewise with |j - i|. Source: Vig and Belinkov 2019, section 4.4 (sign: theirs is i - j).
* previous, next: mean of α_i,i-1 and α_i,i+1 over the queries that have such a token. self: mean
  of α_ii. Source: Clark et al. 2019, section 3.1.
* first: mean weight on the first token, over the queries behind it that see it.
* special, punctuation: mean over queries of the weight on all special tokens; on all tokens whose
  text has no letter or digit.
* sink: α of the first token, averaged over all queries that see it, itself included; a sink above
  .3. The top key is the token with the largest such average among those that at least half of the
  queries see. Source: Gu et al. 2025, equation 7 (there queries from k on, which are those that
  see k in a causal model).
* confidence: mean over queries of the largest weight on a token that is not special. Source:
  Voita et al. 2019, section 4 (there: not the end-of-sentence token).
* duplicate: over the queries whose token occurred before, mean of the weight on those earlier
  places. induction: likewise on the places right after them, as far as they are before the query.
  Special queries do not count. Source: Olsson et al. 2022 (prefix matching), on a text instead of
  random tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attncli._shapes import Bool, Float, Int
from attncli.analyses.excess import sum_by_offset
from attncli.analyses.head_measures import Values
from attncli.analyses.sides import Sides
from attncli.model.observe import AttentionBlock, Observer
from attncli.model.ops import visible
from attncli.model.spec import StackSpec
from attncli.selection import Heads
from attncli.tokenize import Token

Array = np.ndarray

EPSILON = 0.3
"""A head is a sink head when the first token's average is above this. Source: Gu et al. 2025."""
TINY = np.float32(1e-38)


@dataclass(frozen=True, slots=True)
class HeadStatistics:
    """What one text says about every chosen head."""

    values: Values
    top_key: Int[Array, "layer head"]
    """Token index of the key with the largest average weight."""
    top_weight: Float[Array, "layer head"]
    uniform_sink: float
    """What the sink measure would be of a head that gives all keys it sees the same weight."""
    n_repeats: int
    """Queries whose token occurred before."""
    windows_known: bool
    """False where keys behind a sliding window may have been counted as seen."""


class HeadStats(Observer):
    """Sums over queries, by head: one pass, whatever the length of the text."""

    def __init__(
        self, selected: Heads, sides: Sides, stack: StackSpec, *, knows_windows: bool = True
    ) -> None:
        """Make room for sums per head, key and offset.

        Args:
            selected: layers and heads.
            sides: which attention, and the texts of queries and keys.
            stack: direction and windows of the layers.
            knows_windows: False where only scores tell which keys a query sees.
        """
        self.wants_scores = not knows_windows
        self._windows_known = True
        self.selected = selected
        self.attention_layers = frozenset(selected.layers)
        self._cross = sides.is_cross
        self._causal = stack.causal and not sides.is_cross
        self._windows = [None if sides.is_cross else layer.window for layer in stack.layers]
        keys = sides.keys.tokens
        self._special = np.array([token.special for token in keys])
        self._punctuation = np.array([is_punctuation(token) for token in keys])
        self._n_queries, self._n_keys = len(sides.queries.tokens), len(keys)
        self._ids = np.array(sides.keys.ids)
        self._repeats = _repeats(self._ids, self._special)
        self._follows = _follows(self._ids, self._repeats)
        shape = (len(selected.layers), len(selected.heads))
        names = ("entropy", "relative", "seeing", "first", "behind", "confidence")
        self._sums = {name: np.zeros(shape) for name in (*names, "duplicate", "induction")}
        self._by_key = np.zeros((*shape, self._n_keys))
        self._seers = np.zeros((len(selected.layers), self._n_keys))
        self._uniform = np.zeros(len(selected.layers))
        n_offsets = 0 if self._cross else 2 * self._n_keys - 1
        self._by_offset = np.zeros((*shape, n_offsets))

    def on_attention(self, block: AttentionBlock) -> None:
        """Add one block of one layer."""
        at = self.selected.layers.index(block.layer)
        weights, heads = block.weights, self.selected.heads
        if len(heads) < len(weights):
            weights = weights[list(heads)]
        seen = self._seen(block)
        self._seers[at, block.keys] += seen.sum(axis=0)
        self._by_key[at, :, block.keys] += np.einsum("hqk->hk", weights)
        entropy = row_entropy(weights)
        self._add("entropy", at, entropy)
        n_seen = seen.sum(axis=1)
        if block.keys.start == 0:
            self._uniform[at] += (1 / n_seen[seen[:, 0]]).sum()
        choosing = n_seen > 1
        self._add("relative", at, entropy[:, choosing] / np.log(n_seen[choosing]))
        self._sums["seeing"][at] += choosing.sum()
        self._add("confidence", at, self._largest(weights, block.keys))
        if self._cross:
            return
        if block.keys.start == 0:
            behind = np.arange(block.queries.start, block.queries.stop) > 0
            self._add("first", at, weights[:, behind, 0])
            self._sums["behind"][at] += seen[behind, 0].sum()
        sums = sum_by_offset(weights)
        first = block.keys.start - (block.queries.stop - 1) + self._n_keys - 1
        self._by_offset[at, :, first : first + sums.shape[-1]] += sums
        self._add_repeats(at, weights, block.queries, block.keys)

    def _add(self, name: str, layer: int, by_row: Float[Array, "head row"]) -> None:
        self._sums[name][layer] += by_row.sum(axis=1, dtype=np.float64)

    def _seen(self, block: AttentionBlock) -> Bool[Array, "query key"]:
        """Which keys each query may see."""
        if block.scores is not None:
            return np.isfinite(block.scores[0])
        self._windows_known &= not self.wants_scores
        window = self._windows[block.layer]
        seen = visible(block.queries, block.keys, causal=self._causal, window=window)
        shape = block.weights.shape[1:]
        return np.ones(shape, bool) if seen is None else seen

    def _largest(self, weights: Array, keys: slice) -> Float[Array, "head query"]:
        """Return the largest weight of each row on a token that is not special."""
        largest = np.zeros(weights.shape[:2], np.float32)
        bounds = np.flatnonzero(np.diff(self._special[keys], prepend=True, append=True))
        for start, stop in zip(bounds[::2], bounds[1::2], strict=True):
            np.maximum(largest, weights[:, :, start:stop].max(axis=-1), out=largest)
        return largest

    def _add_repeats(self, layer: int, weights: Array, queries: slice, keys: slice) -> None:
        for name, chosen, shift in (
            ("duplicate", self._repeats, 0),
            ("induction", self._follows, 1),
        ):
            rows = np.flatnonzero(chosen[queries])
            if not len(rows):
                continue
            query = rows + queries.start
            places = np.arange(keys.start, keys.stop)
            # the place after an earlier occurrence: the token before it is the query's own
            same = self._ids[query][:, None] == self._ids[np.maximum(places - shift, 0)]
            same &= (places >= shift) & (places < query[:, None])
            on_them = np.einsum("hqk,qk->hq", weights[:, rows], same.astype(np.float32))
            self._add(name, layer, on_them)

    def finish(self) -> HeadStatistics:
        """Return the means."""
        n, sums = self._n_queries, self._sums
        entropy = sums["entropy"] / n
        relative = sums["relative"] / np.maximum(sums["seeing"], 1)
        averages = self._by_key / np.maximum(self._seers, 1)[:, None]
        values: dict[str, Array | None] = {
            "entropy": entropy,
            "effective_keys": np.exp(entropy),
            "relative_entropy": relative if (sums["seeing"] > 0).all() else None,
            **self._positional(),
            "special": self._on(self._special),
            "punctuation": self._on(self._punctuation),
            "sink": averages[:, :, 0],
            "confidence": sums["confidence"] / n if not self._special.all() else None,
        }
        common = np.where((self._seers * 2 >= n)[:, None], averages, -1)
        top = common.argmax(axis=-1)
        weight = np.take_along_axis(averages, top[..., None], axis=-1)[..., 0]
        uniform = self._uniform / np.maximum(self._seers[:, 0], 1)
        return HeadStatistics(
            values,
            top,
            weight,
            float(uniform.mean()),
            int(self._repeats.sum()),
            self._windows_known,
        )

    def _on(self, keys: Bool[Array, " key"]) -> Array | None:
        """Return the mean weight on these keys together; None when there are none."""
        if not keys.any():
            return None
        on_them: Array = self._by_key[:, :, keys].sum(axis=-1) / self._n_queries
        return on_them

    def _positional(self) -> dict[str, Array | None]:
        if self._cross:
            return {}
        n, here = self._n_keys, self._n_keys - 1
        offsets = np.arange(-here, n)
        total = np.maximum(self._by_offset.sum(axis=-1), TINY)
        n_repeats, n_follows = self._repeats.sum(), self._follows.sum()
        behind = self._sums["behind"]
        return {
            "distance": self._by_offset @ offsets / total,
            "absolute_distance": self._by_offset @ np.abs(offsets) / total,
            "previous": self._by_offset[:, :, here - 1] / here if here else None,
            "next": self._by_offset[:, :, here + 1] / here if here and not self._causal else None,
            "self": self._by_offset[:, :, here] / n,
            "first": self._sums["first"] / behind if behind.all() else None,
            "duplicate": self._sums["duplicate"] / n_repeats if n_repeats else None,
            "induction": self._sums["induction"] / n_follows if n_follows else None,
        }


def row_entropy(weights: Float[Array, "head query key"]) -> Float[Array, "head query"]:
    """Return the entropy in nats of each row, scaled to sum to 1.

    With row sum S it is ln S - sum α ln α / S.
    """
    logs = np.maximum(weights, TINY)
    np.log(logs, out=logs)
    inner = np.einsum("hqk,hqk->hq", weights, logs)
    total = np.maximum(np.einsum("hqk->hq", weights), TINY)
    entropy: Array = np.maximum(np.log(total) - inner / total, 0)
    return entropy


def is_punctuation(token: Token) -> bool:
    """Tell whether a token shows something, but no letter or digit; special tokens are apart."""
    text = token.text.strip()
    return bool(text) and not token.special and not any(char.isalnum() for char in text)


def _repeats(ids: Int[Array, " token"], special: Bool[Array, " token"]) -> Bool[Array, " token"]:
    """Return which tokens occurred before; special tokens do not count."""
    repeats = np.ones(len(ids), bool)
    repeats[np.unique(ids, return_index=True)[1]] = False
    return repeats & ~special


def _follows(ids: Int[Array, " token"], repeats: Bool[Array, " token"]) -> Bool[Array, " token"]:
    """Return which of them have a place after an earlier occurrence that is before them."""
    first: dict[int, int] = {}
    for place, id_ in enumerate(ids.tolist()):
        first.setdefault(id_, place)
    start = np.array([first[id_] for id_ in ids.tolist()])
    return repeats & (start + 1 < np.arange(len(ids)))
