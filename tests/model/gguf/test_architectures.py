"""Every architecture: a frozen case of its family, converted to GGUF, gives the same numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli.errors import ModelProblem
from attncli.model.families import REGISTRY
from attncli.model.gguf.table import ARCHITECTURES
from attncli.model.load import load
from tests.gguf_converter import bytes_tokenizer, convert
from tests.ggufs import write_gguf
from tests.parity.comparison import assert_same, read_golden
from tests.toys import record

EPS = "attention.layer_norm_epsilon"
RMS = "attention.layer_norm_rms_epsilon"
ROPE = "rope.freq_base"

LONGROPE = {
    RMS: 1e-5,
    "rope.dimension_count": 4,
    "rope.scaling.original_context_length": 6,
    "rope.scaling.attn_factor": math.sqrt(1 + math.log(24 / 6) / math.log(6)),
}

# case, and what its converter writes beyond the sizes
CASES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "llama": [
        ("llama", {RMS: 1e-6, ROPE: 10000.0, "vocab_size": 40, "rope.dimension_count": 4}),
        (
            "llama-linear",
            {RMS: 1e-6, ROPE: 100.0, "rope.scaling.type": "linear", "rope.scaling.factor": 2.0},
        ),
        (
            "llama-yarn",
            {
                RMS: 1e-6,
                ROPE: 100.0,
                "rope.scaling.type": "yarn",
                "rope.scaling.factor": 4.0,
                "rope.scaling.original_context_length": 8,
                "rope.scaling.yarn_beta_fast": 1.5,
                "rope.scaling.yarn_beta_slow": 0.25,
            },
        ),
    ],
    "qwen2": [("qwen2-window-off", {RMS: 1e-6})],
    "qwen3": [("qwen3", {RMS: 1e-6})],
    "gemma": [("gemma", {RMS: 1e-6})],
    "gemma2": [("gemma2", {RMS: 1e-6, "attention.scale": 13**-0.5, "attention.sliding_window": 4})],
    "gemma3": [
        (
            "gemma3",
            {
                RMS: 1e-6,
                ROPE: 900.0,
                "rope.freq_base_swa": 30.0,
                "rope.scaling.type": "linear",
                "rope.scaling.factor": 4.0,
                "attention.scale": 13**-0.5,
                "attention.sliding_window": 4,
                "attention.sliding_window_pattern": np.array([True, False]),
            },
        )
    ],
    "granite": [("granite", {RMS: 1e-6})],
    "olmo2": [("olmo2", {RMS: 1e-5})],
    "phi2": [("phi", {EPS: 0.01, "rope.dimension_count": 2})],
    "phi3": [
        (
            "phi3",
            {
                RMS: 1e-5,
                "rope.dimension_count": 4,
                "attention.sliding_window": 4,
                "attention.key_length": 6,
            },
        ),
        ("phi3-long", LONGROPE),
        ("phi3-short", LONGROPE),
    ],
    "stablelm": [
        ("stablelm", {EPS: 1e-5, "rope.dimension_count": 2, "use_parallel_residual": True})
    ],
    "starcoder2": [("starcoder2-no-bias", {EPS: 1e-5})],
    "gptneox": [("gpt-neox", {EPS: 0.01, ROPE: 500.0, "rope.dimension_count": 4})],
    "gpt2": [("gpt2", {EPS: 0.01})],
    "bloom": [("bloom-3-heads", {EPS: 1e-5}), ("bloom-7-heads", {EPS: 1e-5})],
    "falcon": [
        ("falcon-7b", {EPS: 0.01, "attention.head_count_kv": 1}),
        ("falcon-40b", {EPS: 0.01}),
        ("falcon-11b", {EPS: 0.01, ROPE: 300.0}),
    ],
    "mpt": [("mpt", {EPS: 0.01, "attention.max_alibi_bias": 8.0})],
    "t5": [
        (
            "t5",
            {
                EPS: 1e-6,
                RMS: 1e-6,
                "decoder_block_count": 2,
                "attention.relative_buckets_count": 32,
                "decoder_start_token_id": 0,
            },
        )
    ],
    "olmo": [
        ("olmo", {EPS: 1e-5}),
        ("olmo-clipped", {EPS: 1e-5, "attention.clamp_kqv": 0.4}),
    ],
    "smollm3": [("smollm3", {RMS: 1e-6, ROPE: 2000000.0})],
    "bert": [("bert", {EPS: 1e-12, "attention.causal": False})],
}
"""Architecture to cases."""
OPEN = {name for name, known in ARCHITECTURES.items() if known.model_type in REGISTRY}


def write_case(folder: Path, architecture: str, case: str, more: dict[str, Any]) -> Path:
    golden = read_golden(case)
    config = dict(golden.config)
    metadata, tensors = convert(architecture, config, golden.tensors)
    metadata |= {f"{architecture}.{key}": value for key, value in more.items()}
    for name in ("short", "long"):
        factors = config.get("rope_scaling") or {}
        if architecture == "phi3" and f"{name}_factor" in factors:
            tensors[f"rope_factors_{name}.weight"] = np.float32(factors[f"{name}_factor"])
    metadata |= bytes_tokenizer(tensors["token_embd.weight"].shape[0])
    return write_gguf(folder / "model.gguf", metadata, tensors)


@pytest.mark.parametrize(
    ("architecture", "case", "more"),
    [
        pytest.param(architecture, case, more, id=case)
        for architecture in sorted(OPEN)
        for case, more in CASES[architecture]
    ],
)
def test_same_numbers_as_the_checkpoint(
    tmp_path: Path,
    architecture: str,
    case: str,
    more: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if architecture == "smollm3":  # the case leaves out every second layer, models every fourth
        constants = {**ARCHITECTURES[architecture].constants, "no_rope_layer_interval": 2}
        changed = replace(ARCHITECTURES[architecture], constants=constants)
        monkeypatch.setitem(ARCHITECTURES, architecture, changed)
    model = load(str(write_case(tmp_path, architecture, case, more)))
    golden = read_golden(case)
    source = [golden.source] if getattr(golden, "source", None) else []
    assert_same(case, golden, record(model.spec, model.params, golden.ids, *source))


def test_every_architecture_has_a_case() -> None:
    assert set(CASES) == set(ARCHITECTURES)


@pytest.mark.parametrize("architecture", sorted(OPEN))
def test_key_of_unknown_effect_is_refused(tmp_path: Path, architecture: str) -> None:
    case, more = CASES[architecture][0]
    path = write_case(tmp_path, architecture, case, {**more, "attention.twist": 2.0})
    with pytest.raises(ModelProblem, match=r"what these keys .* change: attention\.twist"):
        load(str(path))


@pytest.mark.parametrize("name", ["nomic-bert", "rwkv6", "lama"])
def test_unknown_architecture_is_named(tmp_path: Path, name: str) -> None:
    path = write_gguf(tmp_path / "m.gguf", {"general.architecture": name}, {})
    with pytest.raises(ModelProblem, match=f"'{name}' is not supported.*bert.*llama") as caught:
        load(str(path))
    assert ("Did you mean llama?" in str(caught.value)) == (name == "lama")


def llama(tmp_path: Path, case: str = "llama", **changes: Any) -> tuple[Path, dict[str, Any]]:
    metadata, tensors = convert("llama", read_golden(case).config, read_golden(case).tensors)
    metadata |= {"llama.attention.layer_norm_rms_epsilon": 1e-6, **bytes_tokenizer(40)}
    return tmp_path / "m.gguf", {"metadata": metadata, "tensors": tensors}


def test_divisors_of_rotary_pairs_are_the_llama3_scaling(tmp_path: Path) -> None:
    golden = read_golden("llama-llama3")
    path, parts = llama(tmp_path, "llama-llama3")
    rope = golden.config["rope_parameters"]
    parts["metadata"]["llama.rope.freq_base"] = rope["rope_theta"]
    # as the converter works them out
    factors = []
    for i in range(4):
        wavelength = 2 * np.pi * rope["rope_theta"] ** (2 * i / 8)
        turns = rope["original_max_position_embeddings"] / wavelength
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        smooth = np.clip((turns - low) / (high - low), 0, 1)
        factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    parts["tensors"]["rope_freqs.weight"] = np.array(factors, np.float32)
    assert len(set(factors)) > 1
    model = load(str(write_gguf(path, **parts)))
    assert_same("llama3", golden, record(model.spec, model.params, golden.ids))
    parts["tensors"]["rope_freqs.weight"] = np.ones(3, np.float32)
    with pytest.raises(ModelProblem, match=r"rope_freqs\.weight has shape \[3\]"):
        load(str(write_gguf(path, **parts)))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("llama.expert_count", 8, "expert_count is 8, expected 0"),
        ("llama.rope.scaling.type", "longrope", "rope.scaling.factor is None"),
        ("llama.rope.dimension_count", 2, "rope.dimension_count is 2, expected 4"),
        ("llama.attention.value_length", 8, "value_length is 8, expected 4"),
        ("llama.attention.head_count", np.array([4, 2], np.int32), "head_count differs from layer"),
        ("llama.feed_forward_length", np.array([20, 16], np.int32), "differs from layer to layer"),
        ("llama.attention.layer_norm_rms_epsilon", "x", "rms_epsilon is 'x', expected a number"),
        ("llama.block_count", 3, "tensors missing"),
        ("llama.attention.head_count_kv", 3, "which do not split into"),
        ("general.type", "adapter", "general.type is adapter"),
        ("general.architecture", 7, "general.architecture is 7, expected a string"),
    ],
)
def test_metadata_that_attn_does_not_compute(
    tmp_path: Path, key: str, value: Any, message: str
) -> None:
    path, parts = llama(tmp_path)
    parts["metadata"][key] = value
    with pytest.raises(ModelProblem) as caught:
        load(str(write_gguf(path, **parts)))
    assert message in str(caught.value)


def test_missing_key_is_not_replaced_by_a_default(tmp_path: Path) -> None:
    path, parts = llama(tmp_path)
    del parts["metadata"]["llama.attention.layer_norm_rms_epsilon"]
    with pytest.raises(ModelProblem, match="layer_norm_rms_epsilon is None, expected a number"):
        load(str(write_gguf(path, **parts)))


def test_tensor_nobody_knows_is_refused(tmp_path: Path) -> None:
    path, parts = llama(tmp_path)
    parts["tensors"]["blk.0.attn_twist.weight"] = np.ones(3, np.float32)
    with pytest.raises(ModelProblem, match=r"does not know what to do with \(blk\.0\.attn_twist"):
        load(str(write_gguf(path, **parts)))
