"""Excess against its definition, written as plain loops over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.analyses import excess as module
from attncli.analyses.excess import Excess, Telling, count_by_offset, sum_by_offset
from attncli.model import attention
from attncli.model.forward import Job, run
from attncli.model.load import Model
from attncli.selection import Heads, choose_heads
from tests.toys import record, toy

Array = np.ndarray


def excess_by_definition(weights: Array, ordinary: list[bool], i: int, j: int) -> float | None:
    """Weight of one head at (i, j) minus its mean over the other pairs of the same offset."""
    n = len(ordinary)
    others = [
        float(weights[a, a + j - i])
        for a in range(n)
        if 0 <= a + j - i < n and a != i and ordinary[a] and ordinary[a + j - i]
    ]
    return float(weights[i, j]) - sum(others) / len(others) if others else None


def telling_by_definition(
    weights: Array, ordinary: list[bool], i: int, *, causal: bool = False
) -> tuple[float, set[tuple[int, int, int]]]:
    """Return the largest excess of a query and the (layer, head, key) that have it."""
    best, where = 0.0, set()
    for layer, head in np.ndindex(weights.shape[:2]):
        for j in range(i + 1 if causal else len(ordinary)):
            if j == i or not ordinary[i] or not ordinary[j]:
                continue
            found = excess_by_definition(weights[layer, head], ordinary, i, j)
            if found is None or found <= 0:
                continue
            if found > best + 2e-5:
                best, where = found, {(layer, head, j)}
            elif found > best - 2e-5:
                where.add((layer, head, j))
    return best, where


def assert_as_defined(
    found: list[Telling | None], weights: Array, ordinary: list[bool], causal: bool = False
) -> None:
    """Compare with the definition, allowing ties."""
    for i, telling in enumerate(found):
        best, where = telling_by_definition(weights, ordinary, i, causal=causal)
        if telling is None:
            assert best < module.LEAST + 2e-5
            continue
        assert telling.excess >= module.LEAST
        assert telling.excess == pytest.approx(best, abs=2e-5)
        assert (telling.layer, telling.head, telling.key) in where
        assert telling.weight == pytest.approx(
            float(weights[telling.layer, telling.head, i, telling.key]), abs=1e-5
        )


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=10),
    st.integers(0, 50),
    st.booleans(),
    st.data(),
)
def test_telling_heads_of_toys_are_as_defined(
    ids: list[int], seed: int, causal: bool, data: st.DataObject
) -> None:
    ordinary = data.draw(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids)))
    block_scores = data.draw(st.integers(1, 300))
    spec, params = toy(seed=seed, causal=causal)
    excess = Excess(choose_heads(None, None, 2, 3), np.array(ordinary), causal=causal)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "BLOCK_SCORES", block_scores)
        run(spec, params, [Job(ids, [0] * len(ids), [excess])])
    assert_as_defined(excess.telling(), record(spec, params, ids).weights, ordinary, causal)


def test_telling_heads_of_the_bundled_model_are_as_defined(minilm: Model) -> None:
    # longer than the list of candidates, so that the strongest keys must be found
    text = (
        "We were stuck in a traffic jam for hours, so I ate my toast with strawberry jam at noon."
    )
    encoded = minilm.encode(text)
    n = len(encoded.tokens)
    assert n > module.CANDIDATES + 2
    ordinary = [not token.special for token in encoded.tokens]
    excess = Excess(choose_heads(None, None, 6, 12), np.array(ordinary), causal=False)
    run(minilm.spec, minilm.params, [Job(encoded.ids, [0] * n, [excess])])
    weights = record(minilm.spec, minilm.params, encoded.ids).weights
    assert_as_defined(excess.telling(), weights, ordinary)


def test_only_chosen_heads_compete_and_keep_their_numbers(minilm: Model) -> None:
    encoded = minilm.encode("The student did not answer the question")
    n, ordinary = len(encoded.tokens), [not token.special for token in encoded.tokens]
    excess = Excess(Heads((1, 3), (2, 5)), np.array(ordinary), causal=False)
    run(minilm.spec, minilm.params, [Job(encoded.ids, [0] * n, [excess])])
    found = [telling for telling in excess.telling() if telling is not None]
    assert found
    assert {t.layer for t in found} <= {1, 3}
    assert {t.head for t in found} <= {2, 5}
    assert excess.telling([4, 2]) == [excess.telling()[4], excess.telling()[2]]


def test_purely_positional_head_tells_nothing() -> None:
    # one token repeated without positions: every weight of an offset is the same
    spec, params = toy()
    excess = Excess(choose_heads(None, None, 2, 3), np.ones(6, bool), causal=False)
    run(spec, params, [Job([4] * 6, [0] * 6, [excess])])
    assert excess.telling() == [None] * 6


def test_barred_keys_do_not_compete(minilm: Model) -> None:
    encoded = minilm.encode("The student did not answer the question")
    n, ordinary = len(encoded.tokens), [not token.special for token in encoded.tokens]
    excess = Excess(choose_heads(None, None, 6, 12), np.array(ordinary), causal=False)
    run(minilm.spec, minilm.params, [Job(encoded.ids, [0] * n, [excess])])
    (first,) = excess.telling([2])
    assert first is not None
    (second,) = excess.telling([2], [[2, first.key]])
    assert second is not None
    assert second.key != first.key
    assert second.excess <= first.excess


@given(st.integers(1, 3), st.integers(1, 6), st.integers(1, 6))
def test_sums_by_offset_are_sums_along_diagonals(heads: int, rows: int, columns: int) -> None:
    weights = np.random.default_rng(rows).random((heads, rows, columns)).astype(np.float32)
    expected = [
        [np.trace(head, offset) for offset in range(-(rows - 1), columns)] for head in weights
    ]
    np.testing.assert_allclose(sum_by_offset(weights), expected, rtol=1e-5)


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.booleans())
def test_counts_by_offset_are_counts_of_ordinary_pairs(ordinary: list[bool], causal: bool) -> None:
    n = len(ordinary)
    expected = [0] * (2 * n - 1)
    for i in range(n):
        for j in range(i + 1 if causal else n):
            expected[j - i + n - 1] += ordinary[i] and ordinary[j]
    assert count_by_offset(np.array(ordinary), causal=causal).tolist() == expected
