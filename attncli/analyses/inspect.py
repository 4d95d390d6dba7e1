"""inspect: how a model reads a text. Weights, contributions, top keys, telling heads, shift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attncli import memory
from attncli.analyses.excess import Excess, Telling
from attncli.analyses.inspect_notes import question_notes, reading_notes
from attncli.analyses.inspection import Inspection, QueryRow, TopKey
from attncli.analyses.measures import start_measuring, uniform_weights
from attncli.analyses.reduction import HeadMatrices, Reduction, States, cosine
from attncli.analyses.sides import Sides, choose_attention, stack_of
from attncli.analyses.units import (
    Unit,
    make_units,
    merge_keys,
    merge_queries,
    renormalise,
)
from attncli.errors import InputProblem, UsageProblem
from attncli.model.load import Model
from attncli.model.observe import Observer
from attncli.model.spec import StackSpec
from attncli.selection import Attention, Heads, View, find_tokens
from attncli.tokenize import Encoded

Array = np.ndarray


def inspect_text(
    model: Model,
    encoded: Encoded,
    heads: Heads,
    view: View,
    *,
    target: Encoded | None = None,
    attention: Attention | None = None,
    query: Sequence[str] = (),
    key: Sequence[str] = (),
    every_head: bool = False,
    line: int | None = None,
) -> Inspection:
    """Run a text through a model and gather what `attn inspect` shows.

    Args:
        model: what to run.
        encoded: the text as `model.encode` gives it.
        heads: chosen layers and heads.
        view: measure, special tokens, words, length of the top lists.
        target: what the decoder of an encoder-decoder reads, as `model.encode_target` gives it.
        attention: which attention of an encoder-decoder; None for what suits the texts.
        query: words or token indexes that become rows; empty for all.
        key: words or token indexes that become columns; empty for all.
        every_head: keep the matrices of every chosen head too, [layer, head, query, key].
        line: line of a batch the text came from.

    Raises:
        UsageProblem: a query or key that is not in its text, or that `view` hides; an attention
            that the model has not.
        InputProblem: `view` hides all that a text has.
    """
    attention = choose_attention(model, attention, has_target=target is not None)
    sides, stack = Sides(attention, encoded, target), stack_of(model.spec, attention)
    n_queries, n_keys = len(sides.queries.tokens), len(sides.keys.tokens)
    query_units, key_units = make_units(sides.queries, view), make_units(sides.keys, view)
    if not query_units or not key_units:
        raise InputProblem("Only special tokens, and they are hidden; use --special show.")
    queries = _choose(sides.queries, query_units, query, "query")
    keys = _choose(sides.keys, key_units, key, "key")
    rows = np.array(
        sorted({token for i in queries for token in query_units[i].tokens}), dtype=np.int64
    )
    _check_memory(stack, heads, view, (len(rows), n_queries, n_keys), every_head=every_head)
    ordinary = np.array([not token.special for token in sides.keys.tokens])
    reduction, states = Reduction(heads, rows, n_keys), States(stack.n_layers)
    observers: list[Observer] = [reduction, states]
    # distances between tokens have a meaning within one text only
    excess = None if sides.is_cross else Excess(heads, ordinary, causal=stack.causal)
    matrices = HeadMatrices(heads, n_queries, n_keys) if every_head else None
    measuring = start_measuring(view.by, model, stack, heads, rows, n_keys, cross=sides.is_cross)
    observers += [observer for observer in (excess, matrices) if observer is not None]
    observers += [] if measuring is None else [measuring.observer]
    model.run([sides.job(model.spec, observers)])

    shares = reduction.contributions
    if shares is None and view.by == "contribution":
        # the other measure orders what cannot be ordered by this one
        view = replace(view, by="weight")
    shown_units = [query_units[i] for i in queries]
    largest = heads.reduce == "max" and not heads.single
    on_special = reduction.weights[:, ~ordinary]
    on_special = on_special.max(axis=1, initial=0.0) if largest else on_special.sum(axis=1)
    special_weight = merge_queries(on_special[:, None], rows.tolist(), shown_units)

    def merged(values: Array) -> Array:
        found = merge_queries(merge_keys(values, key_units), rows.tolist(), shown_units)
        return renormalise(found) if view.special == "hide" and not largest else found

    weights = merged(reduction.weights)
    contributions = None if shares is None else merged(shares)
    measure = None if measuring is None else merged(measuring.shares())
    # another engine does not tell the windows of its layers
    uniform = None
    if model.engine == "numpy":
        uniform = uniform_weights(stack, heads.layers, n_keys, cross=sides.is_cross)
    plain = not view.words and view.special != "fold"
    scores = None
    if reduction.scores is not None and plain:
        places = [unit.tokens[0] for unit in key_units]
        scores = reduction.scores[:, places][:, list(keys)]
    not_shown = ["contributions"] * (shares is None)
    not_shown += ["scores"] * (heads.single and plain and scores is None)
    has_sink = not sides.is_cross and model.has_sink(heads.layers)
    tellings = (
        [None] * len(shown_units) if excess is None else _tellings(excess, shown_units, key_units)
    )
    stacked = states.stacked()
    result_rows = tuple(
        _query_row(
            unit,
            weights[i],
            None if contributions is None else contributions[i],
            None if measure is None else measure[i],
            key_units,
            keys,
            view,
            float(special_weight[i, 0]),
            tellings[i],
            None if uniform is None else sum(map(uniform, unit.tokens)) / len(unit.tokens),
        )
        for i, unit in enumerate(shown_units)
    )
    return Inspection(
        card=model.card(decoder=target is not None),
        sides=sides,
        heads=heads,
        view=view,
        query_units=tuple(query_units),
        key_units=tuple(key_units),
        queries=queries,
        keys=keys,
        weights=weights[:, list(keys)],
        contributions=None if contributions is None else contributions[:, list(keys)],
        scores=scores,
        measure=None if measure is None else measure[:, list(keys)],
        rows=result_rows,
        shift=cosine(stacked, stacked[:1]).T,
        notes=reading_notes(
            model,
            question_notes(
                sides,
                heads,
                view,
                (query, key),
                (shown_units, [key_units[i] for i in keys]),
                causal=stack.causal,
            ),
            sides,
            view,
            rescaled=not largest,
            scores_lost=reduction.scores is not None and not plain,
            not_shown=not_shown,
            has_sink=has_sink,
            units=query_units,
        ),
        has_sink=has_sink,
        line=line,
        by_head={}
        if matrices is None
        else {
            name: values
            for name, values in (
                ("weights", matrices.weights),
                ("scores", matrices.scores),
                ("contributions", matrices.contributions),
            )
            if values is not None
        },
    )


def _check_memory(
    stack: StackSpec, heads: Heads, view: View, sizes: tuple[int, int, int], *, every_head: bool
) -> None:
    """Refuse what would not fit before anything is computed."""
    n_rows, n_queries, n_keys = sizes
    # weights, contributions and scores; a rollout multiplies whole matrices
    numbers = 3 * n_rows * n_keys
    numbers += 5 * n_keys * n_keys if view.by == "rollout" else 0
    numbers += 2 * (stack.n_layers + 1) * n_queries * stack.d_model
    way = "choose rows with --query, or use attn heads, which keeps no matrix"
    if every_head:
        numbers += 3 * len(heads.layers) * len(heads.heads) * n_queries * n_keys
        way = "choose fewer heads with --layer and --head, or another format than npz"
    memory.check(4 * numbers, f"The matrices of {n_queries:,} × {n_keys:,} tokens", way)


def _choose(
    encoded: Encoded, units: Sequence[Unit], wanted: Sequence[str], option: str
) -> tuple[int, ...]:
    """Return the units that --query or --key name, in reading order; all when none is named."""
    if not wanted:
        return tuple(range(len(units)))
    owner = {token: unit.index for unit in units for token in unit.tokens}
    chosen = set()
    for name in wanted:
        for token in find_tokens(encoded, name, option):
            if token not in owner:
                raise UsageProblem(f"--{option} {name}: this token is hidden; use --special show.")
            chosen.add(owner[token])
    return tuple(sorted(chosen))


def _tellings(excess: Excess, rows: Sequence[Unit], units: Sequence[Unit]) -> list[Telling | None]:
    """Return the most telling head of each row: the best of its tokens, its key a unit."""
    members = [(token, row) for row in rows for token in row.tokens]
    found = excess.telling([token for token, _ in members], [row.tokens for _, row in members])
    owner = {token: unit.index for unit in units for token in unit.tokens}
    best: dict[int, Telling] = {}
    for (_, row), telling in zip(members, found, strict=True):
        leading = best.get(row.index)
        if telling is not None and (leading is None or telling.excess > leading.excess):
            best[row.index] = telling
    return [
        replace(best[row.index], key=owner[best[row.index].key]) if row.index in best else None
        for row in rows
    ]


def _query_row(
    unit: Unit,
    weights: Array,
    contributions: Array | None,
    measure: Array | None,
    units: Sequence[Unit],
    keys: Sequence[int],
    view: View,
    special_weight: float,
    telling: Telling | None,
    uniform: float | None,
) -> QueryRow:
    ordinary = np.array([i for i in keys if not units[i].special], dtype=np.int64)

    def top(values: Array) -> tuple[TopKey, ...]:
        order = ordinary[np.argsort(-values[ordinary], kind="stable")][: view.top]
        return tuple(
            TopKey(
                units[i],
                float(weights[i]),
                None if contributions is None else float(contributions[i]),
                None if measure is None else float(measure[i]),
            )
            for i in order.tolist()
            if values[i] > 0
        )

    by_contribution = () if contributions is None else top(contributions)
    by_measure = () if measure is None else top(measure)
    return QueryRow(
        unit, by_contribution, top(weights), special_weight, telling, uniform, by_measure
    )
