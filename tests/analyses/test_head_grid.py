"""The grid of layers and heads."""

from __future__ import annotations

import pytest

from attncli import api
from attncli.model.load import Model
from attncli.results import Matrix

TEXT = "The quick brown fox jumps over the lazy dog."


def grid(model: Model, **choice) -> Matrix:
    tables = api.heads(TEXT, model, **choice).tables()
    (found,) = [table for table in tables if isinstance(table, Matrix)]
    return found


def test_every_cell_is_the_measure_of_its_head(minilm: Model) -> None:
    shown = grid(minilm, grid="previous", layer="0-1", head="2-4")
    entries = api.heads(TEXT, minilm, layer="0-1", head="2-4").record()["heads"]
    by_place = {(entry["layer"], entry["head"]): entry["previous"] for entry in entries}
    assert [label.text for label in shown.queries] == ["L0", "L1"]
    assert [label.text for label in shown.keys] == ["H2", "H3", "H4"]
    for row, layer in enumerate((0, 1)):
        for column, head in enumerate((2, 3, 4)):
            assert shown.values[row, column] == pytest.approx(by_place[layer, head], abs=1e-6)


def test_shades_follow_numbers_as_asked(minilm: Model) -> None:
    assert grid(minilm).shading == "linear"
    assert grid(minilm, shade="log").shading == "log"
