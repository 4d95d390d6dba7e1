"""Rollout: hand-computed cases, the plain matrix product, and what causal models need."""

from __future__ import annotations

import numpy as np
import pytest

from attncli.analyses.rollout import Rollout
from attncli.model import attention
from attncli.model.forward import Job, run
from attncli.model.load import Model
from attncli.model.observe import AttentionBlock
from attncli.model.spec import LayerSpec, StackSpec
from attncli.selection import Heads
from tests.toys import record, toy

IDS = [3, 1, 4, 1, 5, 9, 2]
Array = np.ndarray


def stack(n_layers: int, n_heads: int = 1, *, causal: bool = False, **layer: int) -> StackSpec:
    """Return sizes; what the observer reads of them are heads, direction and windows."""
    layers = (LayerSpec(**layer),) * n_layers
    return StackSpec(layers, 2, n_heads, n_heads, 1, 1.0, causal)


def rolled(selected: Heads, spec: StackSpec, layers: list[Array]) -> Array:
    """Show whole layers [head, query, key] and return the rollout."""
    n = layers[0].shape[-1]
    rollout = Rollout(selected, spec, n)
    for i, weights in enumerate(layers):
        if i in rollout.attention_layers:
            whole = slice(0, n)
            rollout.on_attention(AttentionBlock(i, whole, whole, None, None, None, weights))
    return rollout.result()


def heads(*matrices: list[list[float]]) -> Array:
    return np.array(matrices, np.float32)


def test_two_layers_by_hand() -> None:
    swap, stay = heads([[0, 1], [1, 0]]), heads([[1, 0], [0, 1]])
    half = heads([[0.5, 0.5], [0, 1]])
    # A_0 = [[.5, .5], [.5, .5]]; A_1 = [[.75, .25], [0, 1]]
    found = rolled(Heads((0, 1), (0,)), stack(2), [swap, half])
    np.testing.assert_allclose(found, [[0.5, 0.5], [0.5, 0.5]])
    # the other way round: A_1 A_0 = [[.5, .5], [.5, .5]] [[.75, .25], [0, 1]]
    found = rolled(Heads((0, 1), (0,)), stack(2), [half, swap])
    np.testing.assert_allclose(found, [[0.375, 0.625], [0.375, 0.625]])
    found = rolled(Heads((0, 1), (0,)), stack(2), [stay, stay])
    np.testing.assert_array_equal(found, np.eye(2))


def test_chosen_heads_take_the_place_of_the_mean_in_their_layer_only() -> None:
    swap, stay = [[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]
    layers = [heads(swap, stay), heads(swap, stay)]
    # layer 0: mean of both, A = [[.75, .25], …]; layer 1: head 1 alone, A = I
    found = rolled(Heads((1,), (1,)), stack(2, 2), layers)
    np.testing.assert_allclose(found, [[0.75, 0.25], [0.25, 0.75]])


def test_layers_above_the_last_chosen_one_take_no_part() -> None:
    swap, stay = heads([[0, 1], [1, 0]]), heads([[1, 0], [0, 1]])
    found = rolled(Heads((0,), (0,)), stack(2), [stay, swap])
    np.testing.assert_array_equal(found, np.eye(2))


def test_share_of_a_learned_sink_goes_to_nobody() -> None:
    # the row gives .5 to a sink: A = (½ [0, .5] + ½ [1, 0]) / .75
    found = rolled(Heads((0,), (0,)), stack(1), [heads([[0, 0.5], [0.5, 0]])])
    np.testing.assert_allclose(found, [[2 / 3, 1 / 3], [1 / 3, 2 / 3]], rtol=1e-6)


@pytest.mark.parametrize("window", [None, 3])
def test_uniform_causal_attention_rolls_out_to_uniform_rows(window: int | None) -> None:
    n, layers = 6, 4
    seen = np.tril(np.ones((n, n)))
    if window is not None:
        seen = np.triu(seen, 1 - window)
    uniform = (seen / seen.sum(1, keepdims=True)).astype(np.float32)[None]
    spec = stack(layers, causal=True, **({} if window is None else {"window": window}))
    found = rolled(Heads(tuple(range(layers)), (0,)), spec, [uniform] * layers)
    expected = np.tril(np.ones((n, n)))
    if window is not None:
        expected = np.triu(expected, -layers * (window - 1))
    np.testing.assert_allclose(found, expected / expected.sum(1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("block_scores", [1, 50, 10**6])
def test_blocks_of_any_size_give_the_plain_product(
    causal: bool, block_scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, params = toy(layers=3, causal=causal)
    n = len(IDS)
    weights = record(spec, params, IDS).weights.astype(np.float64).mean(axis=1)
    expected, field = np.eye(n), np.eye(n)
    for layer in weights:
        expected = (layer / 2 + np.eye(n) / 2) @ expected
        seen = np.tril(np.ones((n, n)))
        field = (seen / seen.sum(1, keepdims=True) / 2 + np.eye(n) / 2) @ field
    if causal:
        expected = np.divide(expected, field, out=np.zeros((n, n)), where=field > 0)
        expected /= expected.sum(1, keepdims=True)
    monkeypatch.setattr(attention, "BLOCK_SCORES", block_scores)
    rollout = Rollout(Heads((0, 1, 2), (0, 1, 2)), spec.stack, n)
    run(spec, params, [Job(IDS, [0] * n, [rollout])])
    np.testing.assert_allclose(rollout.result(), expected, atol=1e-5)
    np.testing.assert_allclose(rollout.result().sum(1), 1, atol=1e-5)
    if causal:
        assert not np.triu(rollout.result(), 1).any()


def test_rows_of_a_real_model_sum_to_one(minilm: Model) -> None:
    ids = minilm.encode("We were stuck in a traffic jam for hours").ids
    rollout = Rollout(Heads(tuple(range(6)), tuple(range(12))), minilm.spec.stack, len(ids))
    run(minilm.spec, minilm.params, [Job(ids, [0] * len(ids), [rollout])])
    np.testing.assert_allclose(rollout.result().sum(1), 1, atol=1e-5)
