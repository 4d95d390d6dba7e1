"""The result of `attn heads` for one text: every head characterised, ready for any format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attncli.analyses.head_clusters import CUT, Clusters
from attncli.analyses.head_measures import MEASURES, Measure, describe_choice
from attncli.analyses.head_probe import Probe
from attncli.analyses.head_roles import ROLES, Role, rules_used
from attncli.analyses.head_stats import EPSILON
from attncli.analyses.sides import Sides
from attncli.numbers import to_json
from attncli.results import Column, Matrix, ModelCard, Table, count, document, text_record
from attncli.selection import Heads, Shade

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class HeadRow:
    """One head."""

    layer: int
    head: int
    role: Role
    values: Mapping[str, float | None]
    """Measure to value; None where the text or model gives it no meaning."""
    top_key: int
    """Token index of the key with the largest average weight."""
    top_weight: float
    cluster: int | None
    """None where no clusters were made."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which heads are listed, in which order, and what the grid shows."""

    sort: Measure | None
    """Largest first; None: layer by layer."""
    roles: tuple[str, ...]
    """Empty for all."""
    top: int | None
    """Most heads listed."""
    grid: Measure
    grid_chosen: bool
    """The grid was asked for."""
    shade: Shade = "linear"
    """How the grid is shaded."""

    @property
    def lists(self) -> bool:
        """True when the list of heads is what was asked for."""
        return self.sort is not None or bool(self.roles) or self.top is not None


@dataclass(frozen=True, slots=True)
class HeadSurvey:
    """The result of `attn heads` for one text, or one source and its target."""

    card: ModelCard
    sides: Sides
    heads: Heads
    rows: tuple[HeadRow, ...]
    """All chosen heads, layer by layer."""
    wanted: Wanted
    shown: tuple[int, ...]
    """Places in `rows` of the heads that are listed, in their order."""
    clusters: Clusters | None
    probe: Probe | None
    uniform_sink: float
    n_repeats: int
    notes: tuple[str, ...]
    line: int | None = None

    @property
    def random(self) -> bool:
        """True when the weights mean nothing."""
        return self.card.random

    @property
    def sink_rate(self) -> float:
        """Share of the chosen heads whose average on the first token is above EPSILON."""
        return sum(self.is_sink(row) for row in self.rows) / len(self.rows)

    def is_sink(self, row: HeadRow) -> bool:
        """Tell whether a head's average weight on the first token is above EPSILON."""
        return (row.values["sink"] or 0.0) > EPSILON

    def grid(self) -> Array:
        """Return the measure of the grid, [layer, head]; -inf where it has no meaning."""
        found = [row.values.get(self.wanted.grid.name) for row in self.rows]
        values = np.array([-np.inf if value is None else value for value in found])
        return values.reshape(len(self.heads.layers), len(self.heads.heads))

    def headline(self) -> str:
        """Say in one line which model read what, and which heads are looked at."""
        n = len(self.sides.queries.tokens)
        tokens = count(n, "token" if self.sides.target is None else "target token")
        card = self.card.headline(reads_source=self.sides.is_cross)
        return f"{card} · {tokens} · {describe_choice(self.heads, self.card)}"

    def record(self) -> dict[str, Any]:
        """Return the JSON document (schema attn.heads)."""
        sort = self.wanted.sort
        target = self.sides.target
        return {
            **document("heads", self.card),
            **({} if self.line is None else {"line": self.line}),
            "question": "survey",
            **text_record(self.sides.source),
            "target": None if target is None else text_record(target),
            "selection": {
                "attention": self.sides.attention,
                "layers": list(self.heads.layers),
                "heads": list(self.heads.heads),
                "sort": None if sort is None else sort.name,
                "roles": list(self.wanted.roles),
                "top": self.wanted.top,
                "grid": self.wanted.grid.name,
            },
            "rules": [rule.record() for rule in rules_used(probed=self.probe is not None)],
            "roles": [
                {"role": role, "heads": sum(row.role.name == role for row in self.rows)}
                for role in ROLES
            ],
            "heads": [self._row_record(self.rows[at]) for at in self.shown],
            "grid": to_json(self.grid()),
            "sinks": self._sinks_record(),
            "clusters": self._clusters_record(),
            "probe": self._probe_record(),
            "repeated": self.n_repeats,
            "notes": list(self.notes),
        }

    def tables(self) -> list[Table | Matrix]:
        """Return what people read: roles, a grid, sinks, clusters, and the heads."""
        from attncli.analyses.head_survey_tables import tables

        return tables(self)

    def tidy(self) -> Table:
        """Return one line a head."""
        columns = [
            *(Column("layer", "int"), Column("head", "int"), Column("role"), Column("rule")),
            *(Column(measure.name, measure.kind, measure.unit) for measure in MEASURES),
            *(Column("top_key", "int"), Column("top_key_text"), Column("top_weight", "fraction")),
            Column("cluster", "int"),
        ]
        rows = []
        for row in (self.rows[at] for at in self.shown):
            values = [row.values.get(measure.name) for measure in MEASURES]
            key = self.sides.keys.tokens[row.top_key].token
            who = (row.layer, row.head, row.role.name, row.role.rule)
            rows.append((*who, *values, row.top_key, key, row.top_weight, row.cluster))
        return Table("heads", "", columns, rows)

    def arrays(self) -> dict[str, Array]:
        """Return every measure as [layer, head] of the chosen heads, and their distances."""
        shape = (len(self.heads.layers), len(self.heads.heads))
        found: dict[str, Array] = {
            "layers": np.array(self.heads.layers),
            "heads": np.array(self.heads.heads),
            "role": np.array([row.role.name for row in self.rows]).reshape(shape),
            "top_key": np.array([row.top_key for row in self.rows]).reshape(shape),
            "top_weight": np.array([row.top_weight for row in self.rows]).reshape(shape),
            "random": np.array(self.card.random),
        }
        for measure in MEASURES:
            values = [row.values.get(measure.name) for row in self.rows]
            if values[0] is not None:
                found[measure.name] = np.array(values, np.float64).reshape(shape)
        if self.clusters is not None:
            found["cluster"] = self.clusters.numbers
            found["distances"] = self.clusters.distances
        return found

    def top_keys(self) -> list[tuple[int, int, float]]:
        """Return the keys that are the top one of a head: key, heads, mean of their averages."""
        by_key: dict[int, list[float]] = {}
        for row in self.rows:
            by_key.setdefault(row.top_key, []).append(row.top_weight)
        found = [(key, len(all_), float(np.mean(all_))) for key, all_ in by_key.items()]
        return sorted(found, key=lambda entry: (-entry[1], entry[0]))

    def groups(self) -> list[tuple[int, list[HeadRow], float | None]]:
        """Return the clusters: number, heads, mean distance between them (None for one head)."""
        if self.clusters is None:
            return []
        numbers = self.clusters.numbers.ravel()
        found = []
        for number in range(numbers.max() + 1):
            places = np.flatnonzero(numbers == number)
            between = self.clusters.distances[np.ix_(places, places)]
            pairs = between[np.triu_indices(len(places), 1)]
            members = [self.rows[at] for at in places]
            found.append((number, members, float(pairs.mean()) if len(pairs) else None))
        return found

    def _row_record(self, row: HeadRow) -> dict[str, Any]:
        values = {measure.name: row.values.get(measure.name) for measure in MEASURES}
        return {
            "layer": row.layer,
            "head": row.head,
            "role": row.role.name,
            "rule": row.role.rule,
            **{name: None if value is None else to_json(value) for name, value in values.items()},
            "top_key": self._key_record(row.top_key, row.top_weight),
            "cluster": row.cluster,
        }

    def _key_record(self, key: int, weight: float) -> dict[str, Any]:
        token = self.sides.keys.tokens[key]
        text = token.token if token.special else token.text
        return {"key": key, "text": text, "weight": to_json(weight)}

    def _sinks_record(self) -> dict[str, Any]:
        return {
            "epsilon": EPSILON,
            "rate": to_json(self.sink_rate),
            "heads": sum(map(self.is_sink, self.rows)),
            "uniform": to_json(self.uniform_sink),
            "top_keys": [
                {**self._key_record(key, weight), "heads": heads}
                for key, heads, weight in self.top_keys()
            ],
        }

    def _clusters_record(self) -> dict[str, Any] | None:
        if self.clusters is None:
            return None
        return {
            "cut": CUT,
            "rows": self.clusters.rows,
            "groups": [
                {
                    "cluster": number,
                    "heads": [[row.layer, row.head] for row in members],
                    "distance": None if distance is None else to_json(distance),
                }
                for number, members, distance in self.groups()
            ],
        }

    def _probe_record(self) -> dict[str, Any] | None:
        if self.probe is None:
            return None
        return {
            "seed": self.probe.seed,
            "block": self.probe.block,
            "sequences": [list(ids) for ids in self.probe.sequences],
        }
