"""Elementwise and row-wise steps, written to read like their formulas. Arrays in, arrays out."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from attncli._shapes import Bool, Float

Array = np.ndarray


def softmax(
    scores: Float[Array, "*head query key"], sinks: Float[Array, " head"] | None = None
) -> Float[Array, "*head query key"]:
    """Turn scores into attention weights, in place.

    weights = exp(s - max s) / sum exp(s - max s) over the last axis. Scores are unitless and
    already scaled; masked entries are -inf and become exactly 0. Every row needs one entry
    that is not masked. A learned sink of the head counts in the sum but is no key: rows then
    sum to less than 1.

    Source: Vaswani et al. 2017, equation 1; torch.nn.functional.softmax in float32.
    """
    top = scores.max(axis=-1, keepdims=True)
    if sinks is not None:
        top = np.maximum(top, sinks[:, None, None])
    scores -= top
    np.exp(scores, out=scores)
    total = scores.sum(axis=-1, keepdims=True)
    if sinks is not None:
        total += np.exp(sinks[:, None, None] - top)
    scores /= total
    return scores


def layer_norm(
    x: Float[Array, "row d_model"],
    weight: Float[Array, " d_model"],
    bias: Float[Array, " d_model"] | None,
    eps: float,
) -> Float[Array, "row d_model"]:
    """Normalise each row to mean 0 and variance 1, then scale and shift it.

    Source: Ba et al. 2016, equation 4; torch.nn.LayerNorm.
    """
    y = x - x.mean(axis=-1, keepdims=True)
    variance = np.einsum("rd,rd->r", y, y)[:, None] / np.float32(x.shape[-1])
    y *= 1 / np.sqrt(variance + np.float32(eps))
    y *= weight
    if bias is not None:
        y += bias
    return y


def rms_norm(
    x: Float[Array, "row d_model"],
    weight: Float[Array, " d_model"],
    bias: Float[Array, " d_model"] | None,
    eps: float,
) -> Float[Array, "row d_model"]:
    """Scale each row by the inverse of its root mean square.

    Source: Zhang and Sennrich 2019, equation 4; transformers LlamaRMSNorm.
    """
    mean_square = np.einsum("rd,rd->r", x, x)[:, None] / np.float32(x.shape[-1])
    y = x * (1 / np.sqrt(mean_square + np.float32(eps)))
    y *= weight
    if bias is not None:
        y += bias
    return y


NORMS: dict[str, Callable[..., Array]] = {"layer": layer_norm, "rms": rms_norm}


_ERF_NUMERATOR = (
    -2.72614225801306e-10,
    2.77068142495902e-08,
    -2.10102402082508e-06,
    -5.69250639462346e-05,
    -7.34990630326855e-04,
    -2.95459980854025e-03,
    -1.60960333262415e-02,
)
_ERF_DENOMINATOR = (
    -1.45660718464996e-05,
    -2.13374055278905e-04,
    -1.68282697438203e-03,
    -7.37332916720468e-03,
    -1.42647390514189e-02,
)


def erf(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Approximate the error function in float32, within 5e-7 of the exact value.

    A rational function of x on -4...4, the ends clipped (numpy has no erf). The coefficients
    are those of the odd 13/8 minimax fit that Eigen and XLA use for float32.
    """
    x = np.clip(x, -4.0, 4.0)
    square = x * x
    top = np.full_like(x, _ERF_NUMERATOR[0])
    for coefficient in _ERF_NUMERATOR[1:]:
        top *= square
        top += np.float32(coefficient)
    bottom = np.full_like(x, _ERF_DENOMINATOR[0])
    for coefficient in _ERF_DENOMINATOR[1:]:
        bottom *= square
        bottom += np.float32(coefficient)
    top *= x
    top /= bottom
    return top


def gelu(x: Float[Array, "..."], out: Array | None = None) -> Float[Array, "..."]:
    """Return x · Φ(x), with the exact normal distribution. Source: Hendrycks and Gimpel 2016.

    This and the other activation functions write to `out` where it is given; it may be x itself.
    """
    y = erf(x * np.float32(math.sqrt(0.5)))
    y += 1
    y *= x
    return np.multiply(y, np.float32(0.5), out=out)


def gelu_tanh(x: Float[Array, "..."], out: Array | None = None) -> Float[Array, "..."]:
    """The tanh form of GELU. Source: Hendrycks and Gimpel 2016, section 2."""
    y = x * x
    y *= np.float32(0.044715)
    y += 1
    y *= x
    y *= np.float32(math.sqrt(2 / math.pi))
    np.tanh(y, out=y)
    y += 1
    y *= x
    return np.multiply(y, np.float32(0.5), out=out)


def relu(x: Float[Array, "..."], out: Array | None = None) -> Float[Array, "..."]:
    """max(x, 0)."""
    return np.maximum(x, 0, out=out)


def sigmoid(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """1 / (1 + exp(-x))."""
    with np.errstate(over="ignore"):  # exp(-x) = inf gives the right limit, 0
        return 1 / (1 + np.exp(-x))


def silu(x: Float[Array, "..."], out: Array | None = None) -> Float[Array, "..."]:
    """Return x · sigmoid(x). Source: Elfwing et al. 2017."""
    with np.errstate(over="ignore"):  # exp(-x) = inf gives the right limit, 0
        y = np.negative(x)
        np.exp(y, out=y)
        y += 1
        return np.divide(x, y, out=out)


ACTIVATIONS: dict[str, Callable[..., Array]] = {
    "gelu": gelu,
    "gelu_fast": gelu_tanh,
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "relu": relu,
    "silu": silu,
    "swish": silu,
    "tanh": np.tanh,
}
"""Activation functions by the name that configurations use."""


def visible(
    queries: slice, keys: slice, *, causal: bool, window: int | None
) -> Bool[Array, "query key"] | None:
    """Return which keys each query may see, or None when all of them.

    Causal: 0 <= query - key (< window). Both ways: |query - key| <= window.
    """
    if not causal and window is None:
        return None
    distance = np.arange(queries.start, queries.stop)[:, None] - np.arange(keys.start, keys.stop)
    if not causal:
        return np.abs(distance) <= window
    seen: Array = distance >= 0
    return seen if window is None else seen & (distance < window)
