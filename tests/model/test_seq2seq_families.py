"""T5, BART and their relatives: configurations as hubs have them, refusals, tied embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli.checkpoints.arrays import ArrayStore
from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.families import find_family
from attncli.model.params import Params
from attncli.model.resolve import resolve
from attncli.model.spec import ModelSpec
from tests.parity.comparison import assert_same, differences, read_golden
from tests.toys import Recorder, record

Tensors = dict[str, np.ndarray]

GENERATION = {
    "early_stopping": True,
    "length_penalty": 2.0,
    "max_length": 142,
    "min_length": 56,
    "no_repeat_ngram_size": 3,
    "num_beams": 4,
    "task_specific_params": {"summarization": {"num_beams": 4}},
}
T5_SMALL = {
    "architectures": ["T5ForConditionalGeneration"],
    "d_ff": 2048,
    "d_kv": 64,
    "d_model": 512,
    "decoder_start_token_id": 0,
    "dropout_rate": 0.1,
    "eos_token_id": 1,
    "initializer_factor": 1.0,
    "is_encoder_decoder": True,
    "layer_norm_epsilon": 1e-06,
    "model_type": "t5",
    "n_positions": 512,
    "num_heads": 8,
    "num_layers": 6,
    "output_past": True,
    "pad_token_id": 0,
    "relative_attention_num_buckets": 32,
    "vocab_size": 32128,
    **GENERATION,
}
BART_LARGE = {
    "_num_labels": 3,
    "activation_dropout": 0.0,
    "activation_function": "gelu",
    "add_bias_logits": False,
    "add_final_layer_norm": False,
    "architectures": ["BartForConditionalGeneration"],
    "attention_dropout": 0.0,
    "bos_token_id": 0,
    "classif_dropout": 0.1,
    "classifier_dropout": 0.0,
    "d_model": 1024,
    "decoder_attention_heads": 16,
    "decoder_ffn_dim": 4096,
    "decoder_layerdrop": 0.0,
    "decoder_layers": 12,
    "decoder_start_token_id": 2,
    "dropout": 0.1,
    "encoder_attention_heads": 16,
    "encoder_ffn_dim": 4096,
    "encoder_layerdrop": 0.0,
    "encoder_layers": 12,
    "eos_token_id": 2,
    "extra_pos_embeddings": 2,
    "force_bos_token_to_be_generated": True,
    "forced_bos_token_id": 0,
    "forced_eos_token_id": 2,
    "gradient_checkpointing": False,
    "id2label": {"0": "LABEL_0"},
    "init_std": 0.02,
    "is_encoder_decoder": True,
    "label2id": {"LABEL_0": 0},
    "max_position_embeddings": 1024,
    "model_type": "bart",
    "normalize_before": False,
    "normalize_embedding": True,
    "num_hidden_layers": 12,
    "output_past": True,
    "pad_token_id": 1,
    "prefix": " ",
    "scale_embedding": False,
    "static_position_embeddings": False,
    "use_cache": True,
    "vocab_size": 50264,
    **GENERATION,
}
FROM_THE_HUB = {
    "t5-small": T5_SMALL,
    "flan": {
        **T5_SMALL,
        "feed_forward_proj": "gated-gelu",
        "dense_act_fn": "gelu_new",
        "is_gated_act": True,
        "tie_word_embeddings": False,
        "relative_attention_max_distance": 128,
        "num_decoder_layers": 6,
        "scale_decoder_outputs": False,
        "dtype": "float32",
    },
    "mt5-small": {**T5_SMALL, "model_type": "mt5", "feed_forward_proj": "gated-gelu"},
    "umt5-small": {**T5_SMALL, "model_type": "umt5", "feed_forward_proj": "gated-gelu"},
    "bart-large-cnn": BART_LARGE,
    "mbart-large-cc25": {
        **BART_LARGE,
        "model_type": "mbart",
        "add_final_layer_norm": True,
        "normalize_before": True,
        "scale_embedding": True,
        "decoder_start_token_id": None,
    },
    "opus-mt": {
        **BART_LARGE,
        "model_type": "marian",
        "activation_function": "swish",
        "bad_words_ids": [[58100]],
        "decoder_vocab_size": 58101,
        "vocab_size": 58101,
        "normalize_embedding": False,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "static_position_embeddings": True,
    },
    "pegasus-xsum": {
        **BART_LARGE,
        "model_type": "pegasus",
        "activation_function": "relu",
        "add_final_layer_norm": True,
        "extra_pos_embeddings": 1,
        "normalize_before": True,
        "normalize_embedding": False,
        "scale_embedding": True,
        "static_position_embeddings": True,
    },
}


def read(config: dict[str, Any]) -> ModelSpec:
    """Read a configuration whole: no key may be left over."""
    reader = ConfigReader(dict(config), "config.json")
    spec = find_family(config["model_type"]).read_spec(reader)
    reader.finish()
    return spec


def resolved(case: str, tensors: Tensors | None = None, **changes: Any) -> tuple[ModelSpec, Params]:
    """Resolve a parity case with other tensors or keys."""
    golden = read_golden(case)
    store = ArrayStore(Path("case"), golden.tensors if tensors is None else tensors)
    return resolve(ConfigReader({**golden.config, **changes}, "config.json"), store)


def run_case(case: str, tensors: Tensors, **changes: Any) -> Recorder:
    golden = read_golden(case)
    return record(*resolved(case, tensors, **changes), golden.ids, golden.source)


@pytest.mark.parametrize("name", FROM_THE_HUB)
def test_configuration_from_the_hub_is_read_whole(name: str) -> None:
    config = FROM_THE_HUB[name]
    spec = read(config)
    assert spec.encoder is not None
    assert not spec.encoder.causal
    assert spec.stack.causal
    assert spec.embed_scale == (config["d_model"] ** 0.5 if config.get("scale_embedding") else 1)
    start = config["decoder_start_token_id"]
    assert spec.decoder_start == ("last" if start is None else start)


def test_activation_of_t5_follows_the_rule_of_its_reference() -> None:
    found = {
        name: read({**T5_SMALL, "feed_forward_proj": name}).stack.activation
        for name in ("relu", "gated-gelu", "gelu", "gated-silu")
    }
    # only the gated spelling means the tanh form
    assert found == {
        "relu": "relu",
        "gated-gelu": "gelu_new",
        "gelu": "gelu",
        "gated-silu": "silu",
    }


def test_decoder_start_of_t5_is_not_made_up() -> None:
    config = {k: v for k, v in T5_SMALL.items() if k != "decoder_start_token_id"}
    assert read(config).decoder_start is None
    assert read({**config, "model_type": "mt5"}).decoder_start == 0


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("t5-small", {"dense_act_fn": "silu"}),
        ("t5-small", {"is_gated_act": True}),
        ("t5-small", {"is_decoder": True}),
        ("t5-small", {"feed_forward_proj": "gated-softplus"}),
        ("bart-large-cnn", {"normalize_before": True}),
        ("bart-large-cnn", {"add_final_layer_norm": True}),
        ("bart-large-cnn", {"static_position_embeddings": True}),
        ("bart-large-cnn", {"normalize_embedding": False}),
        ("bart-large-cnn", {"extra_pos_embeddings": 0}),
        ("bart-large-cnn", {"num_attention_heads": 8}),
        ("bart-large-cnn", {"is_encoder_decoder": False}),
        ("bart-large-cnn", {"decoder_attention_heads": 7}),
        ("mbart-large-cc25", {"normalize_before": False}),
        ("opus-mt", {"normalize_embedding": True}),
        ("pegasus-xsum", {"static_position_embeddings": False}),
        ("pegasus-xsum", {"some_new_scale": 2.0}),
    ],
)
def test_configuration_of_another_layout_is_refused(name: str, changes: dict[str, Any]) -> None:
    key = next(iter(changes))
    with pytest.raises(ModelProblem, match=key):
        read({**FROM_THE_HUB[name], **changes})


@pytest.mark.parametrize("case", ["t5", "bart", "pegasus"])
@pytest.mark.parametrize("copies", ["shared", "encoder", "decoder", "all", "encoder and decoder"])
def test_tied_embedding_is_found_under_any_of_its_names(case: str, copies: str) -> None:
    tensors = dict(read_golden(case).tensors)
    held = [name for name in tensors if "shared" in name or "embed_tokens" in name]
    (table,) = {tensors[name].tobytes(): tensors[name] for name in held}.values()
    tensors = {name: values for name, values in tensors.items() if name not in held}
    for name in ("shared", "encoder", "decoder"):
        if name in copies or copies == "all":
            tensors[f"{name}{'' if name == 'shared' else '.embed_tokens'}.weight"] = table
    assert_same(case, read_golden(case), run_case(case, tensors))


def test_copies_of_the_embedding_that_differ_are_two_embeddings() -> None:
    golden = read_golden("bart")
    held = next(name for name in golden.tensors if "shared" in name or "embed_tokens" in name)
    other = {**golden.tensors, "decoder.embed_tokens.weight": golden.tensors[held][::-1]}
    found = differences(golden, run_case("bart", other))
    assert max(found["encoder weights"]) <= 1
    assert max(found["resid"]) > 100


def test_missing_embedding_is_named() -> None:
    tensors = {
        name: values
        for name, values in read_golden("t5").tensors.items()
        if "shared" not in name and "embed_tokens" not in name
    }
    with pytest.raises(ModelProblem, match=r"shared\.weight"):
        resolved("t5", tensors)


@pytest.mark.parametrize(
    ("case", "prefix", "heads"),
    [
        ("bart", "model.", ["final_logits_bias", "lm_head.weight", "model.encoder.version"]),
        ("bart", "", ["classification_head.dense.weight", "qa_outputs.bias"]),
        ("t5", "transformer.", ["classification_head.dense.weight", "classifier.weight"]),
        (
            "t5",
            "",
            [
                "lm_head.weight",
                "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
            ],
        ),
    ],
)
def test_prefixes_are_allowed_and_heads_ignored(case: str, prefix: str, heads: list[str]) -> None:
    tensors = {f"{prefix}{name}": v for name, v in read_golden(case).tensors.items()}
    tensors |= {name: np.ones((1, 7), np.float32) for name in heads}
    assert_same(case, read_golden(case), run_case(case, tensors))


@pytest.mark.parametrize("case", ["t5", "umt5", "bart", "mbart", "marian-computed"])
def test_every_tensor_is_needed_and_no_other_is_taken(case: str) -> None:
    tensors = read_golden(case).tensors
    for missing in tensors:
        with pytest.raises(ModelProblem, match=r"missing|shape"):
            resolved(case, {name: v for name, v in tensors.items() if name != missing})
    with pytest.raises(ModelProblem, match="bias_of_another_layout"):
        resolved(case, {**tensors, "encoder.bias_of_another_layout": np.ones(3, np.float32)})


def test_layer_too_many_or_too_few_is_refused() -> None:
    with pytest.raises(ModelProblem, match="not know what to do"):
        resolved("t5", num_layers=1)
    with pytest.raises(ModelProblem, match="missing"):
        resolved("bart", decoder_layers=3)


@pytest.mark.parametrize(
    "changes",
    [{"is_encoder_decoder": False}, {"architectures": ["T5EncoderModel"]}],
    ids=["flag", "architecture"],
)
def test_encoder_cut_off_its_decoder_equals_the_encoder_of_the_whole(
    changes: dict[str, Any],
) -> None:
    golden = read_golden("t5-far")
    tensors = {n: v for n, v in golden.tensors.items() if not n.startswith("decoder.")}
    spec, params = resolved("t5-far", tensors, **changes)
    assert spec.encoder is None
    assert golden.encoder is not None
    assert_same("encoder", golden.encoder, record(spec, params, golden.source))


def test_position_bias_of_t5_is_the_same_in_every_layer_and_scores_have_no_scale() -> None:
    golden = read_golden("t5-far")
    spec, params = golden.model()
    found = record(spec, params, golden.ids, golden.source)
    assert found.encoder is not None
    table = params.need("encoder.position_bias.weight")
    # 8 buckets, 4 to a side, 0 and 1 exact, then 2 logarithmic ones up to a distance of 11
    near = [0, 1, 2, 2, 2, 3]
    n = len(golden.source)
    for layer in range(spec.reader.n_layers):
        raw = np.einsum("hqd,hkd->hqk", found.encoder.q[layer], found.encoder.k[layer])
        bias = found.encoder.scores[layer] - raw
        for query in range(n):
            for key in range(n):
                away = abs(key - query)
                place = (near[away] if away < len(near) else 3) + 4 * (key > query)
                np.testing.assert_allclose(bias[:, query, key], table[place], atol=1e-5)
