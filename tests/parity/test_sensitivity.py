"""Tests of the comparison: each planted defect must be seen, by the kind of number named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attncli.model import ops
from attncli.model.params import Params
from attncli.model.spec import BucketSpec, ClampedGate, ModelSpec, RopeScaling, RopeSpec
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


def with_rope(**changes: Any) -> Defect:
    """Change the rotary positions of every layer that has them."""

    def turn(spec: ModelSpec, _: Params) -> ModelSpec:
        layers = tuple(
            layer if layer.rope is None else replace(layer, rope=replace(layer.rope, **changes))
            for layer in spec.stack.layers
        )
        return replace(spec, stack=replace(spec.stack, layers=layers))

    return turn


def with_scaling(**changes: Any) -> Defect:
    """Change how the rotary positions of the first layer are scaled."""

    def stretch(spec: ModelSpec, params: Params) -> ModelSpec:
        rope = spec.stack.layers[0].rope
        assert rope is not None
        assert rope.scaling is not None
        return with_rope(scaling=replace(rope.scaling, **changes))(spec, params)

    return stretch


def with_experts(**changes: Any) -> Defect:
    """Change how experts are chosen."""

    def choose(spec: ModelSpec, params: Params) -> ModelSpec:
        assert spec.stack.experts is not None
        return with_stack(experts=replace(spec.stack.experts, **changes))(spec, params)

    return choose


def wider_window(spec: ModelSpec, _: Params) -> ModelSpec:
    layers = tuple(
        layer if layer.window is None else replace(layer, window=layer.window + 1)
        for layer in spec.stack.layers
    )
    return replace(spec, stack=replace(spec.stack, layers=layers))


def tiled_key_heads(spec: ModelSpec, params: Params) -> ModelSpec:
    """Give query head h the key/value head h mod n, by renumbering the query heads."""
    stack, group = spec.stack, spec.stack.n_heads // spec.stack.n_kv_heads
    order = np.arange(stack.n_heads).reshape(-1, group).T.ravel()

    def shuffle(weight: np.ndarray) -> np.ndarray:
        heads = weight.T.reshape(-1, stack.n_heads, stack.head_dim)
        return heads[:, order].reshape(weight.shape[1], -1)

    source = params.sources["0.attn.q.weight"]
    changed = replace(source, transform=shuffle)
    params.sources = {**params.sources, "0.attn.q.weight": changed}
    return spec


SEEN_BY_CASE = {
    "linear scaling dropped": ("llama-linear", with_rope(scaling=None)),
    "dynamic scaling dropped": ("llama-dynamic-long", with_rope(scaling=None)),
    "llama3 scaling dropped": ("llama-llama3", with_rope(scaling=None)),
    "llama3 low factor": ("llama-llama3", with_scaling(low_factor=2.0)),
    "llama3 high factor": ("llama-llama3", with_scaling(high_factor=8.0)),
    "yarn factor computed": ("llama-yarn-explicit", with_scaling(attention_factor=1.1386)),
    "yarn mscale dropped": ("llama-yarn-mscale", with_scaling(attention_factor=1.1386)),
    "yarn rounded": ("llama-yarn-untruncated", with_scaling(truncate=True)),
    "yarn not rounded": ("llama-yarn", with_scaling(truncate=False)),
    "longrope changes over early": ("llama-longrope-short", with_scaling(original_positions=11)),
    "longrope changes over late": ("llama-longrope-long", with_scaling(original_positions=20)),
    "base of positions": ("llama", with_rope(base=20_000.0)),
    "neighbouring pairs": ("llama", with_rope(adjacent=True)),
    "key heads tiled": ("llama", tiled_key_heads),
    "scale of d_model over heads": ("llama-mqa-biases-head-dim", with_stack(scale=5**-0.5)),
    "window one wider": ("mistral-window", wider_window),
    "window dropped": ("qwen2-window-on", with_layers(window=None)),
    "window switched on": ("qwen2-window-off", with_layers(window=4)),
    "router not renormalised": ("mixtral", with_experts(renormalise=False)),
    "router renormalised": ("qwen2-moe", with_experts(renormalise=True)),
    "one expert too many": ("mixtral", with_experts(n_chosen=3)),
    "shared expert dropped": ("qwen2-moe", without("0.ffn.shared.up.weight")),
    "query norm dropped": ("qwen3", without("0.attn.q_norm.weight")),
    "key norm dropped": ("olmo2", without("0.attn.k_norm.weight")),
    "positions in a layer without": (
        "smollm3",
        with_layers(rope=RopeSpec(2e6, 4)),
    ),
    "norm offset dropped": ("gemma", with_stack(norm_offset=0.0)),
    "embedding not scaled": ("gemma", lambda spec, _: replace(spec, embed_scale=1.0)),
    "no cap": ("gemma2", with_stack(softcap=None)),
    "scale of the head width": ("gemma2", with_stack(scale=6**-0.5)),
    "norm after attention dropped": ("gemma2", without("0.attn_out.weight")),
    "scaled positions in windowed layers": (
        "gemma3",
        with_layers(rope=RopeSpec(900.0, 6, RopeScaling("linear", 4.0))),
    ),
    "norms without weight dropped": ("olmo", with_stack(plain_norms=())),
    "clip dropped": ("olmo-clipped", with_stack(qkv_clip=None)),
    "residual multiplier dropped": ("granite", with_stack(residual_scale=1.0)),
    "attention multiplier dropped": ("granite", with_stack(scale=4**-0.5)),
    "sink dropped": ("gpt-oss", without("0.attn.sinks")),
    "router bias dropped": ("gpt-oss", without("0.ffn.router.bias")),
    "bias of an expert dropped": ("gpt-oss", without("0.ffn.1.down.bias")),
    "gate not clamped": ("gpt-oss", with_stack(clamped_gate=ClampedGate(1.5, 7.0))),
    "gain of the gate": ("gpt-oss", with_stack(clamped_gate=ClampedGate(1.702, 0.5))),
}


@pytest.mark.parametrize("name", SEEN_BY_CASE)
def test_defect_shows_in_the_case_made_for_it(name: str) -> None:
    case, defect = SEEN_BY_CASE[name]
    assert max(max(layers) for layers in _measure(defect, case).values()) > 30


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
