"""The same comparison with torch and transformers running beside us, on a written checkpoint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attncli.model.load import load
from tests.parity.cases import CASES, Case
from tests.parity.comparison import assert_same, read_golden
from tests.toys import record

pytestmark = [
    pytest.mark.reference,
    # torch and transformers warn about themselves
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    return request.param


def test_checkpoint_written_by_transformers_loads_and_equals_it(case: Case, tmp_path: Path) -> None:
    from tests.parity import reference

    theirs = reference.build(case, seed=1)
    model = load(str(reference.write_checkpoint(theirs, tmp_path, case.unwritten)))
    expected = reference.run(theirs, case.ids, case.source)
    found = record(model.spec, model.params, case.ids, case.source)
    assert_same(case.name, expected, found)
    # no tautology: our run formed its own scores, one block or more a layer
    assert found.blocks >= model.spec.stack.n_layers


def test_golden_file_is_what_this_transformers_computes(case: Case) -> None:
    from tests.parity import reference

    golden, theirs = read_golden(case.name), reference.build(case)
    for name, values in reference.parameters(theirs).items():
        if name in golden.tensors:
            np.testing.assert_array_equal(values, golden.tensors[name], err_msg=name)
    expected = reference.run(theirs, tuple(golden.ids), tuple(golden.source))
    np.testing.assert_allclose(golden.weights, expected.weights, atol=1e-6)
    np.testing.assert_allclose(golden.resid, expected.resid, atol=1e-5)
    for part in ("encoder", "cross"):
        frozen, live = getattr(golden, part), getattr(expected, part)
        assert (frozen is None) == (live is None)
        if frozen is not None:
            np.testing.assert_allclose(frozen.weights, live.weights, atol=1e-6)
            np.testing.assert_allclose(frozen.resid, live.resid, atol=1e-5)
