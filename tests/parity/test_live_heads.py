"""Every output head, tied and untied, against transformers running beside us."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attncli.model.head import find_head
from attncli.model.load import load
from tests.parity.heads import (
    HEADS,
    LIVE,
    HeadCase,
    difference,
    logits_of,
    read_golden_head,
    run_head,
)
from tests.toys import record

pytestmark = [
    pytest.mark.reference,
    # torch and transformers warn about themselves
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture(params=LIVE, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> HeadCase:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    return request.param


def test_logits_of_a_written_checkpoint_equal_those_of_transformers(
    case: HeadCase, tmp_path: Path
) -> None:
    from tests.parity import reference, reference_heads

    expected = reference_heads.run(case)
    assert difference(expected.logits, run_head(expected)) <= 1
    theirs = reference_heads.build(case)
    model = load(str(reference.write_checkpoint(theirs, tmp_path, case.unwritten)))
    head = find_head(model.params)
    assert head is not None
    states = record(model.spec, model.params, expected.ids, expected.source).resid[-1]
    assert difference(expected.logits, logits_of(head, states)) <= 1


@pytest.mark.parametrize("golden", HEADS, ids=lambda case: case.name)
def test_golden_head_is_what_this_transformers_computes(golden: HeadCase) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tests.parity import reference_heads

    frozen, live = read_golden_head(golden.name), reference_heads.run(golden)
    assert frozen.config == live.config
    assert {n: v.shape for n, v in frozen.tensors.items()} == {
        n: v.shape for n, v in live.tensors.items()
    }
    np.testing.assert_allclose(frozen.logits, live.logits, atol=1e-5)
