"""Small helpers that family modules share to spell their sources."""

from __future__ import annotations

import numpy as np

from attncli.model.params import Source


def transpose(values: np.ndarray) -> np.ndarray:
    """Turn [output, input] (how torch stores a linear map) into [input, output]; a view."""
    return values.T


def linear(
    name: str, tensor: str, d_in: int, d_out: int, *, bias: bool = True, optional: bool = False
) -> dict[str, Source]:
    """Sources of one linear map stored as torch does, [output, input]."""
    found = {f"{name}.weight": Source(f"{tensor}.weight", (d_out, d_in), transpose, optional)}
    if bias:
        found[f"{name}.bias"] = Source(f"{tensor}.bias", (d_out,), None, optional)
    return found


def norm(name: str, tensor: str, width: int, *, bias: bool = True) -> dict[str, Source]:
    """Sources of one norm slot."""
    found = {f"{name}.weight": Source(f"{tensor}.weight", (width,))}
    if bias:
        found[f"{name}.bias"] = Source(f"{tensor}.bias", (width,))
    return found
