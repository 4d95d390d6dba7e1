"""Real checkpoints, where they are on this machine (see tests/real.py)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attncli.model.load import Model, load
from attncli.model.locate import BUNDLED
from attncli.model.pack import pack_model
from tests.parity.comparison import GOLDEN, TOLERANCE
from tests.real import MPNET_HEADS, SENTENCE, checkpoint
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


@pytest.fixture(scope="module")
def mpnet() -> Model:
    return load(str(checkpoint("mpnet")))


def test_mpnet_equals_transformers(mpnet: Model) -> None:
    with np.load(GOLDEN / "real-mpnet.npz") as arrays:
        ids, weights, scores, resid = (arrays[n] for n in ("ids", "weights", "scores", "resid"))
    encoded = mpnet.encode(SENTENCE)
    assert encoded.ids == ids.tolist()
    found = record(mpnet.spec, mpnet.params, encoded.ids)
    layers, heads = (list(numbers) for numbers in zip(*MPNET_HEADS, strict=True))
    assert np.abs(found.weights[layers, heads] - weights).max() <= TOLERANCE
    largest = float(np.abs(scores).max())
    assert np.abs(found.scores[layers, heads] - scores).max() <= TOLERANCE * largest
    assert np.abs(found.resid[..., :16] - resid).max() <= TOLERANCE


def test_mpnet_links_it_to_the_question(mpnet: Model) -> None:
    encoded = mpnet.encode(SENTENCE)
    found = record(mpnet.spec, mpnet.params, encoded.ids)
    place = {token.token: token.index for token in encoded.tokens}
    it, question, student = (place[word] for word in ("it", "question", "student"))
    assert found.weights[9, 7, it, question] == pytest.approx(0.52, abs=0.005)
    assert found.weights[8, 8, it, student] == pytest.approx(0.83, abs=0.005)


def test_mpnet_takes_as_many_tokens_as_rows_without_the_first_two(mpnet: Model) -> None:
    assert mpnet.spec.n_positions == 512
