"""Embedding, blocks, final norm: the walk from token ids to contextual embeddings.

Several texts run side by side as rows of one matrix, without padding: each layer's parameters
are read once for all of them, and attention stays within its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from attncli._shapes import Float
from attncli.errors import InputProblem
from attncli.model.block import run_block
from attncli.model.crew import crew_for
from attncli.model.embed import embed
from attncli.model.observe import Observer
from attncli.model.params import Params, Workspace
from attncli.model.spec import ModelSpec
from attncli.model.stack import ENCODER, Stack, norm_slot, spans_of, tasks_of

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Job:
    """One text to run and who watches it."""

    ids: Sequence[int]
    """Token ids, special tokens included; of an encoder-decoder those of the target text."""
    types: Sequence[int]
    """Segment number of each token (0, or 1 for the second text of a pair)."""
    observers: Sequence[Observer]
    source: Sequence[int] = field(default=())
    """Token ids the encoder of an encoder-decoder reads; empty for all other models."""


def run(spec: ModelSpec, params: Params, jobs: Sequence[Job]) -> None:
    """Run all jobs and show their observers what they asked for; then stop.

    Nothing after the last state or layer that an observer wants is computed.

    Raises:
        InputProblem: an encoder-decoder without a source text, or another model with one.
    """
    if any(bool(job.source) != (spec.encoder is not None) for job in jobs):
        raise InputProblem("An encoder-decoder needs a source text, and only it takes one.")
    memory: Array | None = None
    memory_spans: list[slice] = []
    targets = [job for job in jobs if job.ids]
    if spec.encoder is not None:
        ids = [job.source for job in jobs]
        needs_output = any(o.stack == "main" for job in jobs for o in job.observers)
        spans = spans_of(ids)
        watching = _watching(jobs, "encoder")
        stack = Stack(spec.encoder, params, ENCODER, spans, watching, tasks=tasks_of(spans))
        x = embed(spec, stack, ids, [[0] * len(i) for i in ids])
        memory = _run_stack(stack, x, to_the_end=needs_output)
        memory_spans = [s for s, job in zip(stack.spans, jobs, strict=True) if job.ids]
    if targets:
        ids = [job.ids for job in targets]
        spans, watching = spans_of(ids), _watching(targets, "main")
        tasks = tasks_of(spans)
        stack = Stack(spec.stack, params, "", spans, watching, memory, memory_spans, tasks)
        x = embed(spec, stack, ids, [job.types for job in targets])
        _run_stack(stack, x, to_the_end=False)


def _run_stack(
    stack: Stack, x: Float[Array, "row d_model"], *, to_the_end: bool
) -> Float[Array, "row d_model"]:
    n_layers = stack.spec.n_layers
    # what an observer of whole blocks wants is a layer's end, which is the state after it
    last_state = n_layers if to_the_end else _last(o.states for o in stack.everybody)
    last_state = max(last_state, 1 + _last(o.block_layers for o in stack.everybody))
    last_state = max(last_state, 1 + _last(o.step_layers for o in stack.everybody))
    last_layer = _last(o.attention_layers | o.output_layers for o in stack.everybody)
    n_run = max(last_state, last_layer + 1)
    workspace = Workspace(stack.params, stack.prefix)
    stack.show_state(0, _final(stack, x) if n_layers == 0 else x)
    with crew_for(len(x) if n_run else 0) as crew:
        for i in range(n_run):
            only_attention = i == last_layer and i >= last_state
            y = run_block(stack, workspace.layer(i), i, x, crew, only_attention=only_attention)
            if only_attention:
                break
            x = y
            if i + 1 == n_layers:
                x = _final(stack, x)
            stack.show_state(i + 1, x)
    return x


def _last(chosen: Iterable[frozenset[int]]) -> int:
    """Return the last layer or state that somebody chose, or -1."""
    return max((max(numbers, default=-1) for numbers in chosen), default=-1)


def _final(stack: Stack, x: Array) -> Array:
    return norm_slot(stack.spec, stack.params, f"{stack.prefix}final_norm", x)


def _watching(jobs: Sequence[Job], stack: str) -> list[list[Observer]]:
    return [[o for o in job.observers if o.stack == stack] for job in jobs]
