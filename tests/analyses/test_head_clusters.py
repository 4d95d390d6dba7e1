"""Jensen-Shannon distances and average linkage, against formulas and a slow implementation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli import api
from attncli.analyses import head_clusters as module
from attncli.analyses.head_clusters import (
    KeptRows,
    average_linkage,
    find_clusters,
    js_distances,
    rows_to_compare,
    rows_within,
)
from attncli.analyses.head_survey import HeadSurvey
from attncli.selection import Heads
from tests.analyses.attention_by_hand import random_weights, show

Array = np.ndarray


def js_by_definition(p: Array, q: Array) -> float:
    """½ KL(p‖m) + ½ KL(q‖m) with m = (p + q) / 2."""
    m = (p + q) / 2

    def kl(a: Array) -> float:
        return sum(float(x) * math.log(x / y) for x, y in zip(a, m, strict=True) if x > 0)

    return (kl(p) + kl(q)) / 2


def test_heads_that_share_no_key_are_ln_2_apart_and_equal_heads_0() -> None:
    weights = np.zeros((3, 2, 4), np.float32)
    weights[0, :, 0] = weights[1, :, 0] = weights[2, :, 3] = 1
    distances = js_distances(weights)
    assert distances[0, 1] == 0
    assert distances[0, 2] == pytest.approx(math.log(2), abs=1e-6)


@given(st.integers(2, 6), st.integers(1, 4), st.integers(1, 6), st.integers(1, 9), st.booleans())
def test_distance_is_the_mean_over_rows_of_the_divergence(
    heads: int, rows: int, keys: int, step: int, scaled: bool
) -> None:
    weights = random_weights((1, heads, rows, keys), heads + rows, causal=False)[0]
    shown = weights * 0.3 if scaled else weights
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "STEP", step)
        found = js_distances(shown.astype(np.float32))
    for a in range(heads):
        for b in range(heads):
            expected = np.mean(
                [js_by_definition(weights[a, i], weights[b, i]) for i in range(rows)]
            )
            assert found[a, b] == pytest.approx(expected, abs=1e-5)


def linkage_by_definition(distances: Array, cut: float) -> list[set[int]]:
    """Merge the nearest two sets, by the mean over all pairs of members, while within the cut."""
    groups = [{i} for i in range(len(distances))]
    while len(groups) > 1:
        mean, a, b = min(
            (float(np.mean([distances[i, j] for i in groups[a] for j in groups[b]])), a, b)
            for a in range(len(groups))
            for b in range(a)
        )
        if mean > cut:
            break
        groups[b] |= groups.pop(a)
    return groups


@given(st.integers(1, 9), st.integers(0, 200), st.floats(0, 1))
def test_average_linkage_makes_the_groups_of_its_definition(n: int, seed: int, cut: float) -> None:
    upper = np.triu(np.random.default_rng(seed).random((n, n)), 1)
    distances = upper + upper.T
    numbers = average_linkage(distances, cut)
    found = [set(np.flatnonzero(numbers == i).tolist()) for i in range(numbers.max() + 1)]
    assert sorted(map(sorted, found)) == sorted(map(sorted, linkage_by_definition(distances, cut)))
    assert [len(group) for group in found] == sorted(map(len, found), reverse=True)


def test_kept_rows_are_those_of_the_run_wherever_blocks_are_cut() -> None:
    weights = random_weights((2, 3, 7, 7), 1, causal=True)
    for rows in (1, 2, 7):
        kept = KeptRows(Heads((0, 1), (0, 2)), np.array([1, 4, 5]), 7)
        show(kept, weights, rows=rows, causal=True)
        np.testing.assert_allclose(kept.weights, weights[:, [0, 2]][:, :, [1, 4, 5]], atol=1e-7)


def test_all_rows_of_a_short_text_and_a_few_evenly_spaced_ones_of_a_long_one() -> None:
    assert rows_within(5, 10, 50).tolist() == [0, 1, 2, 3, 4]
    assert rows_within(100, 10, 45).tolist() == [12, 37, 62, 87]
    assert rows_within(100, 10, 5).tolist() == []
    smollm2 = Heads(tuple(range(30)), tuple(range(9)))
    chosen = rows_to_compare(smollm2, 2048, 2048)
    pairs = 270 * 269 // 2
    assert 0 < len(chosen) * pairs * 2048 <= module.BUDGET


def test_single_head_has_no_clusters(minilm) -> None:
    survey = api.heads("hi there", minilm, head="0.0")
    assert isinstance(survey, HeadSurvey)
    assert survey.clusters is None
    assert survey.record()["clusters"] is None


def test_few_rows_and_none_are_said(minilm, monkeypatch) -> None:
    monkeypatch.setattr(module, "BUDGET", 72 * 71 // 2 * 4 * 2)
    survey = api.heads("hi there", minilm)
    assert isinstance(survey, HeadSurvey)
    assert survey.record()["clusters"]["rows"] == 2
    assert "heads are compared on 2 of 4 query rows, evenly spaced" in survey.notes
    monkeypatch.setattr(module, "BUDGET", 10)
    survey = api.heads("hi there", minilm)
    assert survey.record()["clusters"] is None
    assert any("-l and -H choose some" in note for note in survey.notes)


def test_no_rows_give_no_clusters() -> None:
    assert find_clusters(KeptRows(Heads((0,), (0, 1)), np.array([], np.int64), 3)) is None
