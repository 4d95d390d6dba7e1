"""heads: every head of a model characterised on one text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attncli.analyses.head_clusters import KeptRows, find_clusters, rows_to_compare
from attncli.analyses.head_measures import BY_NAME, MEASURES, Measure, find_measure
from attncli.analyses.head_probe import make_probe
from attncli.analyses.head_roles import LEAST_REPEATS, check_role, find_role
from attncli.analyses.head_stats import HeadStatistics, HeadStats
from attncli.analyses.head_survey import HeadRow, HeadSurvey, Wanted
from attncli.analyses.sides import Sides, choose_attention, stack_of
from attncli.errors import UsageProblem
from attncli.model.load import Model
from attncli.results import RANDOM_NOTE, count
from attncli.selection import Attention, Heads, Shade
from attncli.tokenize import Encoded


def survey_heads(
    model: Model,
    encoded: Encoded,
    heads: Heads,
    *,
    target: Encoded | None = None,
    attention: Attention | None = None,
    sort: str | None = None,
    roles: Sequence[str] = (),
    top: int | None = None,
    grid: str | None = None,
    shade: Shade = "linear",
    probe: bool = False,
    seed: int = 0,
    line: int | None = None,
) -> HeadSurvey:
    """Run a text through a model and gather what `attn heads` shows of every head.

    Args:
        model: what to run.
        encoded: the text as `model.encode` gives it.
        heads: chosen layers and heads.
        target: what the decoder of an encoder-decoder reads, as `model.encode_target` gives it.
        attention: which attention of an encoder-decoder; None for what suits the texts.
        sort: measure that orders the list, largest first; None: layer by layer.
        roles: list only heads of these roles; empty for all.
        top: most heads listed; None for all.
        grid: measure of the grid; None for the weight on special tokens, or on the first token
            where there are none.
        shade: how the grid is shaded where its numbers do not fit.
        probe: also run random repeats.
        seed: of the random repeats.
        line: line of a batch the text came from.

    Raises:
        UsageProblem: a measure or role that does not exist, or has no meaning here.
        InputProblem: the model takes too few tokens for random repeats.
    """
    attention = choose_attention(model, attention, has_target=target is not None)
    sides, stack = Sides(attention, encoded, target), stack_of(model.spec, attention)
    sorting = None if sort is None else find_measure(sort, "sort")
    grid_measure = None if grid is None else find_measure(grid, "grid", fraction=True)
    for role in roles:
        check_role(role)
    if probe and target is not None:
        raise UsageProblem(
            "--probe: random repeats are a text of their own, without a target; leave one out."
        )
    n_queries, n_keys = len(sides.queries.tokens), len(sides.keys.tokens)
    stats = HeadStats(heads, sides, stack, knows_windows=model.engine != "torch")
    kept = KeptRows(heads, rows_to_compare(heads, n_queries, n_keys), n_keys)
    repeats = make_probe(model, encoded, heads, seed) if probe else None
    jobs = [sides.job(model.spec, [stats, kept])]
    model.run(jobs if repeats is None else [*jobs, *repeats.jobs(model)])

    found, clusters = stats.finish(), find_clusters(kept)
    values = {**found.values, **({} if repeats is None else repeats.values())}
    for measure, option in ((sorting, "sort"), (grid_measure, "grid")):
        if measure is not None and values.get(measure.name) is None:
            raise UsageProblem(_meaningless(measure, option, sides))
    rows = []
    for i, j in np.ndindex(len(heads.layers), len(heads.heads)):
        by_name = {
            name: None if array is None else float(array[i, j]) for name, array in values.items()
        }
        rows.append(
            HeadRow(
                heads.layers[i],
                heads.heads[j],
                find_role(by_name, n_repeats=found.n_repeats),
                by_name,
                int(found.top_key[i, j]),
                float(found.top_weight[i, j]),
                None if clusters is None else int(clusters.numbers[i, j]),
            )
        )
    if grid_measure is None:
        first = "first" if values.get("first") is not None else "relative_entropy"
        default = "special" if values["special"] is not None else first
    notes = _notes(model, sides, heads, found, len(kept.rows), probed=probe)
    if roles and not any(row.role.name in roles for row in rows):
        notes = (*notes, f"no head has the role {' or '.join(roles)}")
    measure = grid_measure or BY_NAME[default]
    wanted = Wanted(sorting, tuple(roles), top, measure, grid is not None, shade)
    return HeadSurvey(
        card=model.card(decoder=target is not None),
        sides=sides,
        heads=heads,
        rows=tuple(rows),
        wanted=wanted,
        shown=_choose(rows, wanted),
        clusters=clusters,
        probe=repeats,
        uniform_sink=found.uniform_sink,
        n_repeats=found.n_repeats,
        notes=notes,
        line=line,
    )


def _choose(rows: Sequence[HeadRow], wanted: Wanted) -> tuple[int, ...]:
    """Return the places of the heads that are listed, in their order."""
    places = [
        at for at, row in enumerate(rows) if not wanted.roles or row.role.name in wanted.roles
    ]
    if wanted.sort is not None:
        name = wanted.sort.name
        places.sort(key=lambda at: -(rows[at].values[name] or 0.0))
    return tuple(places[: wanted.top])


def _meaningless(measure: Measure, option: str, sides: Sides) -> str:
    why = "this text has no token it is about"
    if measure.name.startswith("probe_"):
        why = "it is measured on random repeats; add --probe"
    elif sides.is_cross and not measure.crosses:
        why = "tokens of two texts have no common positions"
    elif measure.name == "next":
        why = "no query of a causal model, or of one token, has a next token"
    elif measure.name in ("duplicate", "induction"):
        why = "no token of this text repeats; --probe measures it on random repeats"
    return f"--{option} {measure.name}: {why}."


def _notes(
    model: Model, sides: Sides, heads: Heads, found: HeadStatistics, compared: int, *, probed: bool
) -> tuple[str, ...]:
    n = len(sides.queries.tokens)
    notes = [RANDOM_NOTE] if model.random else []
    notes += sides.source.notes
    if sides.target is not None:
        notes += [f"target: {note}" for note in sides.target.notes]
    if sides.is_cross:
        dropped = ", ".join(m.name.replace("_", " ") for m in MEASURES if not m.crosses)
        dropped = dropped.partition(", probe")[0]
        notes.append(f"tokens of two texts have no common positions: no {dropped}")
    elif model.has_sink(heads.layers):
        notes.append(
            "a learned sink takes a share of each row that no token gets: entropy and "
            "Jensen-Shannon distances are those of the rows scaled to sum to 1"
        )
    if not found.windows_known:
        notes.append(
            "keys behind a sliding window, if this model has one, count as seen: transformers does "
            "not show them in this architecture"
        )
    if not probed and not sides.is_cross and found.n_repeats < LEAST_REPEATS:
        notes.append(
            f"{count(found.n_repeats, 'token')} of this text occurred before, too few for the "
            "roles induction and duplicate; --probe measures them on random repeats"
        )
    if len(heads.layers) * len(heads.heads) > 1 and compared < n:
        said = (
            f"heads are compared on {compared} of {n:,} query rows, evenly spaced"
            if compared
            else "so many heads are not compared on a text of this length; -l and -H choose some"
        )
        notes.append(said)
    return tuple(notes)
