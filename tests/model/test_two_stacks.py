"""The two stacks of an encoder-decoder: who runs, what is shown, several texts at once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attncli.errors import InputProblem
from attncli.model import attention
from attncli.model.embed import sinusoids
from attncli.model.forward import Job, run
from attncli.model.observe import Observer
from attncli.model.params import Params
from attncli.model.spec import ModelSpec
from tests.parity.comparison import read_golden
from tests.toys import Recorder, record, toy

SOURCES = [(7, 12, 33, 7, 39), (5, 28), (9, 14, 22, 1, 3, 30, 11)]
TARGETS = [(0, 17, 4), (0, 8, 25, 6, 38), (0,)]


def model(name: str = "t5") -> tuple[ModelSpec, Params]:
    """Return spec and parameters of a parity case."""
    return read_golden(name).model()


def assert_close(found: Recorder, expected: Recorder) -> None:
    np.testing.assert_allclose(found.weights, expected.weights, atol=2e-6)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)
    np.testing.assert_allclose(found.resid, expected.resid, atol=2e-5)


class Reads:
    """Parameters that remember which ones were asked for."""

    def __init__(self, params: Params, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: set[str] = set()
        original = params.store.read

        def read(name: str, out: np.ndarray | None = None) -> np.ndarray:
            self.names.add(name)
            return original(name, out)

        monkeypatch.setattr(params.store, "read", read)


@pytest.mark.parametrize("name", ["t5", "bart", "pegasus"])
def test_several_pairs_run_together_equal_each_alone(name: str) -> None:
    spec, params = model(name)
    jobs, together = [], []
    for target, source in zip(TARGETS, SOURCES, strict=True):
        kept = Recorder(spec, len(target))
        kept.encoder = Recorder(spec, len(source), stack="encoder")
        kept.cross = Recorder(spec, len(target), n_source=len(source))
        together.append(kept)
        jobs.append(Job(target, [0] * len(target), [kept, kept.encoder, kept.cross], source))
    # a text without a target among those that have one
    lone = Recorder(spec, 3, stack="encoder")
    jobs.insert(1, Job((), (), [lone], source=(4, 5, 6)))
    run(spec, params, jobs)
    for found, target, source in zip(together, TARGETS, SOURCES, strict=True):
        alone = record(spec, params, target, source)
        assert_close(found, alone)
        assert_close(found.encoder, alone.encoder)
        assert_close(found.cross, alone.cross)
    assert_close(lone, record(spec, params, (0,), (4, 5, 6)).encoder)


@pytest.mark.parametrize("rows", [1, 3])
def test_cross_attention_in_blocks_of_any_size(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, params = model()
    whole = record(spec, params, TARGETS[1], SOURCES[2])
    monkeypatch.setattr(attention, "BLOCK_SCORES", rows * spec.stack.n_heads * len(SOURCES[2]))
    parts = record(spec, params, TARGETS[1], SOURCES[2])
    assert parts.cross.blocks == spec.stack.n_layers * -(-len(TARGETS[1]) // rows)
    assert_close(parts.cross, whole.cross)
    assert_close(parts, whole)


def test_every_target_token_sees_the_whole_source_and_only_its_own_past() -> None:
    spec, params = model("bart")
    found = record(spec, params, TARGETS[1], SOURCES[2])
    assert (found.cross.weights > 0).all()
    assert (found.weights[..., *np.triu_indices(5, 1)] == 0).all()
    assert (found.encoder.weights > 0).all()


def test_later_target_token_changes_nothing_before_it() -> None:
    spec, params = model()
    short = record(spec, params, (0, 17, 4), SOURCES[0])
    long = record(spec, params, (0, 17, 4, 31), SOURCES[0])
    np.testing.assert_allclose(long.cross.weights[:, :, :3], short.cross.weights, atol=2e-6)
    np.testing.assert_allclose(long.resid[:, :3], short.resid, atol=2e-5)


def test_encoder_alone_reads_no_parameter_of_the_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, params = model()
    reads = Reads(params, monkeypatch)
    kept = Recorder(spec, 5, stack="encoder")
    run(spec, params, [Job((), (), [kept], source=SOURCES[0])])
    assert reads.names
    assert not any(name.startswith("decoder.") for name in reads.names)
    assert_close(kept, record(spec, params, TARGETS[0], SOURCES[0]).encoder)


def test_attention_of_the_last_layer_needs_no_feed_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, params = model()
    last = spec.stack.n_layers - 1
    whole = record(spec, params, TARGETS[1], SOURCES[0])
    reads = Reads(params, monkeypatch)
    kept = Recorder(spec, 5, n_source=5)
    kept.attention_layers = frozenset([last])
    run(spec, params, [Job(TARGETS[1], [0] * 5, [kept], source=SOURCES[0])])
    np.testing.assert_allclose(kept.weights[last], whole.cross.weights[last], atol=2e-6)
    assert f"decoder.block.{last}.layer.1.EncDecAttention.q.weight" in reads.names
    assert f"decoder.block.{last}.layer.2.DenseReluDense.wi.weight" not in reads.names


def test_source_is_needed_by_two_stacks_and_refused_by_one() -> None:
    spec, params = model()
    with pytest.raises(InputProblem, match="source text"):
        run(spec, params, [Job((1, 2), (0, 0), [Observer()])])
    spec, params = toy()
    with pytest.raises(InputProblem, match="source text"):
        run(spec, params, [Job((1, 2), (0, 0), [Observer()], source=(1,))])


@pytest.mark.parametrize("width", [6, 7])
def test_sinusoids_are_sines_then_cosines(width: int) -> None:
    found = sinusoids(np.array([0, 3]), width)
    n_sines = math.ceil(width / 2)
    for column in range(width):
        at = column if column < n_sines else column - n_sines
        turn = 3 / 10000 ** (2 * at / width)
        wave = math.sin(turn) if column < n_sines else math.cos(turn)
        assert found[1, column] == pytest.approx(wave, abs=1e-6)
    np.testing.assert_array_equal(found[0], [0.0] * n_sines + [1.0] * (width - n_sines))
