"""attn heads with the torch engine: the same numbers, also where only scores tell windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attncli import api
from attncli.model.load import load
from tests.engine.test_torch import TEXT, TOLERANCE, written

pytestmark = [
    pytest.mark.reference,
    # torch and transformers warn about themselves
    pytest.mark.filterwarnings("default"),
]
CASES = ["bert", "gpt2", "gemma3", "gpt-oss", "mistral-window"]
QUESTIONS: dict[str, dict[str, Any]] = {
    "survey": {"probe": True},
    "link": {"from_": "w8", "to": "w9"},
    "contrast": {"contrast": "w3 w1 w7 w15 w9 w2 w6 w5 w35 w8"},
}


@pytest.fixture(autouse=True)
def _torch() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")


def numbers(question: str, record: dict[str, Any]) -> dict[tuple[int, int], dict[str, float]]:
    """Return the measures of every head."""
    rows = record[{"survey": "heads", "link": "links", "contrast": "changes"}[question]]
    return {
        (row["layer"], row["head"]): {k: v for k, v in row.items() if isinstance(v, float)}
        for row in rows
    }


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("question", QUESTIONS)
def test_every_head_has_the_numbers_of_the_other_engine(
    name: str, question: str, tmp_path: Path
) -> None:
    folder = str(written(name, tmp_path / name))
    ours, theirs = (
        numbers(
            question,
            api.heads(TEXT, load(folder, engine=engine), **QUESTIONS[question]).record(),
        )
        for engine in ("numpy", "torch")
    )
    assert set(ours) == set(theirs)
    for head, values in ours.items():
        assert len(values) >= 3
        assert theirs[head] == pytest.approx(values, abs=20 * TOLERANCE), head
