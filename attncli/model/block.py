"""One transformer block: attention, what is done with it, feed-forward part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from attncli._shapes import Float, Int
from attncli.model.attention import attend
from attncli.model.ffn import affine, convolve, feed_forward
from attncli.model.observe import Block
from attncli.model.ops import ACTIVATIONS, NORMS
from attncli.model.params import LayerParams
from attncli.model.position import bias_for
from attncli.model.spec import StackSpec
from attncli.model.stack import Stack, norm_slot

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class _Rest:
    """What a block does after its heads, for all rows or for chosen ones."""

    stack: Stack
    layer: LayerParams
    i: int
    beside: Float[Array, "row d_model"] | None
    """What the convolution beside the block makes of the block's input."""

    def after_attention(self, x: Array, a: Array) -> Array:
        """Return the residual stream after attention (of parallel blocks: the block's output)."""
        spec, layer = self.stack.spec, self.layer
        a = norm_slot(spec, layer, "attn_out", a)
        if spec.parallel:
            y = feed_forward(spec, layer, norm_slot(spec, layer, "ffn_in", x))
            return x + _scaled(spec, a) + _scaled(spec, y)
        return norm_slot(spec, layer, "attn_residual", x + _scaled(spec, a))

    def after_cross(self, x: Array, c: Array) -> Array:
        """Return the residual stream after cross-attention."""
        return norm_slot(self.stack.spec, self.layer, "cross_residual", x + c)

    def to_the_end(self, x: Array, rows: Int[Array, " row"] | None = None) -> Array:
        """Return the block's output from the residual stream before the feed-forward part."""
        spec, layer = self.stack.spec, self.layer
        if not spec.parallel and ("ffn.up.weight" in layer or "ffn.router.weight" in layer):
            y = feed_forward(spec, layer, norm_slot(spec, layer, "ffn_in", x))
            x = x + _scaled(spec, norm_slot(spec, layer, "ffn_out", y))
            x = norm_slot(spec, layer, "ffn_residual", x)
        if self.beside is not None:
            beside = self.beside if rows is None else self.beside[rows]
            x = norm_slot(spec, layer, "conv_residual", x + beside)
        return x


def run_block(
    stack: Stack,
    layer: LayerParams,
    i: int,
    x: Float[Array, "row d_model"],
    *,
    only_attention: bool,
) -> Float[Array, "row d_model"]:
    """One transformer block. An empty norm slot leaves its argument as it is.

    Args:
        stack: what runs, and who watches.
        layer: parameters of the block.
        i: number of the layer.
        x: residual stream.
        only_attention: nobody needs what comes after the block's last attention; x is returned.
    """
    spec = stack.spec
    stack.show(i, "resid_pre", x)
    y = norm_slot(spec, layer, "attn_in", x)
    stack.show(i, "attn_in", y)
    crosses = stack.memory is not None and "cross.q.weight" in layer
    mixed, a = _attention(stack, layer, "attn", i, y, y, stack.spans)
    if only_attention and not crosses:
        return x
    rest = _Rest(stack, layer, i, _beside(stack, layer, x))
    mid = rest.after_attention(x, a)
    stack.show(i, "resid_mid", mid)
    source, crossed = mid, None
    if crosses and stack.memory is not None:
        y = norm_slot(spec, layer, "cross_in", mid)
        stack.show(i, "cross_in", y)
        crossed, c = _attention(stack, layer, "cross", i, y, stack.memory, stack.memory_spans)
        if only_attention:
            return x
        mid = rest.after_cross(mid, c)
        stack.show(i, "cross_mid", mid)
    out = rest.to_the_end(mid)
    stack.show(i, "resid_post", out)
    _show_block(rest, (x, mixed), (source, crossed), out)
    return out


def _show_block(
    rest: _Rest, own: tuple[Array, Array], cross: tuple[Array, Array | None], out: Array
) -> None:
    """Let observers of whole blocks see one, and run its end again for other outputs of heads."""
    stack, layer, i = rest.stack, rest.layer, rest.i
    memory_spans = stack.memory_spans or [slice(0, 0)] * len(stack.spans)
    for span, source, observers in zip(stack.spans, memory_spans, stack.observers, strict=True):
        for observer in observers:
            if i not in observer.block_layers:
                continue
            x, mixed = cross if observer.kind == "cross" else own
            if mixed is None:
                continue
            crosses = cross[1] is not None and observer.kind != "cross"

            def again(
                rows: Array,
                heads: Array,
                span: slice = span,
                source: slice = source,
                kind: str = "cross" if observer.kind == "cross" else "attn",
                x: Array = x,
                crosses: bool = crosses,
            ) -> Array:
                rows = rows + span.start
                a = _projected(layer, kind, heads)
                if kind == "cross":
                    mid = rest.after_cross(x[rows], a)
                else:
                    mid = rest.after_attention(x[rows], a)
                if crosses and stack.memory is not None:
                    alone = replace(
                        stack, spans=[slice(0, len(rows))], observers=[[]], memory_spans=[source]
                    )
                    y = norm_slot(stack.spec, layer, "cross_in", mid)
                    _, c = _attention(alone, layer, "cross", i, y, stack.memory, [source])
                    mid = rest.after_cross(mid, c)
                return rest.to_the_end(mid, rows)

            observer.on_block(Block(i, mixed[span], out[span], again))


def _beside(stack: Stack, layer: LayerParams, x: Array) -> Array | None:
    if "conv.weight" not in layer:
        return None
    activate = ACTIVATIONS[stack.spec.conv_activation]
    return activate(convolve(x, layer.linear("conv"), stack.spans))


def _attention(
    stack: Stack,
    layer: LayerParams,
    kind: str,
    i: int,
    x: Float[Array, "row d_model"],
    read: Float[Array, "key_row d_model"],
    read_spans: Sequence[slice],
) -> tuple[Float[Array, "row q_width"], Float[Array, "row d_model"]]:
    """Project, attend within each text (or to its source text), project back.

    Returns the outputs of the heads, side by side, and what attention gives.
    """
    spec, cross = stack.spec, kind == "cross"
    q = affine(x, layer.linear(f"{kind}.q"))
    k, v = (affine(read, layer.linear(f"{kind}.{role}")) for role in "kv")
    if spec.qkv_clip is not None:
        for projected in (q, k, v):
            np.clip(projected, -spec.qkv_clip, spec.qkv_clip, out=projected)
    stack.show(i, f"{kind}.q", q)
    stack.show(i, f"{kind}.k", k, read_spans)
    stack.show(i, f"{kind}.v", v, read_spans)
    normed = _qk_norm(spec, layer, f"{kind}.q_norm", q), _qk_norm(spec, layer, f"{kind}.k_norm", k)
    if normed[0] is not q or normed[1] is not k:
        q, k = normed
        stack.show(i, f"{kind}.q_norm", q)
        stack.show(i, f"{kind}.k_norm", k, read_spans)
    projection = layer.linear(f"{kind}.o") if f"{kind}.o.weight" in layer else None
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
    return mixed, out


def _projected(layer: LayerParams, kind: str, mixed: Array) -> Array:
    return affine(mixed, layer.linear(f"{kind}.o")) if f"{kind}.o.weight" in layer else mixed


def _qk_norm(spec: StackSpec, layer: LayerParams, slot: str, x: Array) -> Array:
    """Norm of queries or keys: over each head when its weight is as wide as a head, else over all.

    A weight [head, head_dim] holds another weight for each head.
    """
    weight = layer.get(f"{slot}.weight")
    if weight is None:
        return x
    if weight.shape == (x.shape[1],):
        return norm_slot(spec, layer, slot, x)
    heads = x.reshape(-1, spec.head_dim)
    if weight.ndim == 2:
        ones = np.ones(spec.head_dim, np.float32)
        normed = NORMS[spec.norm](heads, ones, None, spec.eps).reshape(len(x), *weight.shape)
        return (normed * weight).reshape(x.shape)
    return norm_slot(spec, layer, slot, heads).reshape(x.shape)


def _scaled(stack: StackSpec, x: Array) -> Array:
    return x if stack.residual_scale == 1.0 else x * np.float32(stack.residual_scale)
