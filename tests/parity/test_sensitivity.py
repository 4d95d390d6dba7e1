"""Tests of the comparison: each planted defect must be seen, by the kind of number named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attncli.model import ops
from attncli.model.params import Params
from attncli.model.spec import ModelSpec
from tests.parity.comparison import differences, read_golden
from tests.toys import record

Defect = Callable[[ModelSpec, Params], ModelSpec]


def without(*names: str) -> Defect:
    """Forget parameters, as a reader that does not know them would."""

    def forget(spec: ModelSpec, params: Params) -> ModelSpec:
        assert all(name in params for name in names)
        params.sources = {n: s for n, s in params.sources.items() if n not in names}
        return spec

    return forget


def neutral_norm(slot: str) -> Defect:
    """Normalise without the learned weight."""

    def flatten(spec: ModelSpec, params: Params) -> ModelSpec:
        name = f"{slot}.weight"
        source = params.sources[name]
        params.sources = {**params.sources, name: replace(source, transform=np.ones_like)}
        return spec

    return flatten


def transposed(name: str) -> Defect:
    """Read a square matrix as [input, output] that is stored [output, input]."""

    def turn(spec: ModelSpec, params: Params) -> ModelSpec:
        source = replace(params.sources[name], transform=None)
        params.sources = {**params.sources, name: source}
        return spec

    return turn


def with_stack(**changes: Any) -> Defect:
    """Change what the arithmetic is told."""
    return lambda spec, _: replace(spec, stack=replace(spec.stack, **changes))


def shifted_positions(spec: ModelSpec, _: Params) -> ModelSpec:
    return replace(spec, position_offset=1)


def swapped_query_and_key(spec: ModelSpec, params: Params) -> ModelSpec:
    sources = dict(params.sources)
    for kind in ("weight", "bias"):
        q, k = f"0.attn.q.{kind}", f"0.attn.k.{kind}"
        sources[q], sources[k] = sources[k], sources[q]
    params.sources = sources
    return spec


SEEN_IN_WEIGHTS = {
    "query bias dropped": without("0.attn.q.bias"),
    "norm bias dropped": without("embed_norm.bias"),
    "norm weight ignored": neutral_norm("embed_norm"),
    "type embedding dropped": without("embed.type"),
    "position embedding dropped": without("embed.position"),
    "position off by one": shifted_positions,
    "query and key swapped": swapped_query_and_key,
    "query matrix not transposed": transposed("0.attn.q.weight"),
    "wrong scale": with_stack(scale=24**-0.5),
    "wrong eps": with_stack(eps=1e-5),
    "causal": with_stack(causal=True),
    "heads of another width": with_stack(n_heads=6, n_kv_heads=6, head_dim=4),
}
SEEN_IN_RESIDUAL = {
    "value bias dropped": without("1.attn.v.bias"),
    "output bias dropped": without("1.attn.o.bias"),
    "output matrix not transposed": transposed("1.attn.o.weight"),
    "inner bias dropped": without("1.ffn.up.bias"),
    "outer bias dropped": without("1.ffn.down.bias"),
    "norm after attention dropped": without("1.attn_residual.weight"),
    "norm weight after attention ignored": neutral_norm("1.attn_residual"),
    "norm weight after feed-forward ignored": neutral_norm("1.ffn_residual"),
    "feed-forward dropped": without("1.ffn.up.weight"),
    "exact gelu for its tanh form": with_stack(activation="gelu"),
    "root mean square norm": with_stack(norm="rms"),
}


def with_position_bias(**changes: Any) -> Defect:
    """Change the kind of position bias."""

    def change(spec: ModelSpec, _: Params) -> ModelSpec:
        assert spec.stack.position_bias is not None
        bias = replace(spec.stack.position_bias, **changes)
        return replace(spec, stack=replace(spec.stack, position_bias=bias))

    return change


def with_model(**changes: Any) -> Defect:
    """Change what the embedding is told."""
    return lambda spec, _: replace(spec, **changes)


def with_layers(**changes: Any) -> Defect:
    """Change all layers alike."""

    def change(spec: ModelSpec, _: Params) -> ModelSpec:
        layers = tuple(replace(layer, **changes) for layer in spec.stack.layers)
        return replace(spec, stack=replace(spec.stack, layers=layers))

    return change


def reads(name: str, other: str) -> Defect:
    """Read a parameter from where another one stands."""

    def mix_up(spec: ModelSpec, params: Params) -> ModelSpec:
        params.sources = {**params.sources, name: params.sources[other]}
        return spec

    return mix_up


ENCODER_DEFECTS: dict[str, tuple[str, Defect]] = {
    "positions from the padding's row": ("roberta", with_model(position_offset=1)),
    "padding counted": ("roberta", with_model(uncounted_token=None)),
    "bias of the widening dropped": ("electra", without("embed_proj.bias")),
    "one group for all": ("albert-groups", reads("4.attn.q.weight", "0.attn.q.weight")),
    "inner blocks not told apart": ("albert-groups", reads("1.attn.q.weight", "0.attn.q.weight")),
    "half the buckets": ("mpnet", with_position_bias(n_buckets=16)),
    "buckets up to another distance": ("mpnet", with_position_bias(max_distance=64)),
    "all layers global": ("modernbert", with_layers(window=None)),
    "all layers local": ("modernbert", with_layers(window=2)),
    "gate and value swapped": ("modernbert", reads("0.ffn.gate.weight", "0.ffn.up.weight")),
    "query and key rows mixed up": ("modernbert", reads("1.attn.q.weight", "1.attn.k.weight")),
    "no key asks for a position": ("deberta", with_position_bias(position_to_content=False)),
    "no query asks for a position": ("deberta", with_position_bias(content_to_position=False)),
    "terms not in the scale": ("deberta", with_stack(scale=8**-0.5)),
    "no distance shared": ("deberta-v3", with_position_bias(n_buckets=0, n_positions=6)),
    "buckets up to another distance, disentangled": (
        "deberta-v3",
        with_position_bias(n_positions=16),
    ),
    "table of positions not normalised": ("deberta-v3", without("position_norm.weight")),
    "position keys projected as queries": (
        "deberta-v3",
        reads("0.attn.position_k.weight", "0.attn.q.weight"),
    ),
    "convolution dropped": ("deberta-v2-conv", without("0.conv.weight")),
    "convolution not activated as told": ("deberta-v2-conv", with_stack(conv_activation="tanh")),
}


def _measure(defect: Defect, case: str = "bert-eps-tanh") -> dict[str, list[float]]:
    golden = read_golden(case)
    spec, params = golden.model()
    spec = defect(spec, params)
    found = record(spec, params, golden.ids)
    if found.weights.shape != golden.weights.shape:
        return {kind: [np.inf] for kind in ("weights", "scores", "resid")}
    return differences(golden, found)


@pytest.mark.parametrize("name", SEEN_IN_WEIGHTS)
def test_defect_shows_in_the_weights(name: str) -> None:
    assert max(_measure(SEEN_IN_WEIGHTS[name])["weights"]) > 3


@pytest.mark.parametrize("name", SEEN_IN_RESIDUAL)
def test_defect_of_the_last_layer_shows_in_the_residual_stream(name: str) -> None:
    defect = SEEN_IN_RESIDUAL[name]
    assert max(_measure(defect)["resid"]) > 3


@pytest.mark.parametrize("name", ENCODER_DEFECTS)
def test_defect_of_an_encoder_shows(name: str) -> None:
    case, defect = ENCODER_DEFECTS[name]
    measured = _measure(defect, case)
    assert max(measured["weights"] + measured["resid"]) > 3


def test_dropped_key_bias_shows_in_the_scores_alone() -> None:
    # it adds the same to every key of a query, which the softmax removes again
    measured = _measure(without("1.attn.k.bias"))
    assert max(measured["scores"]) > 3
    assert max(measured["weights"]) <= 1
    assert max(measured["resid"]) <= 1


def test_tanh_form_for_the_exact_gelu_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ops.ACTIVATIONS, "gelu", ops.gelu_tanh)
    assert max(_measure(lambda spec, _: spec, "bert")["resid"]) > 3


def test_coarse_error_function_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = ops.erf
    monkeypatch.setattr(ops, "erf", lambda x: np.round(exact(x), 4))
    assert max(_measure(lambda spec, _: spec, "bert")["resid"]) > 3


def test_without_a_defect_nothing_shows() -> None:
    assert all(max(layers) <= 1 for layers in _measure(lambda spec, _: spec).values())
