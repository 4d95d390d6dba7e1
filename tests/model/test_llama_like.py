"""Llama and its relatives: which keys mean what, where tensors stand, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli.checkpoints.arrays import ArrayStore
from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.families import find_family
from attncli.model.resolve import resolve
from attncli.model.spec import ModelSpec, RopeSpec
from tests.parity.cases.llama_like import GEMMA, TINY_LLAMA
from tests.parity.comparison import assert_same, read_golden, renamed, run_golden
from tests.toys import Tensors, record

SLIDING, FULL = "sliding_attention", "full_attention"


def read(model_type: str, **values: Any) -> ModelSpec:
    """Read the spec of a tiny model, with other values; every key must have been understood."""
    config = ConfigReader({"model_type": model_type, **TINY_LLAMA, **values}, "config.json")
    spec = find_family(model_type).read_spec(config)
    config.finish()
    return spec


def windows(model_type: str, **values: Any) -> list[int | None]:
    return [layer.window for layer in read(model_type, **values).stack.layers]


@pytest.mark.parametrize(
    ("model_type", "values", "expected"),
    [
        # an absent key means the 4,096 of the configuration class, null means none
        ("mistral", {}, [4096, 4096]),
        ("mistral", {"sliding_window": None}, [None, None]),
        ("mistral", {"sliding_window": 4}, [4, 4]),
        ("ministral", {"sliding_window": 4}, [4, 4]),
        ("ministral", {"sliding_window": None}, [None, None]),
        ("ministral", {"sliding_window": 4, "layer_types": [FULL, SLIDING]}, [None, 4]),
        ("mixtral", {}, [None, None]),
        ("mixtral", {"sliding_window": 4}, [4, 4]),
        # the number is there, the switch beside it says no
        ("qwen2", {"sliding_window": 3, "use_sliding_window": False}, [None, None]),
        ("qwen2", {"sliding_window": 3, "max_window_layers": 1}, [None, None]),
        (
            "qwen2",
            {"sliding_window": 3, "use_sliding_window": True, "max_window_layers": 1},
            [None, 3],
        ),
        ("qwen2", {"sliding_window": 3, "use_sliding_window": True}, [None, None]),
        ("qwen2", {"sliding_window": None, "use_sliding_window": True}, [None, None]),
        (
            "qwen3",
            {"sliding_window": 3, "use_sliding_window": True, "layer_types": [SLIDING, FULL]},
            [3, None],
        ),
        ("smollm3", {"sliding_window": 3}, [None, None]),
        (
            "smollm3",
            {"sliding_window": 3, "use_sliding_window": True, "no_rope_layers": [1, 0]},
            [None, 3],
        ),
        ("gemma2", {"sliding_window": 4, "num_hidden_layers": 4}, [4, None, 4, None]),
        ("gemma2", {"sliding_window": 4, "layer_types": [FULL, SLIDING]}, [None, 4]),
        ("gemma3_text", {"num_hidden_layers": 7}, [4096] * 5 + [None, 4096]),
        ("gemma3_text", {"sliding_window_pattern": 2, "sliding_window": 4}, [4, None]),
        ("gemma3_text", {"use_bidirectional_attention": True, "sliding_window": 5}, [2, 2]),
        ("gpt_oss", {"sliding_window": 4}, [4, None]),
    ],
)
def test_which_layers_have_a_window(
    model_type: str, values: dict[str, Any], expected: list[int | None]
) -> None:
    assert windows(model_type, **values) == expected


@pytest.mark.parametrize(
    ("model_type", "values", "named"),
    [
        ("qwen2", {"layer_types": [SLIDING, FULL]}, "use_sliding_window is false"),
        ("qwen2", {"layer_types": [FULL]}, "layer_types has 1 entries"),
        ("qwen2", {"layer_types": ["chunked_attention", FULL]}, "chunked_attention"),
        ("gemma2", {"sliding_window": None}, "sliding_window is missing"),
        ("mistral", {"layer_types": [FULL, SLIDING]}, "layer_types"),
        ("smollm3", {"no_rope_layers": [1]}, "no_rope_layers has 1"),
        ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ("llama", {"num_key_value_heads": 3}, "num_key_value_heads 3"),
        ("llama", {"hidden_size": 18, "num_attention_heads": 4}, "hidden_size 18 does not divide"),
        ("llama", {"head_dim": 3}, "3 of the 3 dimensions"),
        ("llama", {"rope_interleaved": True}, "rope_interleaved"),
        ("llama", {"sliding_window": 4}, "sliding_window"),
        ("gemma", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ("gemma", {"hidden_activation": "relu"}, "hidden_activation"),
        ("gemma2", {"sliding_window": 4, "sliding_window_size": 5}, "sliding_window_size"),
        ("gemma3_text", {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping"),
        ("gemma3_text", {"_sliding_window_pattern": 3}, "_sliding_window_pattern"),
        ("gemma3_text", {"rope_parameters": {"rope_type": "default"}}, "needs a map"),
        ("olmo", {"rms_norm_eps": 1e-6}, "rms_norm_eps"),
        ("mixtral", {"num_experts_per_tok": 9}, "num_experts_per_tok is 9"),
        ("mixtral", {"num_experts": 4, "num_local_experts": 5}, "num_local_experts 5"),
        ("gpt_oss", {"experts_per_token": 3}, "experts_per_token"),
    ],
)
def test_what_contradicts_itself_or_the_reference_is_refused_by_name(
    model_type: str, values: dict[str, Any], named: str
) -> None:
    with pytest.raises(ModelProblem, match=named):
        read(model_type, **values)


def test_gemma3_spells_two_kinds_of_positions_in_two_ways() -> None:
    kinds = {"layer_types": [SLIDING, FULL], **GEMMA}
    new = read(
        "gemma3_text",
        **kinds,
        rope_parameters={
            SLIDING: {"rope_type": "default", "rope_theta": 20.0},
            FULL: {"rope_type": "linear", "factor": 8.0, "rope_theta": 900.0},
        },
    )
    old = read(
        "gemma3_text",
        **kinds,
        rope_theta=900.0,
        rope_local_base_freq=20.0,
        rope_scaling={"type": "linear", "factor": 8.0},
    )
    assert old == new
    local, whole = (layer.rope for layer in new.stack.layers)
    assert local == RopeSpec(20.0, 6)
    assert whole is not None
    assert (whole.base, whole.scaling and whole.scaling.factor) == (900.0, 8.0)
    # of neither spelling: the bases of the configuration class
    bases = [layer.rope and layer.rope.base for layer in read("gemma3_text", **kinds).stack.layers]
    assert bases == [10_000.0, 1_000_000.0]


@pytest.mark.parametrize(
    ("model_type", "base"),
    [
        ("llama", 1e4),
        ("mistral", 1e4),
        ("ministral", 1e4),
        ("mixtral", 1e6),
        ("qwen2", 1e4),
        ("qwen2_moe", 1e4),
        ("qwen3", 1e4),
        ("qwen3_moe", 1e4),
        ("smollm3", 2e6),
        ("gemma", 1e4),
        ("gemma2", 1e4),
        ("olmo", 1e4),
        ("olmo2", 1e4),
        ("granite", 1e4),
        ("gpt_oss", 150_000.0),
    ],
)
def test_base_of_positions_in_both_spellings_and_in_neither(model_type: str, base: float) -> None:
    absent = read(model_type).stack.layers[0].rope
    assert absent is not None
    assert absent.base == base
    old = read(model_type, rope_theta=77.0, rope_scaling=None)
    new = read(model_type, rope_parameters={"rope_theta": 77.0, "rope_type": "default"})
    if model_type != "gpt_oss":  # its map is not empty when absent
        assert old == new
    assert [spec.stack.layers[0].rope.base for spec in (old, new)] == [77.0, 77.0]


def test_old_gelu_of_gemma_is_its_tanh_form() -> None:
    for values in ({}, {"hidden_act": "gelu"}, {"hidden_activation": "gelu_pytorch_tanh"}):
        assert read("gemma", **values).stack.activation == "gelu_pytorch_tanh"
    assert read("gemma", hidden_act="relu").stack.activation == "relu"


def test_layers_without_positions_of_smollm3() -> None:
    turning = [
        layer.rope is not None for layer in read("smollm3", num_hidden_layers=8).stack.layers
    ]
    assert turning == [True, True, True, False] * 2


@pytest.mark.parametrize(
    ("key", "tensor"),
    [
        ("attention_bias", "model.layers.0.self_attn.q_proj.bias"),
        ("mlp_bias", "model.layers.0.mlp.down_proj.bias"),
    ],
)
def test_the_configuration_says_whether_there_are_biases(key: str, tensor: str) -> None:
    golden = renamed(read_golden("llama-mqa-biases-head-dim"), lambda name: f"model.{name}")
    store = ArrayStore(Path("w"), golden.tensors)
    with pytest.raises(ModelProblem, match="does not know what to do with"):
        resolve(ConfigReader({**golden.config, key: False}, "c"), store)
    del golden.tensors[tensor]
    with pytest.raises(ModelProblem, match=f"missing .*{tensor}"):
        golden.model()


def test_head_and_buffers_of_old_files_are_passed_over() -> None:
    golden = renamed(read_golden("llama"), lambda name: f"model.{name}")
    golden.tensors["lm_head.weight"] = golden.tensors["model.embed_tokens.weight"]
    golden.tensors["model.layers.1.self_attn.rotary_emb.inv_freq"] = np.ones(2, np.float32)
    assert_same("llama", golden, run_golden(golden))


def test_experts_one_by_one_equal_experts_in_one_tensor() -> None:
    golden = read_golden("mixtral")
    apart: Tensors = {}
    for name, values in golden.tensors.items():
        layer, _, part = name.partition(".mlp.")
        old = f"model.{layer}.block_sparse_moe"
        if part == "experts.gate_up_proj":
            for expert, both in enumerate(values):
                apart[f"{old}.experts.{expert}.w1.weight"] = both[: len(both) // 2]
                apart[f"{old}.experts.{expert}.w3.weight"] = both[len(both) // 2 :]
        elif part == "experts.down_proj":
            for expert, down in enumerate(values):
                apart[f"{old}.experts.{expert}.w2.weight"] = down
        else:
            apart[f"{old}.{part}" if part else f"model.{name}"] = values
    golden.tensors = apart
    assert_same("mixtral", golden, run_golden(golden))


@pytest.mark.parametrize("name", ["qwen2-moe", "qwen3-moe"])
def test_experts_of_qwen_stand_one_by_one_in_files(name: str) -> None:
    golden = read_golden(name)
    apart: Tensors = {}
    for tensor, values in golden.tensors.items():
        layer, _, part = tensor.partition(".experts.")
        for expert, one in enumerate(values if part else []):
            if part == "gate_up_proj":
                half = len(one) // 2
                apart[f"model.{layer}.experts.{expert}.gate_proj.weight"] = one[:half]
                apart[f"model.{layer}.experts.{expert}.up_proj.weight"] = one[half:]
            else:
                apart[f"model.{layer}.experts.{expert}.down_proj.weight"] = one
        if not part:
            apart[f"model.{tensor}"] = values
    golden.tensors = apart
    assert_same(name, golden, run_golden(golden))


def test_window_covers_the_query_and_the_keys_before_it() -> None:
    found = run_golden(read_golden("mistral-window"))
    for query in range(found.weights.shape[2]):
        seen = np.flatnonzero(found.weights[0, 0, query])
        assert seen.tolist() == list(range(max(0, query - 3), query + 1))
    np.testing.assert_allclose(found.weights.sum(-1), 1, atol=1e-6)


def test_scores_of_gemma2_stay_below_the_cap() -> None:
    golden = read_golden("gemma2")
    found = run_golden(golden)
    cap = golden.config["attn_logit_softcapping"]
    finite = found.scores[np.isfinite(found.scores)]
    assert np.abs(finite).max() < cap
    # close to it somewhere, so that leaving it out would show
    assert np.abs(finite).max() > 0.8 * cap


def test_query_heads_read_the_key_head_of_their_group() -> None:
    golden = read_golden("qwen3")
    model = golden.model()
    found = record(*model, golden.ids)
    n_heads = model[0].stack.n_heads
    for head in range(n_heads):
        keys = found.k[0][head // (n_heads // model[0].stack.n_kv_heads)]
        scores = found.q[0, head] @ keys.T
        seen = np.isfinite(found.scores[0, head])
        np.testing.assert_allclose(scores[seen], found.scores[0, head][seen], atol=1e-5)


def test_learned_sink_leaves_each_row_less_than_one() -> None:
    found = run_golden(read_golden("gpt-oss"))
    sums = found.weights.sum(-1)
    assert (sums > 0).all()
    assert (sums < 1 - 1e-3).all()
