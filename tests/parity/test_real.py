"""Real checkpoints, where they are on this machine (see tests/real.py)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attncli.model.load import Model, load
from attncli.model.locate import BUNDLED
from attncli.model.pack import pack_model
from tests.parity.comparison import GOLDEN, TOLERANCE
from tests.real import SENTENCE, checkpoint
from tests.toys import record

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def original() -> Model:
    return load(str(checkpoint("minilm")))


def test_original_minilm_equals_transformers(original: Model) -> None:
    with np.load(GOLDEN / "minilm.npz") as arrays:
        weights, resid = arrays["weights"], arrays["resid"]
    found = record(original.spec, original.params, original.encode(SENTENCE).ids)
    assert np.abs(found.weights - weights).max() <= TOLERANCE
    assert np.abs(found.resid - resid).max() <= TOLERANCE


def test_bundled_model_is_the_original_packed_again(original: Model, minilm: Model) -> None:
    from attncli.checkpoints import packed

    name = "encoder.layer.3.attention.self.query.weight"
    values, scales = packed.pack(original.params.store.read(name))
    np.testing.assert_array_equal(minilm.params.store.read(name), packed.unpack(values, scales))
    bias = "encoder.layer.3.attention.self.query.bias"
    np.testing.assert_array_equal(minilm.params.store.read(bias), original.params.store.read(bias))


def test_packing_the_original_again_gives_the_bundled_bytes(tmp_path: Path) -> None:
    pack_model(checkpoint("minilm"), tmp_path / "packed", "q8")
    for name in ("model.safetensors", "config.json", "tokenizer.json", "SHA256SUMS"):
        ours = (BUNDLED / "minilm" / name).read_bytes()
        assert (tmp_path / "packed" / name).read_bytes() == ours, name
