"""Embedding, blocks, final norm: the walk from token ids to contextual embeddings.

Several texts run side by side as rows of one matrix, without padding: each layer's parameters
are read once for all of them, and attention stays within its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from attncli._shapes import Float
from attncli.errors import InputProblem
from attncli.model.attention import attend
from attncli.model.ffn import affine, convolve, feed_forward
from attncli.model.observe import Observer
from attncli.model.ops import ACTIVATIONS, NORMS
from attncli.model.params import LayerParams, Params, Workspace
from attncli.model.position import bias_for
from attncli.model.spec import ModelSpec, StackSpec

Array = np.ndarray
ENCODER = "encoder."
"""Prefix of the parameters of an encoder-decoder's encoder."""


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


@dataclass(frozen=True, slots=True)
class _Stack:
    """One stack of a run: what to compute, of what, for whom."""

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
        stack = _Stack(spec.encoder, params, ENCODER, _spans(ids), _watching(jobs, "encoder"))
        x = _embed(spec, params, ENCODER, ids, [[0] * len(i) for i in ids])
        memory = _run_stack(stack, x, to_the_end=needs_output)
        memory_spans = [s for s, job in zip(stack.spans, jobs, strict=True) if job.ids]
    if targets:
        ids = [job.ids for job in targets]
        watching = _watching(targets, "main")
        stack = _Stack(spec.stack, params, "", _spans(ids), watching, memory, memory_spans)
        x = _embed(spec, params, "", ids, [job.types for job in targets])
        _run_stack(stack, x, to_the_end=False)


def _run_stack(
    stack: _Stack, x: Float[Array, "row d_model"], *, to_the_end: bool
) -> Float[Array, "row d_model"]:
    everybody = [observer for observers in stack.observers for observer in observers]
    n_layers = stack.spec.n_layers
    last_state = max((max(o.states, default=-1) for o in everybody), default=-1)
    last_state = n_layers if to_the_end else last_state
    last_layer = max(
        (max(o.attention_layers | o.output_layers, default=-1) for o in everybody), default=-1
    )
    workspace = Workspace(stack.params, stack.prefix)
    _show(stack, 0, _final(stack, x) if n_layers == 0 else x)
    for i in range(max(last_state, last_layer + 1)):
        only_attention = i == last_layer and i >= last_state
        layer = workspace.layer(i)
        y = _block(stack, layer, i, x, only_attention=only_attention)
        if only_attention:
            break
        if "conv.weight" in layer:
            beside = convolve(x, layer.linear("conv"), stack.spans)
            y = y + ACTIVATIONS[stack.spec.conv_activation](beside)
            y = _norm(stack.spec, layer, "conv_residual", y)
        x = y
        if i + 1 == n_layers:
            x = _final(stack, x)
        _show(stack, i + 1, x)
    return x


def _embed(
    spec: ModelSpec,
    params: Params,
    prefix: str,
    ids: Sequence[Sequence[int]],
    types: Sequence[Sequence[int]],
) -> Float[Array, "row d_model"]:
    """Return token + position + type embeddings, normalised and widened where the model does.

    Tokens are widened alone (token_proj, OPT) or all at the end (embed_proj, ELECTRA).
    """
    stack = spec.encoder if prefix and spec.encoder is not None else spec.stack
    x = params.rows(f"{prefix}embed.token", np.concatenate(ids))
    if spec.embed_scale != 1.0:
        x = x * np.float32(spec.embed_scale)
    if f"{prefix}token_proj.weight" in params:
        x = affine(x, params.linear(f"{prefix}token_proj"))
    positions = np.concatenate([_positions(i, spec.uncounted_token) for i in ids])
    if f"{prefix}embed.position" in params:
        x = x + params.rows(f"{prefix}embed.position", positions + spec.position_offset)
    elif spec.sinusoid:
        x = x + sinusoids(positions, x.shape[1])
    if f"{prefix}embed.type" in params:
        x = x + params.rows(f"{prefix}embed.type", np.concatenate(types))
    x = _norm(stack, params, f"{prefix}embed_norm", x)
    if f"{prefix}embed_proj.weight" in params:
        x = affine(x, params.linear(f"{prefix}embed_proj"))
    return x


def _positions(ids: Sequence[int], uncounted: int | None) -> Array:
    """Return 0, 1, 2 … for the tokens that count, and -1 for those that do not."""
    counted = np.asarray(ids) != (-1 if uncounted is None else uncounted)
    return np.where(counted, np.cumsum(counted), 0) - 1


def sinusoids(positions: Array, width: int) -> Float[Array, "row width"]:
    """Return sines then cosines of position / 10000^(2i / width); an odd width has one more sine.

    Source: Vaswani et al. 2017, section 3.5, in the order of transformers' Marian and Pegasus.
    """
    rates = 10000.0 ** (-2.0 * np.arange((width + 1) // 2) / width)
    turns = positions[:, None] * rates
    both = np.concatenate([np.sin(turns), np.cos(turns[:, : width // 2])], axis=1)
    return both.astype(np.float32)


def _block(
    stack: _Stack,
    layer: LayerParams,
    i: int,
    x: Float[Array, "row d_model"],
    *,
    only_attention: bool,
) -> Float[Array, "row d_model"]:
    """One transformer block. An empty norm slot leaves its argument as it is."""
    spec = stack.spec
    y = _norm(spec, layer, "attn_in", x)
    crosses = stack.memory is not None and "cross.q.weight" in layer
    ends = only_attention and not (crosses or spec.parallel)
    a = _attention(stack, layer, "attn", i, y, y, stack.spans)
    if ends:
        return x
    if spec.parallel:
        y = feed_forward(spec, layer, _norm(spec, layer, "ffn_in", x))
        return x + _scaled(spec, a) + _scaled(spec, y)
    x = x + _scaled(spec, _norm(spec, layer, "attn_out", a))
    x = _norm(spec, layer, "attn_residual", x)
    if crosses and stack.memory is not None:
        y = _norm(spec, layer, "cross_in", x)
        c = _attention(stack, layer, "cross", i, y, stack.memory, stack.memory_spans)
        if only_attention:
            return x
        x = _norm(spec, layer, "cross_residual", x + c)
    if "ffn.up.weight" not in layer and "ffn.router.weight" not in layer:
        return x
    y = feed_forward(spec, layer, _norm(spec, layer, "ffn_in", x))
    x = x + _scaled(spec, _norm(spec, layer, "ffn_out", y))
    return _norm(spec, layer, "ffn_residual", x)


def _attention(
    stack: _Stack,
    layer: LayerParams,
    kind: str,
    i: int,
    x: Float[Array, "row d_model"],
    read: Float[Array, "key_row d_model"],
    read_spans: Sequence[slice],
) -> Float[Array, "row d_model"]:
    """Project, attend within each text (or to its source text), project back."""
    spec, cross = stack.spec, kind == "cross"
    q = affine(x, layer.linear(f"{kind}.q"))
    k, v = (affine(read, layer.linear(f"{kind}.{role}")) for role in "kv")
    if spec.qkv_clip is not None:
        for projected in (q, k, v):
            np.clip(projected, -spec.qkv_clip, spec.qkv_clip, out=projected)
    q = _qk_norm(spec, layer, f"{kind}.q_norm", q)
    k = _qk_norm(spec, layer, f"{kind}.k_norm", k)
    has_output = f"{kind}.o.weight" in layer
    projection = layer.linear(f"{kind}.o") if has_output else None
    by_head = projection and projection[0].reshape(spec.n_heads, spec.head_dim, -1)
    sinks = layer.get(f"{kind}.sinks")
    mixed = np.empty_like(q)
    for own, other, observers in zip(stack.spans, read_spans, stack.observers, strict=True):
        watching = [
            o for o in observers if i in o.attention_layers and (o.kind == "cross") == cross
        ]
        n_own, n_other = own.stop - own.start, other.stop - other.start
        bias = None
        if not cross:
            bias = bias_for(spec, stack.params, stack.prefix, layer, n_own, n_other)
        mixed[own] = attend(
            spec,
            spec.layers[i],
            i,
            q[own],
            k[other],
            v[other],
            by_head,
            watching,
            bias=bias,
            sinks=sinks,
            cross=cross,
        )
    out = mixed if projection is None else affine(mixed, projection)
    for own, observers in zip(stack.spans, stack.observers, strict=True):
        for observer in observers:
            if i in observer.output_layers and (observer.kind == "cross") == cross:
                observer.on_output(i, out[own])
    return out


def _qk_norm(spec: StackSpec, layer: LayerParams, slot: str, x: Array) -> Array:
    """Norm of queries or keys: over each head when its weight is as wide as a head, else over all.

    A weight [head, head_dim] holds another weight for each head.
    """
    weight = layer.get(f"{slot}.weight")
    if weight is None:
        return x
    if weight.shape == (x.shape[1],):
        return _norm(spec, layer, slot, x)
    heads = x.reshape(-1, spec.head_dim)
    if weight.ndim == 2:
        ones = np.ones(spec.head_dim, np.float32)
        normed = NORMS[spec.norm](heads, ones, None, spec.eps).reshape(len(x), *weight.shape)
        return (normed * weight).reshape(x.shape)
    return _norm(spec, layer, slot, heads).reshape(x.shape)


def _norm(stack: StackSpec, params: Params | LayerParams, slot: str, x: Array) -> Array:
    weight = params.get(f"{slot}.weight")
    if weight is None and slot.rsplit(".", 1)[-1] not in stack.plain_norms:
        return x
    if weight is None:
        weight = np.ones(x.shape[1], np.float32)
    elif stack.norm_offset:
        weight = weight + np.float32(stack.norm_offset)
    return NORMS[stack.norm](x, weight, params.get(f"{slot}.bias"), stack.eps)


def _scaled(stack: StackSpec, x: Array) -> Array:
    return x if stack.residual_scale == 1.0 else x * np.float32(stack.residual_scale)


def final_norm(
    stack: StackSpec, params: Params, x: Float[Array, "row d_model"], prefix: str = ""
) -> Float[Array, "row d_model"]:
    """Apply the norm after the last block, where a model has one; else return x."""
    return _norm(stack, params, f"{prefix}final_norm", x)


def _final(stack: _Stack, x: Array) -> Array:
    return final_norm(stack.spec, stack.params, x, stack.prefix)


def _show(stack: _Stack, index: int, x: Array) -> None:
    for span, observers in zip(stack.spans, stack.observers, strict=True):
        for observer in observers:
            if index in observer.states:
                observer.on_state(index, x[span])


def _spans(ids: Sequence[Sequence[int]]) -> list[slice]:
    bounds = np.cumsum([0, *map(len, ids)]).tolist()
    return [slice(a, b) for a, b in pairwise(bounds)]


def _watching(jobs: Sequence[Job], stack: str) -> list[list[Observer]]:
    return [[o for o in job.observers if o.stack == stack] for job in jobs]
