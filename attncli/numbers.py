"""Numbers on their way out: JSON without NaN or Infinity, shortest text that keeps the value."""

from __future__ import annotations

from typing import Any

import numpy as np


def to_json(values: Any) -> Any:
    """Return numbers as JSON holds them: nested lists of floats, masked (-inf) entries null.

    A float32 is written with the fewest digits that read back as the same float32.

    Raises:
        ValueError: NaN or +inf, which no result may hold.
    """
    array = np.asarray(values)
    if array.dtype.kind in "iub":
        return array.tolist()
    array = array.astype(np.float32)
    if np.isnan(array).any() or np.isposinf(array).any():
        raise ValueError("a result holds NaN or infinity")
    return _nested(array)


def number_text(value: float) -> str:
    """Return a float32 with the fewest digits that read back as it; empty when masked (-inf).

    Raises:
        ValueError: NaN or +inf.
    """
    text = str(np.float32(value))
    if text in ("nan", "inf"):
        raise ValueError("a result holds NaN or infinity")
    return "" if text == "-inf" else text


def _nested(array: np.ndarray) -> Any:
    if array.ndim == 0:
        return None if np.isneginf(array) else float(str(array))
    if array.ndim > 1:
        return [_nested(row) for row in array]
    return [None if value == "-inf" else float(value) for value in map(str, array)]


def format_fraction(value: float, digits: int = 2) -> str:
    """Write a number without the zero before the point: .24, 1.00, -.03."""
    text = f"{value:z.{digits}f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text
