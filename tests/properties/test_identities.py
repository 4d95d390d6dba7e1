"""Identities that hold exactly for any attention, on the bundled model and on random toys."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attncli.analyses.reduction import Reduction, cosine
from attncli.model import attention, ffn
from attncli.model.forward import Job, run
from attncli.model.load import Model
from attncli.selection import choose_heads
from tests import naive
from tests.toys import record, toy

IDS = st.lists(st.integers(0, 9), min_size=1, max_size=9)
SEEDS = st.integers(0, 50)
CAUSAL = st.booleans()

SENTENCES = [
    "The student did not answer the question because it was too difficult",
    "jam",
    "We were stuck in a traffic jam for hours, and I love my toast with strawberry jam.",
]


@pytest.mark.parametrize("text", SENTENCES)
def test_bundled_model_keeps_the_identities(minilm: Model, text: str) -> None:
    spec, params, stack = minilm.spec, minilm.params, minilm.spec.stack
    found = record(spec, params, minilm.encode(text).ids)
    np.testing.assert_allclose(found.weights.sum(-1), 1, atol=2e-6)
    expected = naive.forward(spec, params, minilm.encode(text).ids)
    for layer in range(stack.n_layers):
        # the q that is shown carries the scale, so that q·k is the score
        scores = np.einsum("hqd,hkd->hqk", found.q[layer], found.k[layer])
        np.testing.assert_allclose(scores, found.scores[layer], atol=2e-5)
        q = found.resid[layer] @ params.need(f"{layer}.attn.q.weight")
        q = (q + params.need(f"{layer}.attn.q.bias")).reshape(len(q), stack.n_heads, -1)
        np.testing.assert_allclose(
            q.transpose(1, 0, 2) / stack.head_dim**0.5, found.q[layer], atol=2e-5
        )
        out = sum(
            found.weights[layer, head] @ found.values[layer].of(head)
            for head in range(stack.n_heads)
        )
        out = out + params.need(f"{layer}.attn.o.bias")
        np.testing.assert_allclose(out, expected.attention_out[layer], atol=2e-5)


@given(IDS, SEEDS, CAUSAL)
def test_rows_sum_to_one_and_masked_entries_are_zero(
    ids: list[int], seed: int, causal: bool
) -> None:
    found = record(*toy(seed=seed, causal=causal), ids)
    np.testing.assert_allclose(found.weights.sum(-1), 1, atol=1e-6)
    if causal:
        above = np.triu(np.ones((len(ids), len(ids)), bool), 1)
        assert (found.weights[..., above] == 0).all()
        assert np.isneginf(found.scores[..., above]).all()


@given(IDS, SEEDS, CAUSAL)
def test_values_times_weights_give_the_attention_output(
    ids: list[int], seed: int, causal: bool
) -> None:
    spec, params = toy(seed=seed, causal=causal)
    found, expected = record(spec, params, ids), naive.forward(spec, params, ids)
    for layer in range(2):
        out = sum(found.weights[layer, h] @ found.values[layer].of(h) for h in range(3))
        np.testing.assert_allclose(out, expected.attention_out[layer], atol=1e-4)


@given(IDS, st.integers(0, 9), SEEDS)
def test_later_token_changes_no_earlier_row_of_a_causal_model(
    ids: list[int], more: int, seed: int
) -> None:
    spec, params = toy(seed=seed, causal=True)
    short, long = record(spec, params, ids), record(spec, params, [*ids, more])
    n = len(ids)
    np.testing.assert_allclose(long.weights[..., :n, :n], short.weights, atol=1e-5)
    np.testing.assert_allclose(long.resid[:, :n], short.resid, atol=1e-4)


@given(IDS.filter(lambda ids: len(ids) > 1), st.randoms(use_true_random=False), SEEDS)
def test_permuted_tokens_permute_rows_and_columns_where_there_are_no_positions(
    ids: list[int], random: object, seed: int
) -> None:
    spec, params = toy(seed=seed)
    order = list(range(len(ids)))
    random.shuffle(order)
    plain, permuted = record(spec, params, ids), record(spec, params, [ids[i] for i in order])
    np.testing.assert_allclose(
        permuted.weights, plain.weights[..., order, :][..., order], atol=1e-5
    )
    np.testing.assert_allclose(permuted.resid, plain.resid[:, order], atol=1e-4)


@given(st.integers(0, 9), st.integers(1, 9), SEEDS, CAUSAL)
def test_one_token_repeated_gets_even_weights_and_one_state(
    token: int, n: int, seed: int, causal: bool
) -> None:
    found = record(*toy(seed=seed, causal=causal), [token] * n)
    counts = np.arange(1, n + 1) if causal else np.full(n, n)
    even = np.tril(np.ones((n, n))) if causal else np.ones((n, n))
    np.testing.assert_allclose(
        found.weights, np.broadcast_to(even / counts[:, None], found.weights.shape), atol=1e-5
    )
    np.testing.assert_allclose(found.resid, found.resid[:, :1].repeat(n, axis=1), atol=1e-4)


@settings(max_examples=25)
@given(IDS, SEEDS, CAUSAL, st.integers(1, 200), st.integers(1, 5))
def test_size_of_blocks_changes_nothing(
    ids: list[int], seed: int, causal: bool, scores: int, rows: int
) -> None:
    model = toy(seed=seed, causal=causal)
    whole = record(*model, ids)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "BLOCK_SCORES", scores)
        patch.setattr(ffn, "FFN_ROWS", rows)
        blocks = record(*model, ids)
    np.testing.assert_allclose(blocks.weights, whole.weights, atol=1e-5)
    np.testing.assert_allclose(blocks.scores, whole.scores, atol=1e-4)
    np.testing.assert_allclose(blocks.resid, whole.resid, atol=1e-4)


def shares_by_definition(steps: naive.Steps, layers: list[int], heads: list[int]) -> np.ndarray:
    """Mean over layers of each row's shares of |sum_h a_h f_h|, by adding the vectors."""
    total = 0
    for layer in layers:
        vectors = np.einsum(
            "hab,hbd->abd", steps.weights[layer][heads], steps.head_vectors[layer][heads]
        )
        lengths = np.linalg.norm(vectors, axis=-1)
        total = total + lengths / lengths.sum(axis=1, keepdims=True)
    return total / len(layers)


@given(
    IDS,
    SEEDS,
    CAUSAL,
    st.lists(st.integers(0, 1), min_size=1, unique=True),
    st.lists(st.integers(0, 2), min_size=1, unique=True),
)
def test_contributions_are_lengths_of_summed_vectors(
    ids: list[int], seed: int, causal: bool, layers: list[int], heads: list[int]
) -> None:
    spec, params = toy(seed=seed, causal=causal)
    names = [",".join(map(str, chosen)) for chosen in (layers, heads)]
    reduction = Reduction(choose_heads(*names, 2, 3), np.arange(len(ids)), len(ids))
    run(spec, params, [Job(ids, [0] * len(ids), [reduction])])
    expected = shares_by_definition(naive.forward(spec, params, ids), layers, heads)
    np.testing.assert_allclose(reduction.contributions, expected, atol=2e-4)


def test_contributions_of_the_bundled_model_are_lengths_of_summed_vectors(minilm: Model) -> None:
    ids = minilm.encode(SENTENCES[0]).ids
    steps = naive.forward(minilm.spec, minilm.params, ids)
    for layer, head in ((None, None), ("2", "1,5,7"), ("3", "1")):
        chosen = choose_heads(layer, head, 6, 12)
        reduction = Reduction(chosen, np.arange(len(ids)), len(ids))
        run(minilm.spec, minilm.params, [Job(ids, [0] * len(ids), [reduction])])
        expected = shares_by_definition(steps, list(chosen.layers), list(chosen.heads))
        np.testing.assert_allclose(reduction.contributions, expected, atol=1e-5)
        weights = np.mean([steps.weights[i][list(chosen.heads)].mean(0) for i in chosen.layers], 0)
        np.testing.assert_allclose(reduction.weights, weights, atol=1e-6)


@given(st.lists(st.integers(-5, 5), min_size=3, max_size=3), st.floats(0.1, 9))
def test_cosine_ignores_length_and_is_zero_for_a_zero_vector(
    vector: list[int], factor: float
) -> None:
    a = np.array([vector], np.float64)
    expected = float(any(vector))
    assert cosine(a, a * factor).tolist() == pytest.approx([expected])
    assert cosine(a, -a).tolist() == pytest.approx([-expected])
    assert cosine(a, np.zeros((1, 3))).tolist() == [0]
