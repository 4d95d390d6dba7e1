"""The largest numbers of each row, faster than sorting or partitioning all of it."""

from __future__ import annotations

import numpy as np

from attncli._shapes import Float, Int

Array = np.ndarray

GROUP = 16
"""Numbers of which at first only the largest is looked at."""


def largest(values: Float[Array, "*row key"], k: int) -> Int[Array, "*row place"]:
    """Return the places of the k largest numbers of each row, in no order.

    All places where a row has no more than k. Long rows are looked at in groups of GROUP numbers:
    the k largest stand in the k groups with the largest maxima, so only those are partitioned.
    """
    n = values.shape[-1]
    if n <= k:
        return np.broadcast_to(np.arange(n), values.shape)
    width = n // GROUP
    if width <= 2 * k:
        return np.argpartition(values, -k, axis=-1)[..., -k:]
    # number g of a group is g · width behind the first, so that maxima are taken along rows
    head = values[..., : width * GROUP].reshape(*values.shape[:-1], GROUP, width)
    groups = np.argpartition(head.max(axis=-2), -k, axis=-1)[..., -k:]
    places = groups[..., None, :] + np.arange(GROUP)[:, None] * width
    places = places.reshape(*values.shape[:-1], GROUP * k)
    tail = np.arange(width * GROUP, n)
    tail = np.broadcast_to(tail, (*values.shape[:-1], len(tail)))
    places = np.concatenate([places, tail], axis=-1)
    best = np.argpartition(np.take_along_axis(values, places, axis=-1), -k, axis=-1)[..., -k:]
    return np.take_along_axis(places, best, axis=-1)
