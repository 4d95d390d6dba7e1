"""The largest numbers of each row, whatever its length."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncli.analyses.largest import GROUP, largest


@given(st.integers(1, 1200), st.integers(1, 20), st.integers(0, 5), st.booleans())
def test_they_are_those_that_sorting_finds(n: int, k: int, seed: int, ties: bool) -> None:
    values = np.random.default_rng(seed).normal(size=(2, 3, n)).astype(np.float32)
    values = values.round(1) if ties else values
    places = largest(values, k)
    assert places.shape == (2, 3, min(k, n))
    found = np.sort(np.take_along_axis(values, places, axis=-1), axis=-1)
    np.testing.assert_array_equal(found, np.sort(values, axis=-1)[..., -k:])
    assert all(len(set(row)) == len(row) for row in places.reshape(-1, places.shape[-1]).tolist())


@pytest.mark.parametrize("at", [0, 1, 999, 1000, GROUP * 62 - 1, GROUP * 62])
def test_single_peak_is_found_anywhere(at: int) -> None:
    values = np.zeros((1, 1001), np.float32)
    values[0, at] = 1
    assert at in largest(values, 4)[0]


def test_masked_entries_come_last() -> None:
    values = np.full((1, 2000), -np.inf, np.float32)
    values[0, [3, 700, 1999]] = [0.1, 0.2, 0.3]
    assert {3, 700, 1999} <= set(largest(values, 5)[0].tolist())
