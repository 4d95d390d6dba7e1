"""Heads ranked by how much one word reads from another.

weight: sum over the key's pieces, mean over the query's pieces; with several occurrences the mean
over all pairs of them that the model can see. contribution: α_ij |f_h(x_j)| as a share of its row,
for each head alone, merged likewise. excess: the weight beyond what the head gives at that distance
anyhow, see excess.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from attncli._shapes import Float, Int
from attncli.analyses.excess import Excess
from attncli.analyses.head_links import HeadLinks, Link
from attncli.analyses.sides import Sides, choose_attention, stack_of
from attncli.errors import UsageProblem
from attncli.model.load import Model
from attncli.model.observe import AttentionBlock, HeadValues, Observer
from attncli.results import RANDOM_NOTE, count
from attncli.selection import Attention, Heads, find_groups
from attncli.tokenize import Encoded

Array = np.ndarray

MOST_PAIRS = 10_000
"""Of a token of the one word and a token of the other."""

Group = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ends:
    """Where the query word and the key word stand."""

    from_: str
    to: str
    pairs: tuple[tuple[Group, Group], ...]
    """Token indexes of each occurrence of the one with each of the other that it can see."""
    notes: tuple[str, ...]

    @property
    def queries(self) -> Int[Array, " query"]:
        """All query tokens, rising."""
        return np.array(sorted({token for group, _ in self.pairs for token in group}), np.int64)

    @property
    def keys(self) -> Int[Array, " key"]:
        """All key tokens, rising."""
        return np.array(sorted({token for _, group in self.pairs for token in group}), np.int64)


def find_ends(sides: Sides, from_: str, to: str, *, causal: bool, where: str = "") -> Ends:
    """Find both words.

    Args:
        sides: texts of queries and keys.
        from_: word, token index or `word#2`, likewise `to`.
        to: what it reads.
        causal: a token sees only what came before it.
        where: which text it is, for messages, such as "in the second text: ".

    Raises:
        UsageProblem: a word that is not there; a key that every query comes before.
    """
    queries = find_groups(sides.queries, from_, "from")
    keys = find_groups(sides.keys, to, "to")
    pairs = list(product(queries, keys))
    if len(pairs) > 1 and not sides.is_cross:
        # a word repeated is asked about its other places, not about itself
        pairs = [pair for pair in pairs if pair[0] != pair[1]] or pairs
    seen = [(q, k) for q, k in pairs if not causal or sides.is_cross or k[0] <= q[-1]]
    if not seen:
        raise UsageProblem(
            f"{where}--from {from_} --to {to}: {to!r} stands after {from_!r}, and this model is "
            "causal: a row cannot depend on a later word. Ask the other way round, or use a model "
            "that sees both ways."
        )
    if sum(len(q) * len(k) for q, k in seen) > MOST_PAIRS:
        raise UsageProblem(
            f"{where}--from {from_} --to {to}: {len(seen):,} pairs of occurrences are too many; "
            f"name one of each, such as {from_}#1."
        )
    notes = []
    if len(pairs) > 1:
        skipped = len(pairs) - len(seen)
        void = f"; {skipped} left out, their key comes later than the query" if skipped else ""
        mean = "means over" if len(seen) > 1 else "numbers are of"
        notes.append(
            f"{where}{mean} {count(len(seen), 'pair')} of occurrences of {from_!r} and {to!r}"
            f"{void} (name one: {from_}#1, {to}#1)"
        )
    for word, group in ((from_, seen[0][0]), (to, seen[0][1])):
        if len(group) > 1:
            rule = "mean from" if word == from_ else "sum to"
            notes.append(f"{where}{word!r} has {len(group)} pieces: {rule} its pieces")
    return Ends(from_, to, tuple(seen), tuple(dict.fromkeys(notes)))


class PairReadings(Observer):
    """Keeps what chosen queries give to chosen keys, [layer, head, query, key]."""

    def __init__(self, selected: Heads, ends: Ends, *, contributions: bool = True) -> None:
        """Make room for the tokens of both words."""
        self.selected, self._queries, self._keys = selected, ends.queries, ends.keys
        self.attention_layers = frozenset(selected.layers)
        shape = (len(selected.layers), len(selected.heads), len(self._queries), len(self._keys))
        self.weights = np.zeros(shape, np.float32)
        self.contributions = np.zeros(shape, np.float32) if contributions else None
        """None once a layer's values cannot be told."""
        self._norms: tuple[int, Array] | None = None

    def on_attention(self, block: AttentionBlock) -> None:
        """Take the rows and columns that are in this block."""
        rows = _inside(self._queries, block.queries)
        if not len(rows):
            return
        columns = _inside(self._keys, block.keys)
        layer = self.selected.layers.index(block.layer)
        weights = block.weights[
            np.ix_(self.selected.heads, self._queries[rows] - block.queries.start)
        ]
        local = self._keys[columns] - block.keys.start
        place = np.ix_(np.arange(len(weights)), rows, columns)
        self.weights[layer][place] = weights[:, :, local]
        if block.values is None:
            self.contributions = None
        if self.contributions is not None and block.values is not None:
            lengths = weights * self._norms_of(block.layer, block.values)[:, None, block.keys]
            total = np.maximum(lengths.sum(axis=-1, keepdims=True), np.float32(1e-38))
            self.contributions[layer][place] = lengths[:, :, local] / total

    def _norms_of(self, layer: int, values: HeadValues) -> Float[Array, "head key"]:
        if self._norms is None or self._norms[0] != layer:
            self._norms = (layer, np.stack([values.norms(h) for h in self.selected.heads]))
        return self._norms[1]

    def merged(
        self, values: Float[Array, "layer head query key"], ends: Ends
    ) -> Float[Array, "layer head"]:
        """Sum over the pieces of the key, average over those of the query, then over pairs."""
        found = [
            values[
                :,
                :,
                np.searchsorted(self._queries, q)[:, None],
                np.searchsorted(self._keys, k),
            ]
            .sum(axis=-1, dtype=np.float64)
            .mean(axis=-1)
            for q, k in ends.pairs
        ]
        mean: Array = np.mean(found, axis=0)
        return mean


def _inside(tokens: Int[Array, " token"], span: slice) -> Int[Array, " place"]:
    """Return the places of the tokens that lie in a span."""
    return np.flatnonzero((tokens >= span.start) & (tokens < span.stop))


def link_heads(
    model: Model,
    encoded: Encoded,
    heads: Heads,
    from_: str,
    to: str,
    *,
    target: Encoded | None = None,
    attention: Attention | None = None,
    by: str = "weight",
    top: int | None = None,
    line: int | None = None,
) -> HeadLinks:
    """Rank heads by what one word reads from another.

    Args:
        model: what to run.
        encoded: the text as `model.encode` gives it.
        heads: chosen layers and heads.
        from_: the word that reads.
        to: the word that is read.
        target: what the decoder of an encoder-decoder reads; `from_` is then one of its words.
        attention: which attention of an encoder-decoder.
        by: weight, contribution or excess: what heads are ranked by.
        top: most heads listed; None for all.
        line: line of a batch the text came from.

    Raises:
        UsageProblem: a word that is not there, or cannot be seen; a measure that has no meaning.
    """
    attention = choose_attention(model, attention, has_target=target is not None)
    sides, stack = Sides(attention, encoded, target), stack_of(model.spec, attention)
    ends = find_ends(sides, from_, to, causal=stack.causal)
    readings = PairReadings(heads, ends)
    observers: list[Observer] = [readings]
    excess = None
    if not sides.is_cross:
        ordinary = np.array([not token.special for token in sides.keys.tokens])
        excess = Excess(heads, ordinary, causal=stack.causal)
        observers.append(excess)
    model.run([sides.job(model.spec, observers)])

    shares, beyond, known = readings.contributions, None, 0
    if excess is not None:
        beyond, known = _excess(excess, readings, ends)
    weights = readings.merged(readings.weights, ends)
    contributions = None if shares is None else readings.merged(shares, ends)
    if (by == "excess" and beyond is None) or (by == "contribution" and contributions is None):
        why = (
            "transformers does not show what contributions are made of in this architecture"
            if by == "contribution"
            else "there is none, the notes without --by say why"
        )
        raise UsageProblem(f"--by {by}: {why}; use --by weight.")
    links = [
        Link(
            heads.layers[i],
            heads.heads[j],
            float(weights[i, j]),
            None if contributions is None else float(contributions[i, j]),
            None if beyond is None else float(beyond[i, j]),
        )
        for i, j in np.ndindex(weights.shape)
    ]
    links.sort(key=lambda link: -(link.by(by) or 0.0))
    return HeadLinks(
        card=model.card(decoder=target is not None),
        sides=sides,
        heads=heads,
        from_=from_,
        to=to,
        pairs=ends.pairs,
        by=by,
        top=top,
        links=tuple(links[:top]),
        notes=_notes(model, sides, heads, ends, known, contributions is not None),
        line=line,
    )


def _excess(excess: Excess, readings: PairReadings, ends: Ends) -> tuple[Array | None, int]:
    """Return the excess over the pairs of occurrences that have one, and how many have."""
    found = []
    for q, k in ends.pairs:
        queries, keys = (grid.ravel() for grid in np.meshgrid(q, k, indexing="ij"))
        rows, columns = np.searchsorted(ends.queries, queries), np.searchsorted(ends.keys, keys)
        beyond, known = excess.of_pairs(queries, keys, readings.weights[:, :, rows, columns])
        if known.all():
            found.append(beyond.sum(axis=-1) / len(q))
    return (np.mean(found, axis=0) if found else None), len(found)


def _notes(
    model: Model, sides: Sides, heads: Heads, ends: Ends, known: int, has_contributions: bool
) -> tuple[str, ...]:
    notes = [RANDOM_NOTE] if model.random else []
    notes += [*sides.source.notes, *ends.notes]
    if sides.target is not None:
        notes += [f"target: {note}" for note in sides.target.notes]
    if sides.is_cross:
        notes.append("no excess: tokens of two texts have no common positions")
    elif not known:
        special = any(sides.keys.tokens[t].special for pair in ends.pairs for g in pair for t in g)
        notes.append(
            "no excess: special tokens do not take part in it"
            if special
            else "no excess: no other two words of this text stand as far apart, so there is "
            "nothing to compare with"
        )
    elif known < len(ends.pairs):
        notes.append(f"excess is that of {known} of {len(ends.pairs)} pairs")
    if not has_contributions:
        notes.append(
            "contributions are left out: transformers does not show what they are made of in this "
            "architecture"
        )
    if not sides.is_cross and model.has_sink(heads.layers):
        notes.append("a learned sink takes a share of each row that no token gets")
    return tuple(notes)
