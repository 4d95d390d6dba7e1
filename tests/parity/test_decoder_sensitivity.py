"""Defects that a reader of GPT-2-like decoders could have: each must be seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attncli.model.params import Params
from attncli.model.spec import AlibiSpec, LayerSpec, ModelSpec, RopeSpec
from tests.parity.comparison import differences, read_golden
from tests.toys import record

Defect = Callable[[ModelSpec, Params], ModelSpec]


def layers(change: Callable[[LayerSpec], LayerSpec]) -> Defect:
    """Change every layer."""

    def defect(spec: ModelSpec, _: Params) -> ModelSpec:
        changed = tuple(change(layer) for layer in spec.stack.layers)
        return replace(spec, stack=replace(spec.stack, layers=changed))

    return defect


def window(by: int) -> Defect:
    """Let windows reach further by some keys."""
    return layers(lambda layer: replace(layer, window=layer.window and layer.window + by))


def rope(change: Callable[[RopeSpec], dict[str, Any]]) -> Defect:
    """Change rotary positions."""
    return layers(lambda x: replace(x, rope=x.rope and replace(x.rope, **change(x.rope))))


def stack(**changes: Any) -> Defect:
    """Change what the arithmetic is told."""
    return lambda spec, _: replace(spec, stack=replace(spec.stack, **changes))


def alibi(**changes: Any) -> Defect:
    """Change the position bias."""

    def defect(spec: ModelSpec, _: Params) -> ModelSpec:
        bias = spec.stack.position_bias
        assert isinstance(bias, AlibiSpec)
        return replace(spec, stack=replace(spec.stack, position_bias=replace(bias, **changes)))

    return defect


def source(name: str, **changes: Any) -> Defect:
    """Read one parameter another way."""

    def defect(spec: ModelSpec, params: Params) -> ModelSpec:
        params.sources = {**params.sources, name: replace(params.sources[name], **changes)}
        return spec

    return defect


def swapped(one: str, other: str) -> Defect:
    """Take one parameter for the other."""

    def defect(spec: ModelSpec, params: Params) -> ModelSpec:
        sources = dict(params.sources)
        sources[one], sources[other] = sources[other], sources[one]
        params.sources = sources
        return spec

    return defect


def without(*names: str) -> Defect:
    """Forget parameters."""

    def defect(spec: ModelSpec, params: Params) -> ModelSpec:
        assert all(name in params for name in names)
        params.sources = {n: s for n, s in params.sources.items() if n not in names}
        return spec

    return defect


def scaling(**changes: Any) -> Defect:
    """Change the scaling of rotary positions."""
    return rope(lambda x: {"scaling": x.scaling and replace(x.scaling, **changes)})


def no_offset(spec: ModelSpec, _: Params) -> ModelSpec:
    return replace(spec, position_offset=0)


def flat_third(values: np.ndarray) -> np.ndarray:
    """Take the first third of the rows for the queries."""
    return values[: len(values) // 3].T


ADJACENT: Defect = rope(lambda x: {"adjacent": not x.adjacent})
IN_WEIGHTS: dict[str, tuple[str, Defect]] = {
    "all scores scaled": ("gpt-neo", layers(lambda layer: replace(layer, scale=6**-0.5))),
    "window one key too wide": ("gpt-neo", window(1)),
    "window one key too narrow": ("starcoder2", window(-1)),
    "window of the fused reader": ("phi3", window(1)),
    "factor of the layer forgotten": ("gpt2-scales", layers(lambda x: replace(x, scale=None))),
    "square matrix turned": ("gpt2", source("0.attn.o.weight", transform=np.transpose)),
    "pairs half a head apart": ("gptj", ADJACENT),
    "neighbouring pairs": ("gpt-neox", ADJACENT),
    "whole head turns": ("gpt-neox", rope(lambda x: {"dim": 2 * x.dim})),
    "flat thirds": ("gpt-neox", source("0.attn.q.weight", transform=flat_third)),
    "linear scaling forgotten": ("gpt-neox-sequential", rope(lambda x: {"scaling": None})),
    "another base": ("starcoder2", rope(lambda x: {"base": 10_000.0})),
    "positions from row 0": ("opt", no_offset),
    "slopes of the next power of two": (
        "bloom-7-heads",
        alibi(slopes=tuple(2.0 ** -(i + 1) for i in range(7))),
    ),
    "norm of the embedding dropped": (
        "bloom-3-heads",
        without("embed_norm.weight", "embed_norm.bias"),
    ),
    "bias not scaled": ("falcon-rw", alibi(factor=1.0)),
    "bias scaled twice": ("falcon-rw", alibi(factor=1 / 6)),
    "bias not rounded": ("falcon-alibi-multi-query", alibi(bfloat16=False)),
    "groups of heads mixed up": ("falcon-40b", swapped("0.attn.k.weight", "0.attn.v.weight")),
    "nothing cut off": ("mpt-clip", stack(qkv_clip=None)),
    "usual scale": ("mpt-clip", stack(scale=3**-0.5)),
    "query norm dropped": (
        "phi-qk-norm",
        without("0.attn.q_norm.weight", "0.attn.q_norm.bias"),
    ),
    "one norm for all heads": (
        "stablelm-parallel",
        source("0.attn.q_norm.weight", others=()),
    ),
    "short factors for a long text": ("phi3-long", scaling(long_factors=(1.0, 1.1))),
    "long factors for a short text": ("phi3-short", scaling(short_factors=(1.5, 3.0))),
    "attention factor of the ratio": (
        "phi3-factor",
        scaling(attention_factor=(1 + np.log(4) / np.log(6)) ** 0.5),
    ),
}
IN_RESIDUAL: dict[str, tuple[str, Defect]] = {
    "one after the other": ("gpt-neox", stack(parallel=False)),
    "side by side": ("falcon-rw", stack(parallel=True)),
    "norms of the two sub-layers swapped": (
        "falcon-40b",
        swapped("1.attn_in.weight", "1.ffn_in.weight"),
    ),
    "second norm dropped": ("phi", without("1.ffn_in.weight", "1.ffn_in.bias")),
    "value cut off less": ("mpt-clip", stack(qkv_clip=0.5)),
    "exact gelu": ("bloom-3-heads", stack(activation="gelu")),
    "tanh gelu": ("mpt", stack(activation="gelu_new")),
    "gate and up swapped": ("phi3", swapped("1.ffn.gate.weight", "1.ffn.up.weight")),
    "value bias dropped": ("stablelm-parallel", without("1.attn.v.bias")),
    "last norm forgotten": ("opt", without("final_norm.weight", "final_norm.bias")),
}


def measure(case: str, defect: Defect) -> dict[str, list[float]]:
    golden = read_golden(case)
    spec, params = golden.model()
    spec = defect(spec, params)
    return differences(golden, record(spec, params, golden.ids))


@pytest.mark.parametrize("name", IN_WEIGHTS)
def test_defect_shows_in_the_weights(name: str) -> None:
    assert max(measure(*IN_WEIGHTS[name])["weights"]) > 3


@pytest.mark.parametrize("name", IN_RESIDUAL)
def test_defect_shows_in_the_residual_stream(name: str) -> None:
    assert max(measure(*IN_RESIDUAL[name])["resid"]) > 3


def test_other_end_of_alibi_shows_in_the_scores_alone() -> None:
    # it adds the same to every key of a query, which the softmax removes again
    measured = measure("mpt", alibi(from_end=False))
    assert max(measured["scores"]) > 3
    assert max(measured["weights"]) <= 1
