"""GPT-2-like decoders: names and keys as files have them, and what is refused.

The numbers themselves are compared in tests/parity; its frozen models are the material here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli.checkpoints.arrays import ArrayStore
from attncli.errors import ModelProblem
from attncli.model import attention
from attncli.model.config import ConfigReader
from attncli.model.families import find_family
from attncli.model.forward import Job, run
from attncli.model.params import Params
from attncli.model.resolve import resolve
from attncli.model.spec import ModelSpec
from tests.parity.comparison import Golden, read_golden
from tests.toys import Recorder, record

Array = np.ndarray
FAMILIES = {
    "bloom", "falcon", "gpt2", "gpt_neo", "gpt_neox", "gptj", "mpt", "opt", "phi", "phi3",
    "stablelm", "starcoder2",
}  # fmt: skip
CASES = [
    "bloom-3-heads", "bloom-7-heads", "falcon-11b", "falcon-40b", "falcon-7b",
    "falcon-alibi-multi-query", "falcon-rw", "gpt-neo", "gpt-neox", "gpt-neox-sequential", "gpt2",
    "gpt2-scales", "gpt2-upcast", "gptj", "mpt", "mpt-clip", "opt", "opt-no-bias",
    "opt-no-final-norm", "opt-post-norm", "phi", "phi-qk-norm", "phi3", "phi3-factor", "phi3-long",
    "phi3-short", "stablelm", "stablelm-parallel", "starcoder2", "starcoder2-no-bias",
]  # fmt: skip


def resolved(config: dict[str, Any], tensors: dict[str, Array]) -> tuple[ModelSpec, Params]:
    """Resolve a configuration; a key whose value is ... is left out."""
    values = {key: value for key, value in config.items() if value is not ...}
    return resolve(ConfigReader(values, "config.json"), ArrayStore(Path("weights"), tensors))


def changed(case: str, **changes: Any) -> ModelSpec:
    """Resolve a frozen model with some keys of its configuration changed."""
    golden = read_golden(case)
    return resolved({**golden.config, **changes}, golden.tensors)[0]


def renamed(golden: Golden, rename: Callable[[str], str]) -> dict[str, Array]:
    """Return the tensors under other names."""
    return {rename(name): values for name, values in golden.tensors.items()}


def test_every_decoder_family_has_a_case_here() -> None:
    assert {read_golden(case).config["model_type"] for case in CASES} == FAMILIES


@pytest.mark.parametrize("case", CASES)
def test_every_tensor_is_needed_and_none_more(case: str) -> None:
    golden = read_golden(case)
    for name in golden.tensors:
        tensors = {n: values for n, values in golden.tensors.items() if n != name}
        with pytest.raises(ModelProblem, match="tensors missing") as caught:
            resolved(golden.config, tensors)
        assert name in str(caught.value)
    name = next(n for n in golden.tensors if ".1." in n and n.endswith("weight"))
    surplus = name.replace("weight", "lora_a")
    with pytest.raises(ModelProblem, match="does not know what to do with") as caught:
        resolved(golden.config, {**golden.tensors, surplus: np.ones(3, np.float32)})
    assert surplus in str(caught.value)


@pytest.mark.parametrize("case", CASES)
def test_key_that_nobody_reads_is_refused_by_name(case: str) -> None:
    with pytest.raises(ModelProblem, match="attention_temperature"):
        changed(case, attention_temperature=0.5)


@pytest.mark.parametrize("case", CASES)
def test_texts_side_by_side_in_small_blocks_with_kept_parameters_change_nothing(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = read_golden(case)
    spec, params = golden.model()
    texts = [golden.ids[:4], golden.ids, golden.ids[2:5]]
    alone = [record(spec, params, ids) for ids in texts]
    # three query rows at a time
    monkeypatch.setattr(attention, "BLOCK_SCORES", 3 * spec.stack.n_heads * len(golden.ids))
    together = [Recorder(spec, len(ids)) for ids in texts]
    params = Params(params.store, params.sources, keep=True)
    jobs = [Job(i, [0] * len(i), [r]) for i, r in zip(texts, together, strict=True)]
    run(spec, params, jobs)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(other.weights, one.weights, atol=2e-6)
        np.testing.assert_allclose(other.resid, one.resid, atol=1e-5)


def buffers(pattern: str, **values: Array) -> dict[str, Array]:
    """Buffers of both layers, as older files hold them."""
    return {pattern.format(i) + name: v for i in range(2) for name, v in values.items()}


MASK = np.tril(np.ones((1, 1, 12, 12), np.float32))
LEAST = np.full((), -1e4, np.float32)
PREFIXES = {
    "gpt2": ("transformer.", buffers("transformer.h.{}.attn.", bias=MASK, masked_bias=LEAST)),
    "gpt-neo": (
        "transformer.",
        buffers("transformer.h.{}.attn.attention.", bias=MASK, masked_bias=LEAST),
    ),
    "gptj": ("transformer.", buffers("transformer.h.{}.attn.", bias=MASK, masked_bias=LEAST)),
    "gpt-neox": (
        "gpt_neox.",
        buffers("gpt_neox.layers.{}.attention.", bias=MASK, masked_bias=LEAST)
        | buffers("gpt_neox.layers.{}.attention.rotary_emb.", inv_freq=np.ones(2, np.float32)),
    ),
    "opt-post-norm": ("model.", {}),
    "bloom-3-heads": ("transformer.", {}),
    "falcon-40b": ("transformer.", {}),
    "mpt": ("transformer.", {}),
    "phi": ("model.", {"lm_head.bias": np.ones(40, np.float32)}),
    "phi3": ("model.", {}),
    "stablelm": (
        "model.",
        buffers("model.layers.{}.self_attn.rotary_emb.", inv_freq=np.ones(2, np.float32)),
    ),
    "starcoder2": ("model.", {}),
}


@pytest.mark.parametrize("case", PREFIXES)
def test_whole_model_with_prefix_head_and_buffers_equals_the_bare_one(case: str) -> None:
    prefix, surplus = PREFIXES[case]
    golden = read_golden(case)
    tensors = renamed(golden, lambda name: prefix + name)
    head = "embed_out.weight" if case == "gpt-neox" else "lm_head.weight"
    tensors |= {**surplus, head: np.ones((40, 3), np.float32)}
    found = record(*resolved(golden.config, tensors), golden.ids)
    bare = record(*golden.model(), golden.ids)
    np.testing.assert_array_equal(found.weights, bare.weights)
    np.testing.assert_array_equal(found.resid, bare.resid)


def test_mask_buffers_of_the_original_folder_stand_without_prefix_and_are_left_out() -> None:
    golden = read_golden("gpt2")
    tensors = golden.tensors | buffers("h.{}.attn.", bias=MASK, masked_bias=LEAST)
    found = record(*resolved(golden.config, tensors), golden.ids)
    np.testing.assert_array_equal(found.weights, record(*golden.model(), golden.ids).weights)


SPELLINGS: list[tuple[str, dict[str, Any]]] = [
    (
        "gpt2",
        {
            "n_embd": ...,
            "n_head": ...,
            "n_layer": ...,
            "n_positions": ...,
            "hidden_size": 18,
            "num_attention_heads": 3,
            "num_hidden_layers": 2,
            "max_position_embeddings": 12,
        },
    ),
    ("gpt2-upcast", {"n_inner": 72, "reorder_and_upcast_attn": False}),
    (
        "gptj",
        {"n_embd": ..., "n_head": ..., "hidden_size": 18, "num_attention_heads": 3, "n_inner": 72},
    ),
    ("gpt-neo", {"attention_layers": ["global", "local"]}),
    ("gpt-neo", {"attention_types": [[["global"], 1], [["local"], 1]]}),
    (
        "gpt-neox",
        {
            "rotary_pct": ...,
            "rotary_emb_base": ...,
            "rope_parameters": {
                "rope_theta": 500.0,
                "rope_type": "default",
                "partial_rotary_factor": 0.5,
            },
        },
    ),
    (
        "gpt-neox-sequential",
        {
            "rope_parameters": ...,
            "rotary_pct": 0.75,
            "rotary_emb_base": 700,
            "rope_scaling": {"type": "linear", "factor": 2.0},
        },
    ),
    (
        "bloom-7-heads",
        {
            "n_embed": ...,
            "num_hidden_layers": ...,
            "num_attention_heads": ...,
            "hidden_size": 14,
            "n_layer": 2,
            "n_head": 7,
        },
    ),
    ("falcon-11b", {"rope_theta": ..., "rope_parameters": {"rope_theta": 300, "rope_type": None}}),
    ("falcon-40b", {"num_ln_in_parallel_attn": 2, "hidden_size": ..., "n_embed": 16}),
    # the number of key/value heads counts only in the new architecture
    ("falcon-7b", {"num_kv_heads": 4, "max_position_embeddings": ...}),
    ("mpt", {"d_model": ..., "hidden_size": 18, "attn_config": {"alibi": True, "clip_qkv": None}}),
    (
        "phi",
        {
            "partial_rotary_factor": ...,
            "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5},
        },
    ),
    # what both places say counts as the map says it
    ("phi-qk-norm", {"rope_theta": 10.0, "partial_rotary_factor": 0.5}),
    (
        "starcoder2",
        {"rope_theta": ..., "rope_parameters": {"rope_type": "default", "rope_theta": 300.0}},
    ),
    (
        "stablelm",
        {
            "partial_rotary_factor": ...,
            "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5},
        },
    ),
    (
        "phi3-long",
        {
            "rope_scaling": ...,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 10_000.0,
                "short_factor": [1.0, 1.1],
                "long_factor": [1.5, 3.0],
            },
        },
    ),
    (
        "phi3-long",
        {"rope_scaling": {"type": "su", "short_factor": [1.0, 1.1], "long_factor": [1.5, 3.0]}},
    ),
]


@pytest.mark.parametrize(("case", "changes"), SPELLINGS)
def test_other_spelling_of_the_same_configuration_gives_the_same_model(
    case: str, changes: dict[str, Any]
) -> None:
    assert changed(case, **changes) == read_golden(case).model()[0]


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("gpt2", {"add_cross_attention": True}, "add_cross_attention"),
    ("gpt2", {"hidden_size": 20}, "n_embd and hidden_size should be equal"),
    ("gpt2", {"activation_function": "quartic"}, "activation_function"),
    ("gptj", {"rotary_dim": None}, "rotary_dim is missing"),
    ("gptj", {"rotary_dim": 8}, "rotary_dim is 8, expected an even number up to 6"),
    ("gptj", {"rotary_dim": 3}, "rotary_dim is 3"),
    ("gpt-neo", {"attention_layers": ["local", "global"]}, "attention_layers"),
    ("gpt-neo", {"attention_types": [[["global"], 3]]}, "attention_types"),
    ("gpt-neo", {"attention_types": [["global", 1, 2]]}, "attention_types"),
    ("gpt-neo", {"attention_types": [[["global", "dilated"], 1]]}, "attention_types"),
    ("gpt-neo", {"attention_types": "global"}, "attention_types"),
    ("gpt-neox", {"head_dim": 16}, "head_dim"),
    ("gpt-neox", {"rotary_pct": 0.4}, "3 of the 8 dimensions of a head"),
    ("gpt-neox", {"rotary_pct": 0.0}, "partial_rotary_factor above 0"),
    ("opt", {"layer_norm_elementwise_affine": False}, "layer_norm_elementwise_affine"),
    ("bloom-3-heads", {"apply_residual_connection_post_layernorm": True}, "post_layernorm"),
    ("bloom-3-heads", {"slow_but_exact": True}, "slow_but_exact"),
    ("bloom-3-heads", {"n_inner": 30}, "n_inner"),
    ("falcon-7b", {"multi_query": None}, "multi_query is missing"),
    ("falcon-7b", {"apply_residual_connection_post_layernorm": True}, "post_layernorm"),
    ("falcon-7b", {"num_ln_in_parallel_attn": 2}, "do not go together"),
    ("falcon-7b", {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    ("falcon-40b", {"parallel_attn": False}, "do not go together"),
    ("falcon-40b", {"num_kv_heads": 3}, "num_attention_heads 4 does not divide"),
    ("falcon-rw", {"num_kv_heads": 1}, "num_kv_heads"),
    ("mpt", {"no_bias": False}, "no_bias"),
    ("mpt", {"expansion_ratio": 2}, "expansion_ratio"),
    ("mpt", {"norm_type": "rmsnorm"}, "norm_type"),
    ("mpt", {"attn_config": {"alibi": False}}, "attn_config: alibi false"),
    ("mpt", {"attn_config": {"alibi_bias_max": 16}}, "alibi_bias_max 16"),
    ("mpt", {"attn_config": {"qk_ln": True}}, "qk_ln"),
    ("mpt", {"attn_config": {"prefix_lm": True}}, "prefix_lm"),
    ("mpt", {"attn_config": {"attn_uses_sequence_id": True}}, "attn_uses_sequence_id"),
    ("mpt", {"attn_config": {"attn_type": "multiquery_attention"}}, "attn_type"),
    ("mpt", {"attn_config": {"rope": True}}, "attn_config: attn does not know .* rope"),
    ("phi", {"head_dim": 8}, "head_dim"),
    ("phi", {"num_key_value_heads": 3}, "num_attention_heads 4 does not divide"),
    ("starcoder2", {"num_key_value_heads": None}, "num_key_value_heads is missing"),
    ("starcoder2", {"norm_type": "rms_norm"}, "norm_type"),
    ("starcoder2", {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    ("stablelm", {"num_key_value_heads": ...}, "num_key_value_heads is missing"),
    ("phi3", {"attention_bias": True}, "attention_bias"),
    ("phi3", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "'linear' is not supported"),
    ("phi3-long", {"original_max_position_embeddings": ...}, "original_max_position_embeddings"),
    ("phi3-long", {"rope_scaling": {"type": "longrope", "long_factor": [1, 1]}}, "short_factor"),
]


@pytest.mark.parametrize(("case", "changes", "message"), REFUSED)
def test_what_is_not_computed_is_refused_by_name(
    case: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelProblem, match=message) as caught:
        changed(case, **changes)
    assert str(caught.value).startswith("config.json: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("case", "changes", "bias"),
    [
        ("gpt-neox", {"attention_bias": False}, "query_key_value.bias"),
        ("opt", {"enable_bias": False}, "fc1.bias"),
        ("falcon-rw", {"bias": False}, "dense.bias"),
        ("starcoder2", {"use_bias": False}, "q_proj.bias"),
        ("stablelm-parallel", {"use_qkv_bias": False}, "q_proj.bias"),
        ("stablelm-parallel", {"qk_layernorm": False}, "k_layernorm.norms.0"),
        ("phi-qk-norm", {"qk_layernorm": False}, "k_layernorm"),
        ("opt", {"_remove_final_layer_norm": True}, "decoder.final_layer_norm"),
    ],
)
def test_tensor_that_the_configuration_does_not_name_is_refused(
    case: str, changes: dict[str, Any], bias: str
) -> None:
    with pytest.raises(ModelProblem, match="does not know what to do with") as caught:
        changed(case, **changes)
    assert bias in str(caught.value)


@pytest.mark.parametrize(
    ("case", "parts"),
    [
        ("mpt", ("q", "k", "v")),
        ("falcon-7b", ("q", "k", "v")),
        ("phi3", ("q", "k", "v")),
    ],
)
def test_parts_of_a_fused_tensor_are_read_without_the_rest(
    case: str, parts: tuple[str, ...]
) -> None:
    params = read_golden(case).model()[1]
    for role in parts:
        source = params.sources[f"0.attn.{role}.weight"]
        assert source.read_shape[0] < source.shape[0]


# as published on the hub; sizes cut down
PUBLISHED: dict[str, dict[str, Any]] = {
    "gpt2": {
        "activation_function": "gelu_new",
        "architectures": ["GPT2LMHeadModel"],
        "attn_pdrop": 0.1,
        "bos_token_id": 50256,
        "embd_pdrop": 0.1,
        "eos_token_id": 50256,
        "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05,
        "n_ctx": 1024,
        "n_embd": 16,
        "n_head": 2,
        "n_layer": 2,
        "n_positions": 1024,
        "resid_pdrop": 0.1,
        "summary_activation": None,
        "summary_first_dropout": 0.1,
        "summary_proj_to_labels": True,
        "summary_type": "cls_index",
        "summary_use_proj": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
        "vocab_size": 50257,
    },
    "gptj": {
        "activation_function": "gelu_new",
        "attn_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "gradient_checkpointing": False,
        "layer_norm_epsilon": 1e-05,
        "n_embd": 16,
        "n_head": 2,
        "n_inner": None,
        "n_layer": 2,
        "n_positions": 2048,
        "resid_pdrop": 0.0,
        "rotary": True,
        "rotary_dim": 4,
        "scale_attn_weights": True,
        "tie_word_embeddings": False,
        "tokenizer_class": "GPT2Tokenizer",
        "vocab_size": 50400,
    },
    "gpt_neox": {
        "bos_token_id": 0,
        "hidden_act": "gelu",
        "hidden_size": 16,
        "initializer_range": 0.02,
        "intermediate_size": 64,
        "layer_norm_eps": 1e-05,
        "max_position_embeddings": 2048,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "rotary_emb_base": 10000,
        "rotary_pct": 0.25,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
        "use_cache": True,
        "use_parallel_residual": True,
        "vocab_size": 50304,
    },
    "opt": {
        "_remove_final_layer_norm": False,
        "activation_dropout": 0.0,
        "activation_function": "relu",
        "attention_dropout": 0.0,
        "do_layer_norm_before": False,
        "dropout": 0.1,
        "ffn_dim": 64,
        "hidden_size": 16,
        "init_std": 0.02,
        "layerdrop": 0.0,
        "max_position_embeddings": 2048,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "pad_token_id": 1,
        "prefix": "</s>",
        "vocab_size": 50272,
        "word_embed_proj_dim": 8,
    },
    "bloom": {
        "apply_residual_connection_post_layernorm": False,
        "attention_dropout": 0.0,
        "attention_softmax_in_fp32": True,
        "bias_dropout_fusion": True,
        "hidden_dropout": 0.0,
        "layer_norm_epsilon": 1e-05,
        "masked_softmax_fusion": True,
        "n_embed": 16,
        "n_inner": None,
        "n_layer": 2,
        "num_attention_heads": 2,
        "offset_alibi": 100,
        "pretraining_tp": 1,
        "seq_length": 2048,
        "skip_bias_add": True,
        "skip_bias_add_qkv": False,
        "slow_but_exact": False,
        "unk_token_id": 0,
        "vocab_size": 250880,
    },
    "falcon": {
        "alibi": False,
        "apply_residual_connection_post_layernorm": False,
        "attention_dropout": 0.0,
        "bias": False,
        "hidden_dropout": 0.0,
        "hidden_size": 16,
        "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05,
        "multi_query": True,
        "new_decoder_architecture": False,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "parallel_attn": True,
        "vocab_size": 65024,
    },
    "mpt": {
        "attn_config": {
            "alibi": True,
            "alibi_bias_max": 8,
            "attn_impl": "torch",
            "attn_pdrop": 0,
            "attn_type": "multihead_attention",
            "attn_uses_sequence_id": False,
            "clip_qkv": None,
            "prefix_lm": False,
            "qk_ln": False,
            "softmax_scale": None,
        },
        "d_model": 16,
        "emb_pdrop": 0,
        "embedding_fraction": 1.0,
        "expansion_ratio": 4,
        "init_config": {"name": "kaiming_normal_"},
        "init_device": "cpu",
        "learned_pos_emb": True,
        "logit_scale": None,
        "max_seq_len": 2048,
        "n_heads": 2,
        "n_layers": 2,
        "no_bias": True,
        "norm_type": "low_precision_layernorm",
        "resid_pdrop": 0,
        "tokenizer_name": "EleutherAI/gpt-neox-20b",
        "verbose": 0,
        "vocab_size": 50432,
    },
    "phi": {
        "attention_dropout": 0.0,
        "embd_pdrop": 0.0,
        "hidden_act": "gelu_new",
        "hidden_size": 16,
        "intermediate_size": 64,
        "layer_norm_eps": 1e-05,
        "max_position_embeddings": 2048,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "num_key_value_heads": None,
        "partial_rotary_factor": 0.5,
        "qk_layernorm": False,
        "resid_pdrop": 0.1,
        "rope_scaling": None,
        "rope_theta": 10000.0,
        "vocab_size": 51200,
    },
    "phi3": {
        "attention_bias": False,
        "embd_pdrop": 0.0,
        "full_attn_mod": 1,
        "hidden_act": "silu",
        "hidden_size": 16,
        "intermediate_size": 64,
        "interpolate_factor": 1,
        "lm_head_bias": False,
        "max_position_embeddings": 4096,
        "mlp_bias": False,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "original_max_position_embeddings": 4096,
        "resid_pdrop": 0.0,
        "rms_norm_eps": 1e-05,
        "rope_scaling": None,
        "rope_theta": 10000.0,
        "sliding_window": 2047,
        "vocab_size": 32064,
    },
    "starcoder2": {
        "attention_dropout": 0.1,
        "embedding_dropout": 0.1,
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_size": 16,
        "intermediate_size": 64,
        "max_position_embeddings": 16384,
        "mlp_type": "default",
        "norm_epsilon": 1e-05,
        "norm_type": "layer_norm",
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "num_key_value_heads": 1,
        "residual_dropout": 0.1,
        "rope_theta": 999999.4420358813,
        "sliding_window": 4096,
        "use_bias": True,
        "vocab_size": 49152,
    },
    "stablelm": {
        "hidden_act": "silu",
        "hidden_size": 16,
        "intermediate_size": 64,
        "layer_norm_eps": 1e-05,
        "max_position_embeddings": 4096,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "partial_rotary_factor": 0.25,
        "rope_theta": 10000,
        "tie_word_embeddings": False,
        "use_qkv_bias": True,
        "vocab_size": 100352,
    },
}


@pytest.mark.parametrize("model_type", PUBLISHED)
def test_published_configuration_is_read_to_the_last_key(model_type: str) -> None:
    config = ConfigReader({"model_type": model_type, **PUBLISHED[model_type]}, "config.json")
    stack = find_family(model_type).read_spec(config).stack
    config.finish()
    assert (stack.n_layers, stack.d_model, stack.n_heads, stack.d_ff) == (2, 16, 2, 64)


def test_scores_far_below_any_mask_constant_leave_later_keys_exactly_zero() -> None:
    golden = read_golden("gpt2")
    bias = np.zeros(54, np.float32)
    bias[:18], bias[18:36] = 500, -500
    tensors = {**golden.tensors, "h.0.attn.c_attn.bias": bias}
    found = record(*resolved(golden.config, tensors), golden.ids)
    scores, weights = found.scores[0], found.weights[0]
    later = np.triu(np.ones(scores.shape[1:], bool), 1)
    assert scores[:, ~later].max() < -6e5
    assert np.all(weights[:, later] == 0)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    q, k = found.q[0].astype(float), found.k[0].astype(float)
    np.testing.assert_allclose(scores[:, ~later], (q @ k.transpose(0, 2, 1))[:, ~later], rtol=1e-6)
