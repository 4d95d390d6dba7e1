"""Elementwise steps against plain float64 formulas from the standard library."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attncli.model import ops

GRID = np.linspace(-12, 12, 4001).astype(np.float32)


def exactly(formula: object) -> np.ndarray:
    """Apply a float64 formula to the grid."""
    return np.array([formula(float(x)) for x in GRID])


def test_error_function_is_within_its_documented_bound() -> None:
    assert np.abs(ops.erf(GRID) - exactly(math.erf)).max() <= 5e-7


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("gelu", lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2)))),
        (
            "gelu_new",
            lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        ),
        ("relu", lambda x: max(x, 0.0)),
        ("silu", lambda x: x / (1 + math.exp(-x))),
    ],
)
def test_activation_equals_its_formula_and_leaves_its_input_alone(
    name: str, formula: object
) -> None:
    x = GRID.copy()
    assert np.abs(ops.ACTIVATIONS[name](x) - exactly(formula)).max() <= 3e-6
    np.testing.assert_array_equal(x, GRID)


def test_silu_of_a_large_negative_number_is_zero_and_no_warning() -> None:
    assert ops.silu(np.float32([-1000.0])).tolist() == [0]


ROWS = arrays(np.float32, (3, 6), elements=st.floats(-30, 30, width=32))


@given(ROWS)
def test_softmax_rows_sum_to_one_and_ignore_a_constant_on_a_row(scores: np.ndarray) -> None:
    weights = ops.softmax(scores.copy())
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-6)
    np.testing.assert_allclose(ops.softmax(scores + np.float32(7)), weights, atol=1e-5)


def test_softmax_gives_masked_entries_exactly_zero_and_survives_large_scores() -> None:
    weights = ops.softmax(np.array([[1e4, -np.inf, 1e4], [-1e4, 0, -np.inf]], np.float32))
    assert weights.tolist() == [[0.5, 0, 0.5], [0, 1, 0]]


def test_layer_norm_equals_its_formula() -> None:
    rng = np.random.default_rng(0)
    x, weight, bias = (rng.normal(2, 3, s).astype(np.float32) for s in ((4, 8), (8,), (8,)))
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 0.1)
    kept = x.copy()
    np.testing.assert_allclose(
        ops.layer_norm(x, weight, bias, 0.1), expected * weight + bias, rtol=1e-5, atol=1e-5
    )
    np.testing.assert_array_equal(x, kept)


def test_layer_norm_of_a_constant_row_is_its_bias() -> None:
    ones = np.ones(4, np.float32)
    found = ops.layer_norm(np.full((1, 4), 7, np.float32), ones, 2 * ones, 1e-12)
    assert found.tolist() == [[2, 2, 2, 2]]


def test_rms_norm_equals_its_formula_and_does_not_centre() -> None:
    x = np.array([[3, 4, 0, 0]], np.float32)
    weight = np.array([1, 2, 1, 1], np.float32)
    found = ops.rms_norm(x, weight, None, 0.0)
    np.testing.assert_allclose(found, [[3 / 2.5, 8 / 2.5, 0, 0]], rtol=1e-6)


@pytest.mark.parametrize("window", [None, 1, 2, 9])
@pytest.mark.parametrize("causal", [True, False])
def test_visible_keys_follow_the_definition_in_any_block(causal: bool, window: int | None) -> None:
    queries, keys = slice(3, 6), slice(1, 7)
    seen = ops.visible(queries, keys, causal=causal, window=window)
    expected = [
        [
            (k <= q and (window is None or q - k < window))
            if causal
            else (window is None or abs(q - k) <= window)
            for k in range(1, 7)
        ]
        for q in range(3, 6)
    ]
    assert (np.ones((3, 6), bool) if seen is None else seen).tolist() == expected
