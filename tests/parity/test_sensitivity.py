"""Tests of the comparison: each planted defect must be seen, by the kind of number named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attncli.model import ops
from attncli.model.params import Params
from attncli.model.spec import BucketSpec, ModelSpec
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


def _measure(defect: Defect, case: str = "bert-eps-tanh") -> dict[str, list[float]]:
    golden = read_golden(case)
    spec, params = golden.model()
    spec = defect(spec, params)
    found = record(spec, params, golden.ids, golden.source)
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


def with_encoder(**changes: Any) -> Defect:
    """Change what the arithmetic is told of the encoder."""

    def change(spec: ModelSpec, _: Params) -> ModelSpec:
        assert spec.encoder is not None
        return replace(spec, encoder=replace(spec.encoder, **changes))

    return change


def with_model(**changes: Any) -> Defect:
    """Change what the arithmetic is told of the whole model."""
    return lambda spec, _: replace(spec, **changes)


def table_of_first_layer_only(spec: ModelSpec, params: Params) -> ModelSpec:
    """Read the shared bias as one of the first layer, where the file holds it."""
    nothing = replace(params.sources["encoder.position_bias.weight"], transform=np.zeros_like)
    params.sources = {**params.sources, "encoder.1.position_bias.weight": nothing}
    return spec


def tables_of_first_layer_for_all(spec: ModelSpec, params: Params) -> ModelSpec:
    """Share the bias of the first layer, as in most of the relatives."""
    first = params.sources["encoder.0.position_bias.weight"]
    params.sources = {**params.sources, "encoder.1.position_bias.weight": first}
    return spec


IN_TWO_STACKS = {
    "bias of the first layer only": ("t5-v1.1", table_of_first_layer_only, "encoder scores"),
    "bias of the first layer for all": ("umt5", tables_of_first_layer_for_all, "encoder scores"),
    "scores divided by sqrt(d)": ("t5", with_stack(scale=4**-0.5), "cross scores"),
    "encoder scores divided": ("t5", with_encoder(scale=4**-0.5), "encoder scores"),
    "encoder sees only the past": ("bart", with_encoder(causal=True), "encoder weights"),
    "fewer buckets": (
        "t5-far",
        with_encoder(position_bias=BucketSpec(6, 11)),
        "encoder scores",
    ),
    "buckets of another range": (
        "t5-far",
        with_encoder(position_bias=BucketSpec(8, 128)),
        "encoder scores",
    ),
    "norm of the encoder's output dropped": (
        "t5",
        without("encoder.final_norm.weight"),
        "cross weights",
    ),
    "norm before cross-attention dropped": ("t5", without("0.cross_in.weight"), "cross scores"),
    "norm after cross-attention dropped": ("bart", without("1.cross_residual.weight"), "resid"),
    "cross-attention left out": ("bart", without("1.cross.q.weight"), "resid"),
    "cross bias dropped": ("bart", without("1.cross.v.bias"), "resid"),
    "embedding not scaled": ("mbart", with_model(embed_scale=1.0), "encoder weights"),
    "positions two rows off": ("bart", with_model(position_offset=0), "encoder weights"),
    "no sines": ("marian-computed", with_model(sinusoid=False), "encoder weights"),
    "norm of the embedding dropped": ("mbart", without("embed_norm.weight"), "weights"),
    "norm of the encoder's embedding dropped": (
        "mbart",
        without("encoder.embed_norm.weight"),
        "encoder weights",
    ),
    "tanh form dropped": ("t5-v1.1", with_encoder(activation="gelu"), "encoder resid"),
    "gate dropped": ("t5-gated-silu", without("encoder.1.ffn.gate.weight"), "encoder resid"),
    "eps of another family": ("t5-eps", with_stack(eps=1e-6), "cross scores"),
}


@pytest.mark.parametrize("name", IN_TWO_STACKS)
def test_defect_of_an_encoder_decoder_shows(name: str) -> None:
    case, defect, kind = IN_TWO_STACKS[name]
    measured = _measure(defect, case)
    assert max(measured[kind]) > 3


@pytest.mark.parametrize("case", ["t5", "bart", "marian-computed", "umt5"])
def test_without_a_defect_nothing_shows_in_two_stacks(case: str) -> None:
    assert all(max(layers) <= 1 for layers in _measure(lambda spec, _: spec, case).values())
