"""Real GGUF checkpoints against what transformers makes of the same file (see tests/real.py)."""

from __future__ import annotations

import numpy as np
import pytest

from attncli import api
from attncli.checkpoints.gguf import GgufFile
from attncli.model.gguf.tokenizer import build_tokenizer
from attncli.model.load import load
from tests.parity.comparison import GOLDEN
from tests.real import SENTENCE, gguf_file
from tests.texts import PAGE
from tests.toys import record

pytestmark = pytest.mark.real

NAMES = ["smollm2", "gemma3"]
TOLERANCE = 1e-4
"""Both sides start from the same unpacked numbers; the deepest model here has 30 layers."""


@pytest.mark.parametrize("name", NAMES)
def test_tokens_of_mixed_text_equal_transformers(name: str) -> None:
    path = gguf_file(name)
    tokenizer = build_tokenizer(path, GgufFile(path).metadata)
    with np.load(GOLDEN / "gguf" / f"{name}.npz") as arrays:
        ends = np.cumsum(arrays["page_lengths"])
        expected = [ids.tolist() for ids in np.split(arrays["page"], ends[:-1])]
    for text, ids in zip(PAGE, expected, strict=True):
        encoded = tokenizer.encode(text)
        assert encoded.ids == ids, text
        assert encoded.notes == () or encoded.notes[0].startswith("control tokens typed")


@pytest.mark.parametrize("name", NAMES)
def test_weights_and_states_equal_transformers(name: str) -> None:
    model = load(str(gguf_file(name)))
    with np.load(GOLDEN / "gguf" / f"{name}.npz") as arrays:
        ids, weights, resid = arrays["ids"].tolist(), arrays["weights"], arrays["resid"]
        heads, states = arrays["heads"], arrays["states"]
    assert model.encode(SENTENCE).ids == ids
    found = record(model.spec, model.params, ids)
    shown = found.weights[heads[:, 0], heads[:, 1]]
    assert np.abs(shown - weights).max() <= TOLERANCE
    for state, expected in zip(states, resid, strict=True):
        difference = np.abs(found.resid[state, -1] - expected).max()
        assert difference <= TOLERANCE * np.abs(expected).max(), f"state {state}"


def test_it_means_the_question() -> None:
    record = api.inspect(SENTENCE, str(gguf_file("smollm2")), head="22.2", query=["it"]).record()
    row = dict(
        zip([t["text"].strip() for t in record["tokens"]], record["weights"][0], strict=True)
    )
    assert row["question"] == pytest.approx(0.39, abs=0.01)
    assert row["student"] == pytest.approx(0.11, abs=0.01)


def test_small_model_continues_the_sentence() -> None:
    found = api.predict(SENTENCE, str(gguf_file("smollm2")), top=3)
    assert [c.text for c in found.places[0].candidates] == [" for", ".", ","]
    shares = [c.probability for c in found.places[0].candidates]
    assert shares == pytest.approx([0.316, 0.314, 0.129], abs=0.005)


def test_vocabulary_of_a_quarter_million_is_read_in_parts() -> None:
    found = api.predict("The capital of France is", str(gguf_file("gemma3")), top=5)
    assert found.vocabulary == 262_144
    assert " Paris" in [c.text for c in found.places[0].candidates]
