"""The measures that are computed only when asked for: rollout and value-zeroing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attncli._shapes import Float, Int
from attncli.errors import UsageProblem
from attncli.model.load import Model
from attncli.model.observe import Observer
from attncli.model.spec import StackSpec
from attncli.selection import By, Heads

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Measuring:
    """An observer that works a measure out, and how to ask it for the result."""

    observer: Observer
    shares: Callable[[], Float[Array, "row token"]]
    """Shares of each chosen row, once the run is over; rows sum to 1."""


def start_measuring(
    by: By,
    model: Model,
    stack: StackSpec,
    heads: Heads,
    rows: Int[Array, " row"],
    n_keys: int,
    *,
    cross: bool = False,
) -> Measuring | None:
    """Return what works out a measure; None for weight and contribution, which are always there.

    Args:
        by: the measure.
        model: what will run.
        stack: the stack that is looked at.
        heads: chosen layers and heads.
        rows: rising token positions of the rows that are wanted.
        n_keys: tokens of the text that is read.
        cross: rows and columns are two texts.

    Raises:
        UsageProblem: the measure has no meaning here, or cannot be told by this engine.
    """
    if by == "rollout":
        if cross:
            raise UsageProblem(
                "--by rollout: cross-attention leads from one text to another, so its layers are "
                "no chain; use --attention self, or another measure."
            )
        if stack.causal and model.engine == "torch":
            raise UsageProblem(
                "--by rollout: with --engine torch it is not known what each layer of a causal "
                "model can see; leave --engine out, or use --by weight."
            )
        from attncli.analyses.rollout import Rollout

        rollout = Rollout(heads, stack, n_keys)
        return Measuring(rollout, lambda: rollout.result()[rows])
    if by == "value-zeroing":
        if model.engine == "torch":
            raise UsageProblem(
                "--by value-zeroing runs parts of a block again, which --engine torch cannot; "
                "leave --engine out, or use --by contribution."
            )
        from attncli.analyses.value_zeroing import ValueZeroing

        zeroing = ValueZeroing(heads, rows, n_keys)
        return Measuring(zeroing, lambda: zeroing.shares)
    return None


def uniform_weights(
    stack: StackSpec, layers: tuple[int, ...], n_keys: int, *, cross: bool
) -> Callable[[int], float]:
    """Return what gives the weight of each key if a query weighed all that it sees alike.

    1/n in models that see both ways, 1/(i + 1) for query i of a causal one; with windows the mean
    over the layers.
    """

    def uniform(query: int) -> float:
        return sum(1 / _visible(stack, i, query, n_keys, cross) for i in layers) / len(layers)

    return uniform


def _visible(stack: StackSpec, layer: int, query: int, n_keys: int, cross: bool) -> int:
    window = stack.layers[layer].window
    if cross or (window is None and not stack.causal):
        return n_keys
    if stack.causal:
        return query + 1 if window is None else min(query + 1, window)
    assert window is not None
    return min(n_keys, query + window + 1) - max(0, query - window)
