"""What of one block the observers want to see whole, gathered while threads work on its rows."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np

from attncli._shapes import Float
from attncli.model.observe import Observer
from attncli.model.stack import Stack

Array = np.ndarray

STEPS = (
    *("resid_pre", "attn_in", "attn.q", "attn.k", "attn.v", "attn.q_norm", "attn.k_norm"),
    *(
        "attn_out",
        "resid_mid",
        "cross_in",
        "cross.q",
        "cross.k",
        "cross.v",
        "cross.q_norm",
        "cross.k_norm",
    ),
    *("cross_mid", "ffn_out", "conv", "resid_post"),
)
"""Steps of a layer in the order in which they are shown."""
OF_MEMORY = ("cross.k", "cross.v", "cross.k_norm")
"""Those that have a row for each token of the source text."""


@dataclass(slots=True)
class Kept:
    """Whole matrices of one layer, each only if somebody wants it."""

    wanted: frozenset[str]
    lock: threading.Lock
    whole: dict[str, Float[Array, "row width"]] = field(default_factory=dict)

    def put(self, name: str, rows: slice, n_rows: int, values: Float[Array, "part width"]) -> None:
        """Keep some rows of something.

        Args:
            name: a step, or attn.mixed, attn.out, cross.mixed, cross.out.
            rows: which rows these are.
            n_rows: how many there are in all.
            values: the rows.
        """
        if name not in self.wanted:
            return
        with self.lock:
            if name not in self.whole:
                self.whole[name] = np.empty((n_rows, values.shape[1]), np.float32)
        self.whole[name][rows] = values


def wanted(stack: Stack, layer: int) -> frozenset[str]:
    """Return the names of what the observers of a stack want to see of a layer."""
    names: set[str] = set()
    for observer in stack.everybody:
        kind = _kind(observer)
        if layer in observer.step_layers:
            names.update(STEPS)
        if layer in observer.output_layers:
            names.add(f"{kind}.out")
        if layer in observer.block_layers:
            names |= {f"{kind}.mixed", "resid_pre" if kind == "attn" else "resid_mid"}
    return frozenset(names)


def show(kept: Kept, stack: Stack, layer: int) -> None:
    """Show the outputs of attention, then the steps, to those who want them."""
    for span, observers in zip(stack.spans, stack.observers, strict=True):
        for observer in observers:
            whole = kept.whole.get(f"{_kind(observer)}.out")
            if layer in observer.output_layers and whole is not None:
                observer.on_output(layer, whole[span])
    for name in STEPS:
        if name in kept.whole:
            spans = stack.memory_spans if name in OF_MEMORY else stack.spans
            stack.show(layer, name, kept.whole[name], spans)


def _kind(observer: Observer) -> str:
    return "cross" if observer.kind == "cross" else "attn"
