"""The tables of `attn heads` for one text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attncli.analyses.head_clusters import CUT
from attncli.analyses.head_measures import MEASURES, head_name
from attncli.analyses.head_roles import MIXED, ROLES, rules_used
from attncli.analyses.head_stats import EPSILON
from attncli.analyses.head_survey import HeadRow, HeadSurvey
from attncli.display import labels
from attncli.numbers import format_fraction
from attncli.results import Column, Label, Matrix, Table

ROWS_HINT = "--sort, --role, --top, -l and -H choose, -f csv has all"
GRID_HINT = "-l and -H choose, -f json has all"
SHOWN = 16
"""Heads that are listed unasked."""
SHOWN_GROUPS = 6


def tables(survey: HeadSurvey) -> list[Table | Matrix]:
    """Return the tables in reading order; only the list of heads where that was asked for."""
    several = len(survey.rows) > 1
    if survey.wanted.lists or not several:
        grid = [_grid(survey)] if survey.wanted.grid_chosen and several else []
        return [*grid, _heads(survey)]
    clusters = [] if survey.clusters is None else [_clusters(survey)]
    return [_roles(survey), _grid(survey), _sinks(survey), *clusters, _heads(survey)]


def _roles(survey: HeadSurvey) -> Table:
    rules = {rule.role: rule for rule in rules_used(probed=survey.probe is not None)}
    rows = []
    for role in ROLES:
        members = [row for row in survey.rows if row.role.name == role]
        if not members:
            continue
        text = "no rule holds"
        if role != MIXED:
            rule = rules[role]
            text = f"{rule.measure_name} {rule.sign} {format_fraction(rule.threshold, 1)}"
        rows.append((role, len(members), text, _names(members)))
    columns = [
        Column("role"),
        Column("heads", "int"),
        Column("rule", priority=60),
        Column("which", priority=70),
    ]
    title = "roles: the first rule that holds, in this order"
    return Table("roles", title, columns, rows)


def _grid(survey: HeadSurvey) -> Matrix:
    measure = survey.wanted.grid
    layers = [Label(f"L{layer}") for layer in survey.heads.layers]
    heads = [Label(f"H{head}") for head in survey.heads.heads]
    title = f"{measure.name.replace('_', ' ')} ({measure.unit})"
    return Matrix(
        "grid",
        title,
        "fraction",
        layers,
        heads,
        survey.grid(),
        hint=GRID_HINT,
        sides="rows layers, columns heads",
        shading=survey.wanted.shade,
    )


def _sinks(survey: HeadSurvey) -> Table:
    shown = labels(survey.sides.keys.tokens)
    tokens = survey.sides.keys.tokens
    columns = [
        Column("", "int"),
        Column("top key", "label"),
        Column("heads", "int"),
        Column("weight", "fraction", "mean over queries and these heads"),
    ]
    rows = [
        (key, Label(shown[key], tokens[key].special), heads, weight)
        for key, heads, weight in survey.top_keys()
    ]
    rate, uniform = format_fraction(survey.sink_rate), format_fraction(survey.uniform_sink)
    n = sum(map(survey.is_sink, survey.rows))
    title = (
        f"sinks: {n} of {len(survey.rows)} heads ({rate}) give the first token more than "
        f"{format_fraction(EPSILON, 1)} on average, a uniform head {uniform} · the token each "
        "head reads most"
    )
    important = [float(heads) for _, heads, _ in survey.top_keys()]
    which = "the most heads"
    return Table("sinks", title, columns, rows, important, which, "-f json has all", SHOWN_GROUPS)


def _clusters(survey: HeadSurvey) -> Table:
    groups = [group for group in survey.groups() if group[2] is not None]
    alone = len(survey.groups()) - len(groups)
    columns = [
        Column("cluster", "int"),
        Column("heads", "int"),
        Column("distance", "number", "nats, mean within"),
        Column("which", priority=70),
    ]
    rows = [(number, len(members), mean, _names(members)) for number, members, mean in groups]
    title = (
        f"heads that read alike: mean Jensen-Shannon distance up to {format_fraction(CUT, 1)} "
        f"nats; {alone} stand alone"
    )
    important = [float(len(members)) for _, members, _ in groups]
    hint = "-f json has all"
    return Table("clusters", title, columns, rows, important, "the most heads", hint, SHOWN_GROUPS)


def _heads(survey: HeadSurvey) -> Table:
    rows = [survey.rows[at] for at in survey.shown]
    has = [m for m in MEASURES if any(row.values.get(m.name) is not None for row in survey.rows)]
    if survey.wanted.sort in has:
        # the column the rows are sorted by stands first and stays longest
        has.sort(key=lambda measure: measure != survey.wanted.sort)
    columns = [Column("head"), Column("role", priority=95), *(m.column() for m in has)]
    if survey.wanted.sort in has:
        columns[2] = replace(columns[2], priority=99)
    if survey.clusters is not None:
        columns.append(Column("cluster", "int", priority=57))
    columns.append(Column("rule", priority=55))
    cells: list[list[Any]] = []
    for row in rows:
        values = [row.values.get(measure.name) for measure in has]
        number = [] if survey.clusters is None else [row.cluster]
        name = head_name(row.layer, row.head)
        cells.append([name, row.role.name, *values, *number, row.role.rule])
    units = "weights are means over queries, entropy in nats, distances in tokens (key - query)"
    order = "" if survey.wanted.sort is None else f", by {survey.wanted.sort.name}, largest first"
    title = f"heads{order}: {units}"
    limit = len(rows) if survey.wanted.top is not None else 0
    if not survey.wanted.lists:
        important = _clearest(rows)
        which = "the clearest of each role"
        return Table("heads", title, columns, cells, important, which, ROWS_HINT, SHOWN)
    return Table("heads", title, columns, cells, hint=ROWS_HINT, limit=limit)


def _clearest(rows: Sequence[HeadRow]) -> list[float]:
    """Put the clearest head of every role first, then the second of every role, and so on."""
    thresholds = {rule.role: rule.threshold for rule in rules_used(probed=False)}
    past = [
        (row.role.value - thresholds[row.role.name]) / (1 - thresholds[row.role.name])
        if row.role.name != MIXED
        else -float(len(rows))
        for row in rows
    ]
    ranks: dict[str, int] = {}
    important = [0.0] * len(rows)
    for at in sorted(range(len(rows)), key=lambda at: -past[at]):
        rank = ranks[rows[at].role.name] = ranks.get(rows[at].role.name, -1) + 1
        important[at] = past[at] - rank
    return important


def _names(members: Sequence[HeadRow]) -> str:
    return ", ".join(head_name(row.layer, row.head) for row in members)
