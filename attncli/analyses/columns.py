"""Columns that several results share."""

from __future__ import annotations

import re

from attncli.display import display
from attncli.errors import UsageProblem
from attncli.results import Column


def state_names(n_layers: int) -> list[str]:
    """Name the states: the embedding, then the output of each layer (the last: final norm in)."""
    return ["embedding", *(f"L{i}" for i in range(n_layers))]


def choose_state(text: str, n_layers: int) -> int:
    """Resolve `embedding`, `L3` (the output of layer 3), a number or `-1` to a state.

    Numbers count states as every output does: 0 is the embedding, 1 the output of layer 0.

    Raises:
        UsageProblem: there is no such state; names those there are.
    """
    names = state_names(n_layers)
    wanted = text.strip()
    for number, name in enumerate(names):
        if wanted.casefold() == name.casefold():
            return number
    if re.fullmatch(r"-?\d{1,9}", wanted) and -len(names) <= int(wanted) < len(names):
        return int(wanted) % len(names)
    raise UsageProblem(
        f"--state {display(text)}: expected embedding, L0 to {names[-1]}, or a number: 0 (the "
        f"embedding) to {n_layers}, or -1 to -{n_layers + 1} from the end."
    )


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
