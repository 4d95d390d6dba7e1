"""The feed-forward part of a block: one, gated or not, or a mixture of experts."""

from __future__ import annotations

import numpy as np

from attncli._shapes import Float
from attncli.model.ops import ACTIVATIONS, sigmoid, softmax
from attncli.model.params import LayerParams
from attncli.model.spec import ClampedGate, ExpertsSpec, StackSpec

Array = np.ndarray
Linear = tuple[Array, Array | None]

FFN_ROWS = 128
"""Rows that go through the feed-forward part together, so that its inner values stay in cache."""


def affine(x: Float[Array, "row input"], linear: Linear) -> Float[Array, "row output"]:
    """X W + b."""
    y: Array = x @ linear[0]
    if linear[1] is not None:
        y += linear[1]
    return y


def feed_forward(
    stack: StackSpec, layer: LayerParams, x: Float[Array, "row d_model"]
) -> Float[Array, "row d_model"]:
    """The feed-forward part, or the experts a router chooses where the layer has a router."""
    if stack.experts is not None and "ffn.router.weight" in layer:
        return _experts(stack, stack.experts, layer, x)
    return _one(stack, layer, "ffn", x)


def _one(stack: StackSpec, layer: LayerParams, name: str, x: Array) -> Array:
    """down(activation(up(x))), or down(activation(gate(x)) · up(x)) where there is a gate.

    A clamped gate takes the place of the activation, see `ClampedGate`.
    """
    activate = ACTIVATIONS[stack.activation]
    up, down = layer.linear(f"{name}.up"), layer.linear(f"{name}.down")
    gate = layer.linear(f"{name}.gate") if f"{name}.gate.weight" in layer else None
    out = np.empty((len(x), down[0].shape[1]), np.float32)
    for start in range(0, len(x), FFN_ROWS):
        rows = x[start : start + FFN_ROWS]
        inner = affine(rows, up if gate is None else gate)
        if gate is not None and stack.clamped_gate is not None:
            inner = _clamped(stack.clamped_gate, inner, affine(rows, up))
        else:
            inner = activate(inner)
            if gate is not None:
                inner *= affine(rows, up)
        out[start : start + FFN_ROWS] = affine(inner, down)
    return out


def _experts(stack: StackSpec, experts: ExpertsSpec, layer: LayerParams, x: Array) -> Array:
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
        out[rows] += picked[rows, place, None] * _one(stack, layer, f"ffn.{expert}", x[rows])
    if "ffn.shared.up.weight" in layer:
        opening = sigmoid(affine(x, layer.linear("ffn.shared_gate")))
        out += opening * _one(stack, layer, "ffn.shared", x)
    return out


def _clamped(spec: ClampedGate, gate: Array, up: Array) -> Array:
    """Source: transformers/models/gpt_oss/modeling_gpt_oss.py, GptOssExperts."""
    gate = np.minimum(gate, np.float32(spec.limit))
    up = np.clip(up, np.float32(-spec.limit), np.float32(spec.limit))
    return (up + 1) * gate * sigmoid(gate * np.float32(spec.alpha))
