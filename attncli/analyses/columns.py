"""Columns that several results share."""

from __future__ import annotations

from attncli.results import Column


def state_names(n_layers: int) -> list[str]:
    """Name the states: the embedding, then the output of each layer (the last: final norm in)."""
    return ["embedding", *(f"L{i}" for i in range(n_layers))]


def state_columns(n_layers: int, unit: str) -> list[Column]:
    """One column a state. Where room is short, every second state goes first, then every fourth.

    The embedding and, longest, the last state stay.
    """
    columns = []
    for i, name in enumerate(state_names(n_layers)):
        priority = 50 + (i & -i).bit_length()
        priority = {0: 70, n_layers: 75}.get(i, priority)
        columns.append(Column(name, "cosine", unit, priority=priority))
    return columns
