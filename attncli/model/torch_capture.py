"""What the modeling code of transformers shows of one run: values, projections and scores.

Weights and states are outputs of the model. The rest is recorded on the way: what its attention
function was given, which projection reads that function's output next, and what each softmax was
given. Each is kept only if it is seen to belong: values mixed by the weights must be the output of
the attention function, the projection must read just that, the softmax must give the weights.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

from attncli._shapes import Float
from attncli.model.observe import HeadValues

Array = np.ndarray

FUNCTION = "eager_attention_forward"
"""Name that transformers gives the attention function in each file of modeling code."""
MASKED = -5e8
"""No score is as low: what is below was masked, if its weight is 0 too."""


@dataclass(slots=True)
class Call:
    """One call of an attention function: tensors as they were."""

    module: Any
    value: Any
    """[1, kv_head, key, head_dim]."""
    output: Any
    """[1, query, head, head_dim]."""
    weights: Any
    """[1, head, query, key]."""
    projection: Any = None
    """The linear layer that read the output."""
    projected: Any = None


@dataclass(slots=True)
class Recording:
    """Everything one run showed."""

    calls: list[Call] = field(default_factory=list)
    softmaxes: list[tuple[Any, Any]] = field(default_factory=list)
    """What each softmax over [1, head, query, key] was given and what it gave."""
    _next: int = 0

    def call_of(self, layer: int, weights: Any) -> Call | None:
        """Return the call of a layer, if it gave just these weights."""
        if layer >= len(self.calls):
            return None
        call = self.calls[layer]
        return call if _equal(call.weights, weights) else None

    def scores_of(self, weights: Any, sinks: Any) -> Float[Array, "head query key"] | None:
        """Return what the next softmax that gave these weights was given, masked entries -inf.

        Layers must be asked for in their order.

        Args:
            weights: [1, head, query, key], of the model's output.
            sinks: scores of a learned sink, one a head, or None. The softmax then has one more
                column, and each row was shifted by its largest score: the sink says by how much.
        """
        n_keys = weights.shape[-1]
        for at in range(self._next, len(self.softmaxes)):
            given, gave = self.softmaxes[at]
            given, gave = (x.reshape(-1, *x.shape[-2:]) for x in (given, gave))
            if gave.shape[-1] not in (n_keys, n_keys + 1):
                continue
            if not _equal(gave[..., :n_keys], weights[0]):
                continue
            self._next = at + 1
            if gave.shape[-1] > n_keys:
                if sinks is None or tuple(sinks.shape) != (gave.shape[0],):
                    return None
                given = given[..., :n_keys].float() + (
                    sinks.float()[:, None, None] - given[..., n_keys:].float()
                )
            scores = to_array(given)
            scores[
                (to_array(weights[0]) == 0) & (scores <= _mask_bound(self.softmaxes[at][0]))
            ] = -np.inf
            return scores
        return None


def head_values(call: Call, n_heads: int) -> HeadValues | None:
    """Return values and projection of a layer; None unless both are seen to be what it adds."""
    value, output = call.value, call.output
    if call.projection is None or value.ndim != 4 or n_heads % value.shape[1]:
        return None
    group = n_heads // value.shape[1]
    v = to_array(value[0])
    mixed = to_array(call.weights[0]) @ np.repeat(v, group, axis=0)
    expected = to_array(output[0]).transpose(1, 0, 2)
    exact = value.element_size() >= 4
    if mixed.shape != expected.shape:
        return None
    if np.abs(mixed - expected).max() > (1e-4 if exact else 2e-2) * max(1.0, np.abs(v).max()):
        return None
    weight = to_array(call.projection.weight)
    if not _is_conv(call.projection):
        weight = weight.T
    return HeadValues(v, weight.reshape(n_heads, v.shape[2], -1), group)


@contextmanager
def recording(model: Any) -> Iterator[Recording]:
    """Record runs of a model while the context lasts."""
    import torch

    record = Recording()
    waiting: list[Call] = []
    softmax = torch.nn.functional.softmax

    def recorded_softmax(values: Any, *args: Any, **kwargs: Any) -> Any:
        result = softmax(values, *args, **kwargs)
        if values.ndim >= 3:
            # some code fills the mask into what it got from here
            record.softmaxes.append((values.detach().clone(), result.detach()))
        return result

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def attention(module: Any, query: Any, key: Any, value: Any, *args: Any, **kw: Any) -> Any:
            output, weights = function(module, query, key, value, *args, **kw)
            call = Call(module, value.detach(), output.detach(), weights.detach())
            record.calls.append(call)
            waiting[:] = [call]
            return output, weights

        return attention

    def on_linear(module: Any, inputs: tuple[Any, ...], result: Any) -> None:
        if not waiting or not inputs:
            return
        call, given = waiting[0], inputs[0]
        flat = call.output.reshape(*call.output.shape[:2], -1)
        if given.shape == flat.shape and torch.equal(given, flat):
            call.projection, call.projected = module, result.detach()
            waiting.clear()

    with ExitStack() as stack:
        for module in _modeling_files(model):
            function = getattr(module, FUNCTION)
            stack.enter_context(mock.patch.object(module, FUNCTION, watched(function)))
        stack.enter_context(mock.patch.object(torch.nn.functional, "softmax", recorded_softmax))
        for module in model.modules():
            if isinstance(module, torch.nn.Linear) or _is_conv(module):
                stack.callback(module.register_forward_hook(on_linear).remove)
        yield record


def to_array(tensor: Any) -> Float[Array, "..."]:
    """Return the numbers of a tensor on any device as float32, in memory of their own."""
    array: Array = np.array(tensor.detach().float().cpu().numpy())
    return array


def _modeling_files(model: Any) -> list[Any]:
    """Return the Python modules that hold an attention function this model may call."""
    names = {type(module).__module__ for module in model.modules()}
    return [sys.modules[name] for name in sorted(names) if hasattr(sys.modules[name], FUNCTION)]


def _is_conv(module: Any) -> bool:
    """Tell whether it is the linear layer that transformers writes as Conv1D: [input, output]."""
    return type(module).__name__ == "Conv1D" and module.weight.ndim == 2


def _mask_bound(scores: Any) -> float:
    import torch

    return max(MASKED, torch.finfo(scores.dtype).min / 2)


def _equal(a: Any, b: Any) -> bool:
    import torch

    return a.shape == b.shape and torch.equal(a.to(b.dtype), b)
