"""The arithmetic of a transformer once more: float64, loops, nothing shared with attn."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from attncli.model.params import Params
from attncli.model.spec import ModelSpec, StackSpec

Array = np.ndarray


@dataclass(slots=True)
class Steps:
    """Everything of one run, by layer."""

    weights: list[Array] = field(default_factory=list)
    """[head, query, key]."""
    scores: list[Array] = field(default_factory=list)
    head_vectors: list[Array] = field(default_factory=list)
    """f_h(x_j), [head, key, d_model]."""
    attention_out: list[Array] = field(default_factory=list)
    """Output of the attention before the residual sum, [token, d_model]."""
    resid: list[Array] = field(default_factory=list)
    block_out: list[Array] = field(default_factory=list)
    """Output of each block; the last has no final norm."""


def forward(spec: ModelSpec, params: Params, ids: list[int]) -> Steps:
    """Run one text of token type 0."""
    steps, stack = Steps(), spec.stack
    x = _get(params, "embed.token")[ids]
    if "embed.position" in params:
        x = x + _get(params, "embed.position")[spec.position_offset :][: len(ids)]
    if "embed.type" in params:
        x = x + _get(params, "embed.type")[0]
    x = _norm(stack, params, "embed_norm", x)
    steps.resid.append(x)
    for i in range(stack.n_layers):
        out = _attention(stack, params, i, _norm(stack, params, f"{i}.attn_in", x), steps)
        x = rest_of_block(stack, params, i, x, out)
        steps.block_out.append(x)
        last = i + 1 == stack.n_layers
        steps.resid.append(_norm(stack, params, "final_norm", x) if last else x)
    return steps


def rest_of_block(stack: StackSpec, params: Params, i: int, x: Array, out: Array) -> Array:
    """Return the output of block i for residual stream x and attention output `out`."""
    x = x + _norm(stack, params, f"{i}.attn_out", out)
    x = _norm(stack, params, f"{i}.attn_residual", x)
    if f"{i}.ffn.up.weight" in params:
        y = _norm(stack, params, f"{i}.ffn_in", x)
        up = _linear(params, f"{i}.ffn.up", y)
        if f"{i}.ffn.gate.weight" in params:
            inner = _activate(stack, _linear(params, f"{i}.ffn.gate", y)) * up
        else:
            inner = _activate(stack, up)
        y = _norm(stack, params, f"{i}.ffn_out", _linear(params, f"{i}.ffn.down", inner))
        x = _norm(stack, params, f"{i}.ffn_residual", x + y)
    return x


def _attention(stack: StackSpec, params: Params, i: int, x: Array, steps: Steps) -> Array:
    n, dim, window = len(x), stack.head_dim, stack.layers[i].window
    q, k, v = (_linear(params, f"{i}.attn.{role}", x) for role in "qkv")
    width = stack.n_heads * dim
    has_o = f"{i}.attn.o.weight" in params
    o = _get(params, f"{i}.attn.o.weight") if has_o else np.eye(width)
    scores = np.full((stack.n_heads, n, n), -np.inf)
    weights = np.zeros_like(scores)
    vectors = np.zeros((stack.n_heads, n, o.shape[1]))
    for h in range(stack.n_heads):
        own = slice(h * dim, (h + 1) * dim)
        shared = h // (stack.n_heads // stack.n_kv_heads)
        kv = slice(shared * dim, (shared + 1) * dim)
        vectors[h] = v[:, kv] @ o[own]
        for a in range(n):
            for b in range(n):
                if stack.causal and (b > a or (window is not None and a - b >= window)):
                    continue
                if not stack.causal and window is not None and abs(a - b) > window:
                    continue
                scores[h, a, b] = stack.scale * float(q[a, own] @ k[b, kv])
            row = np.exp(scores[h, a] - scores[h, a].max())
            weights[h, a] = row / row.sum()
    out = np.einsum("hab,hbd->ad", weights, vectors)
    bias = params.get(f"{i}.attn.o.bias")
    out = out if bias is None else out + bias.astype(np.float64)
    steps.weights.append(weights)
    steps.scores.append(scores)
    steps.head_vectors.append(vectors)
    steps.attention_out.append(out)
    return out


def _get(params: Params, name: str) -> Array:
    return params.need(name).astype(np.float64)


def _linear(params: Params, name: str, x: Array) -> Array:
    bias = params.get(f"{name}.bias")
    y = x @ _get(params, f"{name}.weight")
    return y if bias is None else y + bias.astype(np.float64)


def _norm(stack: StackSpec, params: Params, slot: str, x: Array) -> Array:
    if f"{slot}.weight" not in params:
        return x
    centred = x - x.mean(-1, keepdims=True) if stack.norm == "layer" else x
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + stack.eps)
    bias = params.get(f"{slot}.bias")
    scaled = scaled * _get(params, f"{slot}.weight")
    return scaled if bias is None else scaled + bias.astype(np.float64)


def _activate(stack: StackSpec, x: Array) -> Array:
    if stack.activation == "silu":
        return x / (1 + np.exp(-x))
    assert stack.activation == "gelu"
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
