"""The same comparison with torch and transformers running beside us, on a written checkpoint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attncli.model.disentangled import log_bucket
from attncli.model.load import load
from attncli.model.position import bucket
from attncli.model.spec import BucketSpec, DisentangledSpec
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
    model = load(str(reference.write_checkpoint(theirs, tmp_path)))
    expected = reference.run(theirs, case.ids)
    found = record(model.spec, model.params, case.ids)
    assert_same(case.name, expected, found)
    # no tautology: our run formed its own scores, one block or more a layer
    assert found.blocks >= model.spec.stack.n_layers


@pytest.mark.parametrize("n_buckets", [4, 6, 32, 256, 512])
@pytest.mark.parametrize("n_positions", [512, 768, 1024, 4096])
def test_log_buckets_equal_those_of_transformers(n_buckets: int, n_positions: int) -> None:
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2")
    distances = np.arange(-5000, 5001)
    expected = theirs.make_log_bucket_position(torch.tensor(distances), n_buckets, n_positions)
    spec = DisentangledSpec(
        n_positions, n_buckets, content_to_position=True, position_to_content=True
    )
    np.testing.assert_array_equal(log_bucket(distances, spec), expected.long().numpy())


def test_distance_buckets_equal_those_of_transformers() -> None:
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("transformers.models.mpnet.modeling_mpnet").MPNetEncoder
    offsets = np.arange(-600, 601)
    expected = theirs.relative_position_bucket(torch.tensor(offsets)).numpy()
    found = bucket(offsets, BucketSpec(32, 128), both_ways=True)
    np.testing.assert_array_equal(found, expected)


def test_golden_file_is_what_this_transformers_computes(case: Case) -> None:
    from tests.parity import reference

    golden, theirs = read_golden(case.name), reference.build(case)
    for name, values in reference.parameters(theirs).items():
        if name in golden.tensors:
            np.testing.assert_array_equal(values, golden.tensors[name], err_msg=name)
    expected = reference.run(theirs, tuple(golden.ids))
    np.testing.assert_allclose(golden.weights, expected.weights, atol=1e-6)
    np.testing.assert_allclose(golden.resid, expected.resid, atol=1e-5)
