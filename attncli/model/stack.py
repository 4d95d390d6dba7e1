"""One stack of a run: what to compute, of which texts, for whom; and its norm slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from attncli._shapes import Float
from attncli.model.observe import Observer
from attncli.model.ops import NORMS
from attncli.model.params import LayerParams, Params
from attncli.model.spec import StackSpec

Array = np.ndarray
ENCODER = "encoder."
"""Prefix of the parameters of an encoder-decoder's encoder."""


TASK_ROWS = 256
"""Rows that go through a layer together, so that what is made of them stays in cache."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of one text."""

    text: int
    """Number of the text in the run."""
    rows: slice
    """Positions in the text."""
    n_tokens: int
    """Length of the whole text."""


@dataclass(frozen=True, slots=True)
class Task:
    """Rows that one thread takes through a layer: a part of a text, or several short texts."""

    rows: slice
    """Rows among those of all texts."""
    pieces: tuple[Piece, ...]
    """What they are, in order."""


@dataclass(frozen=True, slots=True)
class Stack:
    """One stack of a run. Several texts stand below each other as rows of one matrix."""

    spec: StackSpec
    params: Params
    prefix: str
    spans: Sequence[slice]
    """Rows of each text."""
    observers: Sequence[Sequence[Observer]]
    """Of each text."""
    memory: Float[Array, "source_row d_model"] | None = None
    """The encoder's output, for cross-attention."""
    memory_spans: Sequence[slice] = ()
    tasks: Sequence[Task] = ()
    """All rows, in parts."""

    @property
    def everybody(self) -> list[Observer]:
        """All observers of all texts."""
        return [observer for observers in self.observers for observer in observers]

    def show_state(self, index: int, x: Float[Array, "row d_model"]) -> None:
        """Hand a state of the residual stream to those who asked for it."""
        for span, observers in zip(self.spans, self.observers, strict=True):
            for observer in observers:
                if index in observer.states:
                    observer.on_state(index, x[span])

    def show(
        self,
        layer: int,
        name: str,
        x: Float[Array, "row width"],
        spans: Sequence[slice] | None = None,
    ) -> None:
        """Hand a step of the arithmetic to those who follow it.

        Args:
            layer: number of the layer; EMBEDDING before the first.
            name: see `Observer.on_step`.
            x: values of all texts.
            spans: rows of each text where they are not those of the stack.
        """
        for span, observers in zip(spans or self.spans, self.observers, strict=True):
            for observer in observers:
                if layer in observer.step_layers:
                    observer.on_step(layer, name, x[span])


def spans_of(ids: Sequence[Sequence[int]]) -> list[slice]:
    """Return the rows of texts that stand below each other."""
    bounds = np.cumsum([0, *map(len, ids)]).tolist()
    return [slice(a, b) for a, b in pairwise(bounds)]


def tasks_of(spans: Sequence[slice], most: int = TASK_ROWS) -> list[Task]:
    """Cut the rows of texts into tasks of at most `most` rows.

    A long text becomes several tasks, the last rows first: in causal models they take longest.
    Short ones that follow each other share a task.
    """
    tasks: list[Task] = []
    pieces: list[Piece] = []
    begin = 0

    def flush(end: int) -> None:
        nonlocal pieces, begin
        if pieces:
            tasks.append(Task(slice(begin, end), tuple(pieces)))
        pieces, begin = [], end

    for text, span in enumerate(spans):
        n = span.stop - span.start
        if span.stop - begin > most:
            flush(span.start)
        for start in range(0, n, most):
            stop = min(start + most, n)
            pieces.append(Piece(text, slice(start, stop), n))
            if stop < n:
                flush(span.start + stop)
    if spans:
        flush(spans[-1].stop)
    return tasks[::-1]


def norm_slot(stack: StackSpec, params: Params | LayerParams, slot: str, x: Array) -> Array:
    """Apply the norm of a slot; an empty slot leaves x as it is."""
    weight = params.get(f"{slot}.weight")
    if weight is None and slot.rsplit(".", 1)[-1] not in stack.plain_norms:
        return x
    if weight is None:
        weight = np.ones(x.shape[1], np.float32)
    elif stack.norm_offset:
        weight = weight + np.float32(stack.norm_offset)
    return NORMS[stack.norm](x, weight, params.get(f"{slot}.bias"), stack.eps)
