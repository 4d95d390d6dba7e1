"""Many heads to one matrix: hand-computed cases, and agreement between the observers."""

from __future__ import annotations

import numpy as np
import pytest

from attncli.analyses.reduction import HeadMatrices, Reduction, States, contribution_lengths, cosine
from attncli.model import attention
from attncli.model.forward import Job, run
from attncli.model.load import Model
from attncli.model.observe import AttentionBlock, HeadValues
from attncli.selection import Heads
from tests.toys import record, toy

IDS = [3, 1, 4, 1, 5, 9, 2]


def block(weights: list[list[list[float]]], values: list[list[list[float]]]) -> AttentionBlock:
    """Return the attention of two queries on two keys, heads side by side without W_O."""
    array = np.array(weights, np.float32)
    heads = len(array)
    v = HeadValues(np.array(values, np.float32), np.stack([np.eye(2, dtype=np.float32)] * heads))
    q = np.zeros((heads, 2, 2), np.float32)
    return AttentionBlock(0, slice(0, 2), slice(0, 2), q, q, v, array, np.log(array))


OPPOSED = block(
    [[[0.5, 0.5], [0.25, 0.75]], [[0.5, 0.5], [0.75, 0.25]]],
    # head 1 undoes what head 0 takes from key 0; both agree on key 1
    [[[1, 0], [0, 2]], [[-1, 0], [0, 2]]],
)


def test_vectors_are_added_before_their_length_is_taken() -> None:
    reduction = Reduction(Heads((0,), (0, 1)), np.arange(2), 2)
    reduction.on_attention(OPPOSED)
    # query 0: key 0 cancels; query 1: key 0 |.25 - .75| = .5, key 1 |1.5 + .5| = 2
    np.testing.assert_allclose(reduction.contributions, [[0, 1], [0.2, 0.8]], atol=1e-6)
    np.testing.assert_allclose(reduction.weights, [[0.5, 0.5], [0.5, 0.5]])


def test_single_head_contributes_weight_times_length() -> None:
    reduction = Reduction(Heads((0,), (0,)), np.arange(2), 2)
    reduction.on_attention(OPPOSED)
    expected = [[0.5 / 1.5, 1 / 1.5], [0.25 / 1.75, 1.5 / 1.75]]
    np.testing.assert_allclose(reduction.contributions, expected, rtol=1e-6)
    np.testing.assert_array_equal(reduction.scores, OPPOSED.scores[0])


def test_maximum_takes_the_largest_weight_of_each_pair() -> None:
    reduction = Reduction(Heads((0,), (0, 1), "max"), np.arange(2), 2)
    reduction.on_attention(OPPOSED)
    np.testing.assert_allclose(reduction.weights, [[0.5, 0.5], [0.75, 0.75]])
    assert reduction.scores is None


def test_lengths_survive_rounding_below_zero() -> None:
    gram = np.array([[[1, -1.0000001], [-1.0000001, 1]]], np.float32)
    weights = np.ones((2, 1, 1), np.float32)
    assert contribution_lengths(weights, gram).tolist() == [[0]]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("block_scores", [1, 50, 10**6])
def test_chosen_rows_equal_those_of_the_whole_in_blocks_of_any_size(
    causal: bool, block_scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, params = toy(causal=causal)
    chosen, n = Heads((0, 1), (0, 2)), len(IDS)
    whole = Reduction(chosen, np.arange(n), n)
    run(spec, params, [Job(IDS, [0] * n, [whole])])
    monkeypatch.setattr(attention, "BLOCK_SCORES", block_scores)
    some = Reduction(chosen, np.array([1, 2, 6]), n)
    run(spec, params, [Job(IDS, [0] * n, [some])])
    np.testing.assert_allclose(some.weights, whole.weights[[1, 2, 6]], atol=1e-6)
    np.testing.assert_allclose(some.contributions, whole.contributions[[1, 2, 6]], atol=1e-4)
    np.testing.assert_allclose(whole.weights.sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(whole.contributions.sum(1), 1, atol=1e-5)


def test_matrices_of_every_head_are_those_of_single_heads(minilm: Model) -> None:
    ids = minilm.encode("We were stuck in a traffic jam").ids
    n, chosen = len(ids), Heads((1, 4), (3, 7))
    every = HeadMatrices(chosen, n, n)
    singles = [Reduction(Heads((i,), (h,)), np.arange(n), n) for i in (1, 4) for h in (3, 7)]
    run(minilm.spec, minilm.params, [Job(ids, [0] * n, [every, *singles])])
    for place, single in enumerate(singles):
        at = divmod(place, 2)
        np.testing.assert_array_equal(every.weights[at], single.weights)
        np.testing.assert_array_equal(every.scores[at], single.scores)
        np.testing.assert_allclose(every.contributions[at], single.contributions, atol=1e-6)


def test_states_are_kept_although_the_run_goes_on() -> None:
    spec, params = toy(layers=3)
    states = States(3)
    run(spec, params, [Job(IDS, [0] * len(IDS), [states])])
    np.testing.assert_array_equal(states.stacked(), record(spec, params, IDS).resid)


def test_cosine_by_hand() -> None:
    a, b = np.array([[3.0, 4.0], [1.0, 0.0]]), np.array([[4.0, 3.0], [0.0, 2.0]])
    np.testing.assert_allclose(cosine(a, b), [0.96, 0])
