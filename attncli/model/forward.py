"""Embedding, blocks, final norm: the walk from token ids to contextual embeddings.

Several texts run side by side as rows of one matrix, without padding: each layer's parameters
are read once for all of them, and attention stays within its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attncli._shapes import Float
from attncli.model.attention import attend
from attncli.model.observe import Observer
from attncli.model.ops import ACTIVATIONS, NORMS
from attncli.model.params import LayerParams, Params, Workspace
from attncli.model.spec import ModelSpec, StackSpec

Array = np.ndarray

FFN_ROWS = 128
"""Rows that go through the feed-forward part together, so that its inner values stay in cache."""


@dataclass(frozen=True, slots=True)
class Job:
    """One text to run and who watches it."""

    ids: Sequence[int]
    """Token ids, special tokens included."""
    types: Sequence[int]
    """Segment number of each token (0, or 1 for the second text of a pair)."""
    observers: Sequence[Observer]


def run(spec: ModelSpec, params: Params, jobs: Sequence[Job]) -> None:
    """Run all jobs and show their observers what they asked for; then stop.

    Nothing after the last state or layer that an observer wants is computed.
    """
    stack = spec.stack
    last_state = max((max(o.states, default=-1) for j in jobs for o in j.observers), default=-1)
    last_layer = max(
        (max(o.attention_layers, default=-1) for j in jobs for o in j.observers), default=-1
    )
    bounds = np.cumsum([0, *(len(job.ids) for job in jobs)])
    spans = [slice(a, b) for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]
    workspace = Workspace(params)
    x = embed(spec, params, jobs)
    _show(jobs, spans, 0, _final(stack, params, x) if stack.n_layers == 0 else x)
    for i in range(max(last_state, last_layer + 1)):
        only_attention = i == last_layer and i >= last_state
        x = _block(stack, workspace.layer(i), i, x, jobs, spans, only_attention=only_attention)
        if not only_attention:
            is_last = i + 1 == stack.n_layers
            _show(jobs, spans, i + 1, _final(stack, params, x) if is_last else x)


def embed(spec: ModelSpec, params: Params, jobs: Sequence[Job]) -> Float[Array, "row d_model"]:
    """Return token + position + type embeddings, normalised where the model does."""
    x = params.rows("embed.token", np.concatenate([job.ids for job in jobs]))
    if "embed.position" in params:
        positions = np.concatenate([np.arange(len(job.ids)) for job in jobs])
        x = x + params.rows("embed.position", positions + spec.position_offset)
    if "embed.type" in params:
        x = x + params.rows("embed.type", np.concatenate([job.types for job in jobs]))
    return _norm(spec.stack, params, "embed_norm", x)


def _block(
    stack: StackSpec,
    layer: LayerParams,
    i: int,
    x: Float[Array, "row d_model"],
    jobs: Sequence[Job],
    spans: Sequence[slice],
    *,
    only_attention: bool,
) -> Float[Array, "row d_model"]:
    """One transformer block. An empty norm slot leaves its argument as it is."""
    y = _norm(stack, layer, "attn_in", x)
    q, k, v = (_affine(y, layer.linear(f"attn.{role}")) for role in "qkv")
    projection = layer.linear("attn.o") if "attn.o.weight" in layer else None
    by_head = projection and projection[0].reshape(stack.n_heads, stack.head_dim, -1)
    mixed = np.empty_like(q)
    for job, span in zip(jobs, spans, strict=True):
        watching = [o for o in job.observers if i in o.attention_layers]
        mixed[span] = attend(
            stack, stack.layers[i], i, q[span], k[span], v[span], by_head, watching
        )
    if only_attention:
        return x
    out = mixed if projection is None else _affine(mixed, projection)
    x = x + _norm(stack, layer, "attn_out", out)
    x = _norm(stack, layer, "attn_residual", x)
    if "ffn.up.weight" not in layer:
        return x
    y = _feed_forward(stack, layer, _norm(stack, layer, "ffn_in", x))
    x = x + _norm(stack, layer, "ffn_out", y)
    return _norm(stack, layer, "ffn_residual", x)


def _feed_forward(
    stack: StackSpec, layer: LayerParams, x: Float[Array, "row d_model"]
) -> Float[Array, "row d_model"]:
    """down(activation(up(x))), or down(activation(gate(x)) · up(x)) where there is a gate."""
    activate = ACTIVATIONS[stack.activation]
    up, down = layer.linear("ffn.up"), layer.linear("ffn.down")
    gate = layer.linear("ffn.gate") if "ffn.gate.weight" in layer else None
    out = np.empty((len(x), down[0].shape[1]), np.float32)
    for start in range(0, len(x), FFN_ROWS):
        rows = x[start : start + FFN_ROWS]
        inner = activate(_affine(rows, up if gate is None else gate))
        if gate is not None:
            inner *= _affine(rows, up)
        out[start : start + FFN_ROWS] = _affine(inner, down)
    return out


def _affine(x: Array, weights: tuple[Array, Array | None]) -> Array:
    y: Array = x @ weights[0]
    if weights[1] is not None:
        y += weights[1]
    return y


def _norm(stack: StackSpec, params: Params | LayerParams, slot: str, x: Array) -> Array:
    weight = params.get(f"{slot}.weight")
    if weight is None:
        return x
    return NORMS[stack.norm](x, weight, params.get(f"{slot}.bias"), stack.eps)


def _final(stack: StackSpec, params: Params, x: Array) -> Array:
    return _norm(stack, params, "final_norm", x)


def _show(jobs: Sequence[Job], spans: Sequence[slice], index: int, x: Array) -> None:
    for job, span in zip(jobs, spans, strict=True):
        for observer in job.observers:
            if index in observer.states:
                observer.on_state(index, x[span])
