"""Encoders in the spellings of real files, and what they refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli.checkpoints.arrays import ArrayStore
from attncli.errors import InputProblem, ModelProblem
from attncli.model import attention
from attncli.model.config import ConfigReader
from attncli.model.disentangled import log_bucket, row_of
from attncli.model.ffn import convolve
from attncli.model.forward import Job, run
from attncli.model.load import load
from attncli.model.params import Params
from attncli.model.resolve import resolve
from attncli.model.spec import DisentangledSpec, ModelSpec
from tests.parity.comparison import Golden, assert_same, read_golden, run_golden
from tests.toys import WORDS, Recorder, record, tiny_bert, word_tokenizer, write_folder

Array = np.ndarray

PREFIXES = {
    "roberta": ("roberta.", ["lm_head.dense.weight", "lm_head.bias", "classifier.out_proj.bias"]),
    "xlm-roberta": ("roberta.", ["lm_head.decoder.bias", "roberta.pooler.dense.weight"]),
    "camembert": ("roberta.", ["roberta.embeddings.position_ids", "qa_outputs.bias"]),
    "distilbert": ("distilbert.", ["vocab_layer_norm.weight", "pre_classifier.weight"]),
    "electra": ("electra.", ["discriminator_predictions.dense.bias", "generator_lm_head.weight"]),
    "albert": ("albert.", ["predictions.dense.weight", "albert.pooler.bias"]),
    "mpnet": ("mpnet.", ["lm_head.layer_norm.weight", "mpnet.pooler.dense.bias"]),
    "modernbert": ("model.", ["head.norm.weight", "decoder.bias", "classifier.weight"]),
    "deberta": ("deberta.", ["lm_predictions.lm_head.bias", "pooler.dense.weight"]),
    "deberta-v3": (
        "deberta.",
        ["mask_predictions.dense.bias", "deberta.embeddings.position_embeddings.weight"],
    ),
}


def build(config: dict[str, Any], tensors: dict[str, Array]) -> tuple[ModelSpec, Params]:
    return resolve(ConfigReader(config, "config.json"), ArrayStore(Path("weights"), tensors))


def changed(name: str, **changes: Any) -> tuple[ModelSpec, Params]:
    """Resolve a golden case whose configuration is changed; ... removes a key."""
    golden = read_golden(name)
    values = {k: v for k, v in {**golden.config, **changes}.items() if v is not ...}
    return build(values, golden.tensors)


@pytest.mark.parametrize("name", PREFIXES)
def test_whole_model_with_prefix_and_heads_equals_the_bare_one(name: str) -> None:
    golden = read_golden(name)
    prefix, heads = PREFIXES[name]
    tensors = {f"{prefix}{n}": values for n, values in golden.tensors.items()}
    tensors |= {head: np.ones(3, np.float32) for head in heads}
    assert_same(name, golden, run_golden(replace(golden, tensors=tensors)))


@pytest.mark.parametrize("name", ["roberta", "electra", "albert", "deberta-v3"])
def test_old_norm_names_equal_the_new_ones(name: str) -> None:
    golden = read_golden(name)
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    tensors = dict(golden.tensors)
    for new_end, old_end in old.items():
        for n in golden.tensors:
            if n.endswith(new_end):
                tensors[n.removesuffix(new_end) + old_end] = tensors.pop(n)
    assert any(n.endswith(".gamma") for n in tensors)
    assert_same(name, golden, run_golden(replace(golden, tensors=tensors)))


@pytest.mark.parametrize("name", [*PREFIXES, "deberta-v2-conv"])
def test_tensor_of_a_block_too_many_or_too_few_is_refused_by_name(name: str) -> None:
    golden = read_golden(name)
    kept = {n: v for n, v in golden.tensors.items() if "pooler" not in n and v.ndim == 1}
    for gone in (min(kept), max(kept)):
        tensors = {n: v for n, v in golden.tensors.items() if n != gone}
        with pytest.raises(ModelProblem, match=gone.replace(".", r"\.")):
            build(golden.config, tensors)
        extra = gone.replace("bias", "extra").replace("weight", "extra")
        with pytest.raises(ModelProblem, match=extra.replace(".", r"\.")):
            build(golden.config, {**golden.tensors, extra: np.ones(4, np.float32)})


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "bert decoder": ("bert", {"is_decoder": True}, "is_decoder true"),
    "bert pruned": ("bert", {"pruned_heads": {"0": [1]}}, "pruned_heads"),
    "bert relative": (
        "bert",
        {"position_embedding_type": "relative_key"},
        "position_embedding_type",
    ),
    "roberta without rows": ("roberta", {"pad_token_id": 15}, "expected more than 16"),
    "distilbert pruned": ("distilbert", {"pruned_heads": {"1": [0]}}, "pruned_heads"),
    "albert gaps": ("albert", {"gap_size": 1}, "gap_size 1"),
    "mpnet buckets": (
        "mpnet",
        {"relative_attention_num_buckets": 64},
        "relative_attention_num_buckets 64",
    ),
    "modernbert kinds": (
        "modernbert",
        {"layer_types": ["full_attention"] * 3 + ["chunked_attention"]},
        "layer_types",
    ),
    "modernbert count": ("modernbert", {"layer_types": ["full_attention"]}, "expected 4"),
    "modernbert base": ("modernbert", {"rope_theta": 5e5}, "rope_theta"),
    "deberta heads": ("deberta", {"talking_head": True}, "talking_head true"),
    "deberta terms": ("deberta", {"pos_att_type": ["c2p", "p2p"]}, "pos_att_type is c2p, p2p"),
    "deberta width": ("deberta", {"embedding_size": 8}, "embedding_size 8"),
    "deberta-v2 taps": ("deberta-v3", {"conv_kernel_size": 4}, "conv_kernel_size 4"),
    "deberta-v2 groups": (
        "deberta-v3",
        {"conv_kernel_size": 3, "conv_groups": 2},
        "conv_groups 2",
    ),
    "deberta-v2 heads": ("deberta-v3", {"attention_head_size": 4}, "attention_head_size 4"),
    "deberta-v2 norm": ("deberta-v3", {"norm_rel_ebd": "batch_norm"}, "norm_rel_ebd"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_configuration_that_is_not_computed_is_refused(what: str) -> None:
    name, changes, message = REFUSED[what]
    with pytest.raises(ModelProblem, match=rf"config\.json: .*{message}"):
        changed(name, **changes)


@pytest.mark.parametrize("name", ["modernbert", "distilbert"])
def test_key_of_two_stacks_passes_only_when_it_says_no(name: str) -> None:
    assert changed(name, is_encoder_decoder=False, is_decoder=False)
    for key in ("is_encoder_decoder", "is_decoder"):
        with pytest.raises(ModelProblem, match=key):
            changed(name, **{key: True})


def test_rows_up_to_the_padding_are_no_places_for_tokens() -> None:
    assert changed("roberta")[0].n_positions == 14
    assert changed("roberta-pad-3-full")[0].n_positions == 12
    # the reference takes token 1 for padding whatever the configuration says
    assert changed("mpnet", pad_token_id=0)[0].position_offset == 2


def test_text_longer_than_the_rows_after_the_padding_is_refused(tmp_path: Path) -> None:
    golden = read_golden("roberta")
    words = [f"w{i}" for i in range(40)]
    write_folder(tmp_path, golden.config, golden.tensors, word_tokenizer(words, "w0"))
    model = load(str(tmp_path))
    longest = model.encode("w5 " * 14)
    assert record(model.spec, model.params, longest.ids).weights.shape[-1] == 14
    with pytest.raises(InputProblem, match=r"15 tokens, .* takes at most 14"):
        model.encode("w5 " * 15)


def test_table_padded_beyond_the_vocabulary_is_read(tmp_path: Path) -> None:
    config, tensors = tiny_bert()
    folder = write_folder(tmp_path, config, tensors, word_tokenizer(WORDS[:-2]))
    model = load(str(folder))
    assert model.spec.vocab_size == len(WORDS)
    assert max(model.encode("the dog sees").ids) < len(WORDS) - 2


def test_both_spellings_of_local_and_global_layers_give_one_spec() -> None:
    spec, _ = changed("modernbert")
    old, _ = changed(
        "modernbert",
        layer_types=...,
        rope_parameters=...,
        global_attn_every_n_layers=3,
        global_rope_theta=160000.0,
        local_rope_theta=10000.0,
        # keys of the published file
        position_embedding_type="absolute",
        layer_norm_eps=1e-5,
        classifier_pooling="mean",
    )
    rope = {"rope_type": "default", "rope_theta": 160000.0}
    new, _ = changed(
        "modernbert",
        layer_types=["full_attention", "sliding_attention"] * 2,
        rope_parameters={"full_attention": rope, "sliding_attention": {**rope, "rope_theta": 99}},
    )
    assert old == spec
    assert [layer.window for layer in old.stack.layers] == [None, 2, 2, None]
    assert [layer.window for layer in new.stack.layers] == [None, 2] * 2
    assert [layer.rope.base for layer in new.stack.layers if layer.rope] == [160000.0, 99] * 2


def test_local_base_that_is_null_is_the_global_one() -> None:
    base = {"global_rope_theta": 500.0, "rope_parameters": ...}
    for changes, expected in (({"local_rope_theta": None}, 500.0), ({}, 10000.0)):
        spec, _ = changed("modernbert", **base, **changes)
        assert [layer.rope.base for layer in spec.stack.layers if layer.rope][1] == expected


def test_both_spellings_of_the_terms_give_one_spec() -> None:
    listed, _ = changed("deberta-v2", pos_att_type=["c2p", "p2c"])
    assert changed("deberta-v2", pos_att_type="p2c|c2p")[0] == listed
    assert changed("deberta-v2", pos_att_type="P2C | C2P")[0] == listed


def test_far_distances_share_buckets_that_grow() -> None:
    spec = DisentangledSpec(16, 8, content_to_position=True, position_to_content=True)
    distances = np.arange(17)
    # beyond 4: 4 + ceil(3 · log(distance / 4) / log(15 / 4))
    buckets = [0, 1, 2, 3, 4, 5, 5, 6, 6, 6, 7, 7, 7, 7, 7, 7, 8]
    assert log_bucket(distances, spec).tolist() == buckets
    assert log_bucket(-distances, spec).tolist() == [-b for b in buckets]
    # 8 to each side: the farthest row to the left is 0, to the right 15
    assert row_of(np.array([-40, -8, 0, 4, 7, 15, 40]), spec).tolist() == [0, 2, 8, 12, 14, 15, 15]


@pytest.mark.parametrize("name", ["mpnet", "modernbert", "deberta-far", "deberta-v3"])
def test_blocks_of_query_rows_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = read_golden(name)
    monkeypatch.setattr(attention, "BLOCK_SCORES", 7 * 2 * len(golden.ids))
    found = run_golden(golden)
    assert found.blocks > found.weights.shape[0]
    assert_same(name, golden, found)


@pytest.mark.parametrize("name", ["roberta", "mpnet", "deberta-v2-conv"])
def test_texts_side_by_side_do_not_see_each_other(name: str) -> None:
    golden = read_golden(name)
    spec, params = golden.model()
    texts = [golden.ids[:4], golden.ids, golden.ids[2:3]]
    recorders = [Recorder(spec, len(ids)) for ids in texts]
    jobs = zip(texts, recorders, strict=True)
    run(spec, params, [Job(ids, [0] * len(ids), [recorder]) for ids, recorder in jobs])
    assert_same(name, golden, recorders[1])
    alone = record(spec, params, texts[0])
    np.testing.assert_allclose(recorders[0].resid, alone.resid, atol=1e-5)


def test_convolution_is_the_sum_over_neighbours_in_the_text() -> None:
    x = np.array([[1.0], [2.0], [3.0], [10.0]], np.float32)
    taps = np.array([[[100.0]], [[10.0]], [[1.0]]], np.float32)
    bias = np.array([0.5], np.float32)
    y = convolve(x, (taps, bias), [slice(0, 3), slice(3, 4)])
    assert y[:, 0].tolist() == [12.5, 123.5, 230.5, 100.5]


def _nested(folder: Path, **step: Any) -> Path:
    """Write a model as sentence-transformers did: the transformer in a folder of its own."""
    golden: Golden = read_golden("distilbert")
    words = word_tokenizer([f"w{i}" for i in range(40)], "w0")
    write_folder(folder / "0_Transformer", golden.config, golden.tensors, words)
    first = {"idx": 0, "name": "0", "path": "0_Transformer"}
    first["type"] = "sentence_transformers.models.Transformer"
    pooling = {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}
    (folder / "modules.json").write_text(json.dumps([{**first, **step}, pooling]))
    return folder


def test_transformer_in_a_folder_of_its_own_is_found(tmp_path: Path) -> None:
    model = load(str(_nested(tmp_path / "sentences")))
    assert (model.name, model.spec.family) == ("sentences", "DistilBERT")
    assert model.encode("w3 w4").ids == [3, 4]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"type": "sentence_transformers.models.BoW"}, "first step is .*BoW"),
        ({"path": "../0_Transformer"}, "not the name of a folder"),
        ({"path": 7}, "not the name of a folder"),
    ],
)
def test_other_first_steps_are_refused(tmp_path: Path, step: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelProblem, match=rf"modules\.json: .*{message}"):
        load(str(_nested(tmp_path, **step)))


def test_broken_list_of_steps_is_refused(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text("[]")
    with pytest.raises(ModelProblem, match=r"modules\.json: not a list of steps"):
        load(str(tmp_path))
