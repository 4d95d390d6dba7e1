"""Every golden case, and the bundled model, against what transformers computed."""

from __future__ import annotations

import numpy as np
import pytest

from attncli.model.load import Model
from tests.parity.cases import CASES
from tests.parity.comparison import GOLDEN, assert_same, read_golden, run_golden
from tests.real import SENTENCE
from tests.toys import record


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_every_layer_equals_transformers(name: str) -> None:
    golden = read_golden(name)
    assert_same(name, golden, run_golden(golden))


def test_golden_files_and_cases_belong_together() -> None:
    real = {"minilm", "minilm-pair", "real-mpnet"}
    assert {path.stem for path in GOLDEN.glob("*.npz")} == {case.name for case in CASES} | real


def test_bundled_model_stays_within_its_packing_error_of_the_original(minilm: Model) -> None:
    with np.load(GOLDEN / "minilm.npz") as arrays:
        ids, weights, resid = arrays["ids"].tolist(), arrays["weights"], arrays["resid"]
    encoded = minilm.encode(SENTENCE)
    assert encoded.ids == ids
    found = record(minilm.spec, minilm.params, encoded.ids)
    error = np.abs(found.weights - weights)
    assert error.max() <= 0.03
    assert error.mean() <= 0.001
    strongest = found.weights.argmax(-1) == weights.argmax(-1)
    assert strongest.mean() >= 0.98
    cosine = np.einsum("std,std->st", found.resid, resid)
    cosine /= np.linalg.norm(found.resid, axis=-1) * np.linalg.norm(resid, axis=-1)
    assert cosine.min() >= 0.999
