"""Heads ranked by how differently they read two texts whose words are put side by side.

With a pair of words, the change of the weight from the one to the other. Without, the total
variation ½ Σ_j |α_ij − α'_ij| of each pair of aligned words' rows, words merged, averaged over
them: 0 equal, 1 nothing in common. A key that only one text has is a column of its own; special
tokens together are one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attncli._shapes import Float
from attncli.analyses.alignment import align
from attncli.analyses.baseline import word_states
from attncli.analyses.head_changes import HeadChange, HeadChanges, LayerChange, Question
from attncli.analyses.head_clusters import KeptRows, rows_within
from attncli.analyses.head_link import Ends, PairReadings, find_ends
from attncli.analyses.reduction import cosine
from attncli.analyses.sides import Sides, reading_job
from attncli.analyses.units import Unit, make_units
from attncli.errors import InputProblem
from attncli.model.load import Model
from attncli.model.observe import Observer
from attncli.results import RANDOM_NOTE, count
from attncli.selection import Heads, View
from attncli.tokenize import Encoded

Array = np.ndarray

BUDGET = 20_000_000
"""Most weights that are kept of each text: heads · rows · tokens (80 MB)."""

Pairs = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Places:
    """Which units of two texts stand side by side."""

    units: tuple[list[Unit], list[Unit]]
    keys: Pairs
    alone: tuple[list[int], list[int]]
    """Units that only one of the texts has."""
    words: Pairs
    """Pairs of words, all of them."""
    rows: Pairs
    """Those whose rows are compared."""


def contrast_heads(
    model: Model,
    texts: tuple[Encoded, Encoded],
    heads: Heads,
    *,
    question: Question = "contrast",
    from_: str | None = None,
    to: str | None = None,
    top: int | None = None,
    line: int | None = None,
) -> HeadChanges:
    """Rank heads by how their attention differs between two texts.

    Args:
        model: what to run; of an encoder-decoder the encoder.
        texts: encoded texts.
        heads: chosen layers and heads.
        question: what the second text is: another one, or the first with two words exchanged.
        from_: compare the weight from this word only, with `to`.
        to: the word that is read.
        top: most heads listed; None for all.
        line: line of a batch the first text came from.

    Raises:
        UsageProblem: a word that is not in both texts, or cannot be seen.
        InputProblem: the texts share no word.
    """
    notes = [RANDOM_NOTE] if model.random else []
    if model.spec.encoder is not None:
        notes.append("the encoder is compared; the decoder takes no part")
    for text in texts:
        notes += text.notes
    if from_ is not None and to is not None:
        causal = model.spec.reader.causal
        names = ("in the first text: ", "in the second text: ")
        ends = tuple(
            find_ends(Sides("self", text), from_, to, causal=causal, where=name)
            for text, name in zip(texts, names, strict=True)
        )
        changes = _of_pair(model, texts, heads, (ends[0], ends[1]))
        notes += [note for end in ends for note in end.notes]
        last = tuple(max(int(end.queries[-1]), int(end.keys[-1])) for end in ends)
        notes += _void_pair(model, texts, from_, last)
        places, embedding = None, None
        layers: tuple[LayerChange, ...] = ()
    else:
        places = _put_side_by_side(texts, heads, in_order=question == "swap")
        changes, layers, embedding = _of_rows(model, texts, heads, places)
        notes += _void_rows(model, texts, places)
        if len(places.rows) < len(places.words):
            notes.append(
                f"heads are compared on the rows of {len(places.rows)} of {len(places.words)} "
                "pairs of words, evenly spaced"
            )
    if len(texts[0].tokens) != len(texts[1].tokens) and question == "swap":
        notes.append(
            "the words have different numbers of pieces, so positions behind them differ too"
        )
    return HeadChanges(
        card=model.card(),
        question=question,
        texts=texts,
        heads=heads,
        from_=from_,
        to=to,
        top=top,
        changes=tuple(sorted(changes, key=lambda change: -change.size)[:top]),
        layers=layers,
        embedding=embedding,
        words=0 if places is None else len(places.words),
        rows=0 if places is None else len(places.rows),
        notes=tuple(dict.fromkeys(notes)),
        line=line,
    )


def _of_pair(
    model: Model, texts: tuple[Encoded, Encoded], heads: Heads, ends: tuple[Ends, Ends]
) -> list[HeadChange]:
    readings = [PairReadings(heads, end, contributions=False) for end in ends]
    _run(model, texts, [[reading] for reading in readings])
    a, b = (
        reading.merged(reading.weights, end) for reading, end in zip(readings, ends, strict=True)
    )
    return [
        HeadChange(heads.layers[i], heads.heads[j], float(a[i, j]), float(b[i, j]))
        for i, j in np.ndindex(a.shape)
    ]


def _of_rows(
    model: Model, texts: tuple[Encoded, Encoded], heads: Heads, places: _Places
) -> tuple[list[HeadChange], tuple[LayerChange, ...], float]:
    groups = [[places.units[side][pair[side]].tokens for pair in places.rows] for side in range(2)]
    kept = [
        KeptRows(heads, np.array(sorted({t for g in groups[side] for t in g})), len(text.tokens))
        for side, text in enumerate(texts)
    ]
    states = [_WordStates(model.spec.reader.n_layers, groups[side]) for side in range(2)]
    _run(model, texts, [[kept[side], states[side]] for side in range(2)])
    a, b = (_merged(kept[side], groups[side], places.units[side]) for side in range(2))
    rising = np.array(places.keys).T
    differences = b[..., rising[1]] - a[..., rising[0]]
    variation = np.abs(differences).sum(axis=-1)
    variation += a[..., places.alone[0]].sum(axis=-1) + b[..., places.alone[1]].sum(axis=-1)
    variation = variation.mean(axis=-1, dtype=np.float64) / 2
    changes = []
    for i, j in np.ndindex(variation.shape):
        row, key = np.unravel_index(np.abs(differences[i, j]).argmax(), differences.shape[2:])
        query, read = places.rows[row], places.keys[key]
        named = [
            (places.units[side][query[side]].text, places.units[side][read[side]].text)
            for side in range(2)
        ]
        weights = float(a[i, j, row, read[0]]), float(b[i, j, row, read[1]])
        changes.append(
            HeadChange(
                heads.layers[i],
                heads.heads[j],
                *weights,
                variation=float(variation[i, j]),
                words=(named[0], named[1]),
            )
        )
    moved = 1 - cosine(states[0].stacked(), states[1].stacked()).mean(axis=-1, dtype=np.float64)
    layers = tuple(
        LayerChange(
            layer,
            float(variation[i].mean()),
            heads.heads[int(variation[i].argmax())],
            float(variation[i].max()),
            float(moved[layer + 1]),
        )
        for i, layer in enumerate(heads.layers)
    )
    return changes, layers, float(moved[0])


def _run(model: Model, texts: tuple[Encoded, Encoded], observers: list[list[Observer]]) -> None:
    model.run(
        [
            reading_job(model.spec, text, watching)
            for text, watching in zip(texts, observers, strict=True)
        ]
    )


class _WordStates(Observer):
    """Keeps the states of some words, means over their pieces, [state, word, d_model]."""

    def __init__(self, n_layers: int, groups: list[tuple[int, ...]]) -> None:
        self.states = frozenset(range(n_layers + 1))
        self._groups = groups
        self._kept: list[Array] = []

    def on_state(self, index: int, state: Array) -> None:
        """Keep the words of one state."""
        words = [word_states(state[None], group)[0] for group in self._groups]
        self._kept.append(np.stack(words))

    def stacked(self) -> Float[Array, "state word d_model"]:
        """Return all states kept."""
        return np.stack(self._kept)


def _merged(
    kept: KeptRows, groups: list[tuple[int, ...]], units: list[Unit]
) -> Float[Array, "layer head word unit"]:
    """Average the rows of each word's pieces, sum the columns of each unit's."""
    rows = [kept.weights[:, :, np.searchsorted(kept.rows, group)].mean(axis=2) for group in groups]
    by_word = np.stack(rows, axis=2)
    return np.stack([by_word[..., list(unit.tokens)].sum(axis=-1) for unit in units], axis=-1)


def _put_side_by_side(texts: tuple[Encoded, Encoded], heads: Heads, *, in_order: bool) -> _Places:
    """Align words and all other units.

    Args:
        texts: the texts.
        heads: whose rows are kept.
        in_order: the texts differ word for word, so each word stands beside the one in its place.
    """
    view = View(words=True, special="fold")
    units = make_units(texts[0], view), make_units(texts[1], view)
    aligned = align([unit.text for unit in units[0]], [unit.text for unit in units[1]])
    if in_order and len(units[0]) == len(units[1]):
        aligned = [(i, i) for i in range(len(units[0]))]
    both = [(i, j) for i, j in aligned if i is not None and j is not None]
    words = [
        (i, j)
        for i, j in both
        if all(
            text.tokens[unit.tokens[0]].word is not None
            for text, unit in ((texts[0], units[0][i]), (texts[1], units[1][j]))
        )
    ]
    if not words:
        raise InputProblem("The texts share no word to compare; give texts that are alike.")
    pieces = sum(max(len(units[0][i].tokens), len(units[1][j].tokens)) for i, j in words)
    n = max(len(text.tokens) for text in texts)
    cost = len(heads.layers) * len(heads.heads) * n * -(-pieces // len(words))
    chosen = rows_within(len(words), cost, max(BUDGET, cost))
    alone_a = [i for i, j in aligned if j is None and i is not None]
    alone_b = [j for i, j in aligned if i is None and j is not None]
    rows = [words[at] for at in chosen.tolist()]
    return _Places(units, both, (alone_a, alone_b), words, rows)


def _first_difference(texts: tuple[Encoded, Encoded]) -> int:
    """Return the first token that differs, or the length of the shorter text."""
    pairs = zip(texts[0].ids, texts[1].ids, strict=False)
    shorter = min(len(text.ids) for text in texts)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), shorter)


def _void_rows(model: Model, texts: tuple[Encoded, Encoded], places: _Places) -> list[str]:
    if texts[0].ids == texts[1].ids:
        return ["both texts are the same tokens: nothing can change"]
    if not model.spec.reader.causal:
        return []
    first = _first_difference(texts)
    equal = sum(places.units[0][i].tokens[-1] < first for i, _ in places.rows)
    if not equal:
        return []
    return [
        f"this model is causal: the rows of {count(equal, 'word')} of {len(places.rows)}, before "
        "the first difference, cannot change and count as 0"
    ]


def _void_pair(
    model: Model, texts: tuple[Encoded, Encoded], from_: str, last: tuple[int, ...]
) -> list[str]:
    if texts[0].ids == texts[1].ids:
        return ["both texts are the same tokens: nothing can change"]
    if not model.spec.reader.causal or max(last) >= _first_difference(texts):
        return []
    return [
        f"this model is causal: {from_!r} stands before the first difference of the texts, so its "
        "row cannot change"
    ]
