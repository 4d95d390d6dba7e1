"""Numbers on their way into JSON and tables."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attncli.numbers import format_fraction, to_json


@given(
    arrays(np.float32, (2, 3), elements=st.floats(width=32, allow_nan=False, allow_infinity=False))
)
def test_json_reads_back_as_the_same_float32(values: np.ndarray) -> None:
    text = json.dumps(to_json(values), allow_nan=False)
    np.testing.assert_array_equal(np.array(json.loads(text), np.float32), values)


def test_float32_is_written_with_its_own_digits_only() -> None:
    assert json.dumps(to_json(np.float32([0.1, 1e-8]))) == "[0.1, 1e-08]"
    assert json.dumps(to_json(np.float32(0.7))) == "0.7"


def test_masked_entries_become_null() -> None:
    assert to_json(np.array([[1, -np.inf], [0.5, 2]], np.float32)) == [[1.0, None], [0.5, 2.0]]
    assert to_json(np.float32(-np.inf)) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_never_leave(bad: float) -> None:
    with pytest.raises(ValueError, match="NaN or infinity"):
        to_json([0.0, bad])


def test_integers_and_flags_stay_what_they_are() -> None:
    assert json.dumps(to_json(np.array([2**40, -1]))) == f"[{2**40}, -1]"
    assert json.dumps(to_json(np.array([True, False]))) == "[true, false]"


def test_empty_arrays_stay_empty() -> None:
    assert to_json(np.zeros((0, 3), np.float32)) == []
    assert to_json(np.zeros((2, 0), np.float32)) == [[], []]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.236, ".24"),
        (0.999, "1.00"),
        (-0.034, "-.03"),
        (-0.004, ".00"),
        (10.0, "10.00"),
        (0.0, ".00"),
    ],
)
def test_fractions_drop_the_zero_before_the_point(value: float, text: str) -> None:
    assert format_fraction(value) == text
