"""Tensors of a mixture of experts: one tensor for each expert, or one for all of them.

Before transformers 5 every expert had tensors of its own, and files still have them. Models
saved otherwise have two for all experts: gate_up_proj [expert, 2 · d_ff, d_model] and down_proj
[expert, d_model, d_ff].
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from attncli.model.families.names import linear
from attncli.model.params import Source

Array = np.ndarray
ROLES = ("gate", "up", "down")


def expert_sources(
    block: int,
    tensor: str,
    tensors: Collection[str],
    *,
    n_experts: int,
    d_model: int,
    d_ff: int,
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
    fused: str | None = None,
) -> dict[str, Source]:
    """Sources of the gated experts of one block.

    Args:
        block: number of the block.
        tensor: what the names of the experts begin with where each has its own.
        tensors: names in the checkpoint.
        n_experts: experts of the block.
        d_model: width of the residual stream.
        d_ff: inner width of an expert.
        names: of gate, up and down.
        fused: what the names begin with where all experts stand together, when it differs.
    """
    fused = fused or tensor
    found: dict[str, Source] = {}
    for expert in range(n_experts):
        name = f"{block}.ffn.{expert}"
        if f"{fused}.gate_up_proj" in tensors:
            found |= _slices(name, fused, expert, (n_experts, d_model, d_ff))
            continue
        for role, part in zip(ROLES, names, strict=True):
            d_in, d_out = (d_ff, d_model) if role == "down" else (d_model, d_ff)
            found |= linear(f"{name}.{role}", f"{tensor}.{expert}.{part}", d_in, d_out, bias=False)
    return found


def _slices(name: str, tensor: str, expert: int, sizes: tuple[int, int, int]) -> dict[str, Source]:
    n_experts, d_model, d_ff = sizes
    rows = (expert, expert + 1)
    both, down = (n_experts, 2 * d_ff, d_model), (n_experts, d_model, d_ff)

    def first(values: Array) -> Array:
        return values[0, :d_ff].T

    def second(values: Array) -> Array:
        return values[0, d_ff:].T

    def whole(values: Array) -> Array:
        return values[0].T

    return {
        f"{name}.gate.weight": Source(f"{tensor}.gate_up_proj", both, first, rows=rows),
        f"{name}.up.weight": Source(f"{tensor}.gate_up_proj", both, second, rows=rows),
        f"{name}.down.weight": Source(f"{tensor}.down_proj", down, whole, rows=rows),
    }
