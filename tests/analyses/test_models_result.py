"""models info: what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from attncli.analyses.models import describe_model, size
from attncli.model.load import load


def test_facts_of_a_small_checkpoint(bert_folder: Path) -> None:
    info = describe_model(load(str(bert_folder)))
    facts = info.facts
    assert facts["width of a head"] == 4
    assert facts["scale of q·k"] == 0.5
    assert facts["most tokens of a text"] == 9
    assert facts["norms in a block"] == "attn_residual, ffn_residual"
    # embeddings (10 + 9 + 2) · 12 and a norm; two layers of 4 · (12² + 12) + 2 · 12 · 20 + 32 + 48
    assert facts["parameters"] == 21 * 12 + 24 + 2 * (4 * (144 + 12) + 480 + 32 + 48)
    stored = [row for row in info.tensors if row.name == "1.ffn.up.weight"]
    assert [(row.tensor, row.shape, row.n_bytes) for row in stored] == [
        ("encoder.layer.1.intermediate.dense.weight", (20, 12), 960)
    ]


def test_table_shows_the_first_layer_for_all(bert_folder: Path) -> None:
    info = describe_model(load(str(bert_folder)))
    shown = [row[0] for row in info.tables()[1].rows]
    assert "0.attn.q.weight" in shown
    assert not any(name.startswith("1.") for name in shown)
    assert len(info.tidy().rows) == len(info.tensors) > len(shown)


@pytest.mark.parametrize(
    ("n_bytes", "written"),
    [(0, "0.0 MiB"), (1 << 20, "1.0 MiB"), (1000 << 20, "1000.0 MiB"), (3 << 29, "1.5 GiB")],
)
def test_sizes_for_people(n_bytes: int, written: str) -> None:
    assert size(n_bytes) == written
