"""compare: how the meaning of a word, and what it reads, differs between contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attncli._shapes import Float
from attncli.analyses.alignment import changes_between, readings_of, side_by_side
from attncli.analyses.baseline import top_dimension_share
from attncli.analyses.columns import choose_state, state_names
from attncli.analyses.comparison import Comparison
from attncli.analyses.comparison_notes import left_out, word_notes
from attncli.analyses.comparison_parts import Anchor, Change, Occurrence, Pair
from attncli.analyses.gather import Gathered, gather
from attncli.analyses.neighbours import MAX_OCCURRENCES, neighbours
from attncli.analyses.occurrences import (
    count_pairs,
    encode_anchor,
    groups_of,
    occurrences_of,
    pairs_of,
)
from attncli.analyses.reduction import cosine
from attncli.analyses.similarity import Similarity, cosine_matrix, group_similarities
from attncli.errors import InputProblem, UsageProblem
from attncli.model.load import Model
from attncli.results import RANDOM_NOTE
from attncli.selection import Heads, View
from attncli.tokenize import Encoded

Array = np.ndarray

MAX_PAIRS = 100_000
"""Pairs that are listed one by one; with more, and in matrices of more, they are left out."""
MAX_CHANGED = 1_000
"""Pairs for which the keys that changed are worked out; with more they are left out."""
LEAST_MATRIX = 3
"""Occurrences that make a matrix of similarities; two are a pair."""
NOT_CONTRIBUTED = (
    "contributions are left out: transformers does not show what they are made of in this "
    "architecture"
)


def compare_texts(
    model: Model,
    texts: Sequence[Encoded],
    heads: Heads,
    view: View,
    *,
    word: str | None = None,
    to: Sequence[str] = (),
    state: str | None = None,
    n_neighbours: int | None = None,
    centred: bool = False,
) -> Comparison:
    """Run all texts and anchors and compare a word's occurrences.

    Args:
        model: what to run.
        texts: encoded texts.
        heads: layers and heads whose attention from the word is compared.
        view: measure that orders the keys that changed.
        word: the word to follow; None for every word that occurs at least twice.
        to: anchors, each a word alone or `WORD: a sentence holding it`.
        state: state whose matrix of similarities is made, as `choose_state` reads it; None for the
            last.
        n_neighbours: tokens of the vocabulary listed for each occurrence and state; None for none.
        centred: subtract the mean vector of the sample's words before every cosine.

    Raises:
        InputProblem: fewer than two occurrences and no anchor; more than are listed neighbours of.
        UsageProblem: an anchor whose sentence does not hold its word; a state that is not there.
    """
    if n_neighbours is not None and n_neighbours < 1:
        raise UsageProblem(f"--neighbours {n_neighbours}: expected 1 or more.")
    n_layers = model.spec.reader.n_layers
    chosen = choose_state("-1" if state is None else state, n_layers)
    occurrences = occurrences_of(texts, word, at_least=1 if to else 2)
    if n_neighbours and len(occurrences) > MAX_OCCURRENCES:
        raise InputProblem(
            f"--neighbours {n_neighbours}: {len(occurrences):,} occurrences, expected at most "
            f"{MAX_OCCURRENCES:,}; give fewer texts, or name a rarer word."
        )
    groups = groups_of(occurrences)
    n_pairs = count_pairs(groups)
    pairs = list(pairs_of(groups)) if n_pairs <= MAX_PAIRS else []
    changing = pairs if n_pairs <= MAX_CHANGED else []
    gathered = gather(
        model,
        texts,
        occurrences,
        [encode_anchor(model, anchor) for anchor in to],
        reading=heads if changing else None,
        by=view.by,
        whole=len(texts) == 2,
    )
    centre = gathered.baseline.mean() if centred else None
    if centred and centre is None:
        raise InputProblem(
            f"--centred: the vocabulary of {model.name} does not tell the words of the sample "
            "apart, so there is no mean to subtract; leave it out."
        )
    baseline = gathered.baseline.cosines(centre)
    vectors, beside, whole = _centred(gathered, centre)
    lost = any(reader.reduction.contributions is None for reader in gathered.readers)
    view = replace(view, by="weight") if lost and view.by == "contribution" else view
    made = _has_matrix(occurrences, groups, asked=state is not None)
    notes = [
        *([RANDOM_NOTE] if model.random else []),
        *word_notes(model, texts, occurrences, word),
        *([NOT_CONTRIBUTED] if lost else []),
        *left_out(n_pairs, MAX_PAIRS, MAX_CHANGED),
        *_matrix_notes(occurrences, asked=state is not None),
        *([heads_note] if changing and (heads_note := _merged(model, heads)) else []),
        *([_of_neighbours(centred=centred)] if n_neighbours else []),
    ]
    return Comparison(
        card=model.card(),
        texts=tuple(texts),
        heads=heads,
        view=view,
        words=tuple(dict.fromkeys([word] if word else [o.word.casefold() for o in occurrences])),
        occurrences=tuple(occurrences),
        pairs=tuple(_pair(a, b, vectors, baseline) for a, b in pairs),
        baseline=baseline,
        self_similarity=group_similarities(
            [o.word for o in occurrences], groups, vectors, baseline
        ),
        similarity=Similarity(
            chosen, state_names(n_layers)[chosen], cosine_matrix(vectors[:, chosen])
        )
        if made
        else None,
        anchors=tuple(
            Anchor(name, cosine(vectors, vector[None]))
            for name, vector in zip(to, beside, strict=True)
        ),
        changed=_changes(texts, occurrences, gathered, changing),
        aligned=side_by_side(texts, whole) if whole else (),
        neighbours=neighbours(model, gathered.vectors, n_neighbours) if n_neighbours else (),
        states=gathered.vectors,
        centre=centre,
        notes=tuple(dict.fromkeys(notes)),
    )


def _centred(
    gathered: Gathered, centre: Float[Array, "state d_model"] | None
) -> tuple[Array, Array, list[Array]]:
    """Return all vectors that are compared, without what they share if so wished."""
    vectors, anchors, whole = gathered.vectors, gathered.anchors, list(gathered.whole)
    if centre is None:
        return vectors, anchors, whole
    return vectors - centre, anchors - centre, [states - centre[:, None] for states in whole]


def _pair(a: int, b: int, vectors: Array, baseline: Array | None) -> Pair:
    share = top_dimension_share(vectors[a], vectors[b])
    return Pair(a, b, cosine(vectors[a], vectors[b]), baseline, share)


def _changes(
    texts: Sequence[Encoded],
    occurrences: Sequence[Occurrence],
    gathered: Gathered,
    pairs: Sequence[tuple[int, int]],
) -> tuple[tuple[Change, ...], ...]:
    readings = [
        readings_of(texts[o.text], reader)
        for o, reader in zip(occurrences[: len(gathered.readers)], gathered.readers, strict=True)
    ]
    return tuple(
        changes_between(texts, occurrences[a], readings[a], occurrences[b], readings[b])
        for a, b in pairs
    )


def _has_matrix(
    occurrences: Sequence[Occurrence], groups: Sequence[Sequence[int]], *, asked: bool
) -> bool:
    """One word's places make a matrix; those of several words do when a state was named."""
    n = len(occurrences)
    return n >= LEAST_MATRIX and n * (n - 1) // 2 <= MAX_PAIRS and (asked or len(groups) == 1)


def _matrix_notes(occurrences: Sequence[Occurrence], *, asked: bool) -> list[str]:
    n = len(occurrences)
    if asked and n < LEAST_MATRIX:
        return [f"a matrix of similarities needs {LEAST_MATRIX} occurrences, here are {n}"]
    if asked and n * (n - 1) // 2 > MAX_PAIRS:
        return [f"the matrix of {n:,} × {n:,} similarities is left out"]
    return []


def _merged(model: Model, heads: Heads) -> str:
    """Say that several heads are merged where some were chosen."""
    stack = model.spec.reader
    n_heads = len(heads.layers) * len(heads.heads)
    if n_heads == 1 or n_heads == stack.n_layers * stack.n_heads:
        return ""
    shown = heads.describe(stack.n_layers, stack.n_heads)
    return f"what the word reads is the {shown}: {n_heads} heads in one; -H LAYER.HEAD shows one"


def _of_neighbours(*, centred: bool) -> str:
    note = (
        "nearest tokens: by cosine to rows of the input embedding, which hold no position and no "
        "norm; later states need not lie in that space"
    )
    return f"{note}; nothing is subtracted there" if centred else note
