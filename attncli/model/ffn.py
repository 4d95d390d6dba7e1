"""What a block does beside attention: linear maps, feed-forward part, experts, convolution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attncli._shapes import Float
from attncli.model.crew import Scratch
from attncli.model.ops import ACTIVATIONS, sigmoid, softmax
from attncli.model.params import LayerParams
from attncli.model.spec import ClampedGate, ExpertsSpec, StackSpec

Array = np.ndarray
Linear = tuple[Array, Array | None]

FFN_ROWS = 256
"""Rows that go through the feed-forward part together, so that its inner values stay in cache."""
TILE = 24_000
"""Numbers that an activation function works on together: several arrays of them stay in cache."""


def affine(
    x: Float[Array, "row input"], linear: Linear, out: Float[Array, "row output"] | None = None
) -> Float[Array, "row output"]:
    """X W + b, in `out` where it is given."""
    y: Array = np.matmul(x, linear[0], out=out)
    if linear[1] is not None:
        y += linear[1]
    return y


def convolve(
    x: Float[Array, "row input"],
    linear: tuple[Float[Array, "tap input output"], Float[Array, " output"] | None],
    spans: Sequence[slice],
) -> Float[Array, "row output"]:
    """Mix each token with its neighbours in the same text: sum over taps of x W_tap, + b.

    The middle tap meets the token itself; beyond the ends of a text stand zeros.
    """
    taps, bias = linear
    y = np.zeros((len(x), taps.shape[2]), np.float32)
    if bias is not None:
        y += bias
    for span in spans:
        n = span.stop - span.start
        for tap, weight in enumerate(taps):
            shift = tap - len(taps) // 2
            first, last = span.start + max(0, -shift), span.start + min(n, n - shift)
            if first < last:
                y[first:last] += x[first + shift : last + shift] @ weight
    return y


def feed_forward(
    stack: StackSpec, layer: LayerParams, x: Float[Array, "row d_model"], scratch: Scratch
) -> Float[Array, "row d_model"]:
    """The feed-forward part, or the experts a router chooses where the layer has a router.

    Args:
        stack: activation function, gate, experts.
        layer: parameters.
        x: input rows.
        scratch: memory of this thread.
    """
    if stack.experts is not None and "ffn.router.weight" in layer:
        return _experts(stack, stack.experts, layer, x, scratch)
    return _one(stack, layer, "ffn", x, scratch)


def _one(stack: StackSpec, layer: LayerParams, name: str, x: Array, scratch: Scratch) -> Array:
    """down(activation(up(x))), or down(activation(gate(x)) · up(x)) where there is a gate.

    A clamped gate takes the place of the activation, see `ClampedGate`.
    """
    activate = ACTIVATIONS[stack.activation]
    up, down = layer.linear(f"{name}.up"), layer.linear(f"{name}.down")
    gate = layer.linear(f"{name}.gate") if f"{name}.gate.weight" in layer else None
    out = np.empty((len(x), down[0].shape[1]), np.float32)
    for start in range(0, len(x), FFN_ROWS):
        rows = x[start : start + FFN_ROWS]
        shape = (len(rows), up[0].shape[1])
        inner = affine(rows, up if gate is None else gate, scratch.array("inner", *shape))
        beside = None
        if gate is not None:
            beside = affine(rows, up, scratch.array("beside", *shape))
        if beside is not None and stack.clamped_gate is not None:
            inner = _clamped(stack.clamped_gate, inner, beside)
        else:
            step = max(1, TILE // shape[1])
            for first in range(0, len(rows), step):
                tile = inner[first : first + step]
                activate(tile, tile)
                if beside is not None:
                    tile *= beside[first : first + step]
        affine(inner, down, out[start : start + FFN_ROWS])
    return out


def _experts(
    stack: StackSpec, experts: ExpertsSpec, layer: LayerParams, x: Array, scratch: Scratch
) -> Array:
    """Add the outputs of the chosen experts, weighted by the router's shares.

    Experts that no token chooses are not read. A shared expert reads every token; a sigmoid
    gate says how much of it counts. Source: Jiang et al. 2024, section 2; shared expert:
    transformers/models/qwen2_moe/modeling_qwen2_moe.py.
    """
    shares = softmax(affine(x, layer.linear("ffn.router")))
    chosen = np.argsort(-shares, axis=1, kind="stable")[:, : experts.n_chosen]
    picked = np.take_along_axis(shares, chosen, axis=1)
    if experts.renormalise:
        picked /= picked.sum(axis=1, keepdims=True)
    out = np.zeros_like(x)
    for expert in np.unique(chosen).tolist():
        rows, place = np.nonzero(chosen == expert)
        out[rows] += picked[rows, place, None] * _one(
            stack, layer, f"ffn.{expert}", x[rows], scratch
        )
    if "ffn.shared.up.weight" in layer:
        opening = sigmoid(affine(x, layer.linear("ffn.shared_gate")))
        out += opening * _one(stack, layer, "ffn.shared", x, scratch)
    return out


def _clamped(spec: ClampedGate, gate: Array, up: Array) -> Array:
    """Source: transformers/models/gpt_oss/modeling_gpt_oss.py, GptOssExperts."""
    gate = np.minimum(gate, np.float32(spec.limit))
    up = np.clip(up, np.float32(-spec.limit), np.float32(spec.limit))
    return (up + 1) * gate * sigmoid(gate * np.float32(spec.alpha))
