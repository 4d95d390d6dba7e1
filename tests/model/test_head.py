"""The output head in chunks, and which checkpoints have one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attncli.model.head as head_module
from attncli.checkpoints.arrays import ArrayStore
from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader
from attncli.model.head import Head, find_head
from attncli.model.load import Model
from attncli.model.params import Params, Source
from attncli.model.resolve import resolve
from attncli.model.spec import HeadSpec
from tests.parity.heads import GoldenHead, logits_of, read_golden_head
from tests.toys import tiny_bert

Array = np.ndarray


def table_head(table: Array, spec: HeadSpec | None = None, bias: Array | None = None) -> Head:
    """A head that is a table, and perhaps a bias."""
    arrays = {"table": table.astype(np.float32)}
    sources = {"head.token.weight": Source("table", table.shape)}
    if bias is not None:
        arrays["bias"] = bias.astype(np.float32)
        sources["head.bias"] = Source("bias", bias.shape)
    return Head(spec or HeadSpec(), Params(ArrayStore(Path("file"), arrays), sources))


def head_of(golden: GoldenHead) -> Head | None:
    """The head that a checkpoint has."""
    return find_head(golden.model()[1])


def test_two_tokens_by_hand() -> None:
    head = table_head(np.array([[1.0, 0.0], [0.0, 2.0]]), bias=np.array([0.0, 1.0]))
    scores = head.read(np.array([[2.0, 0.5]], np.float32), 2)
    # logits 2 and 2·0.5 + 1 = 2: even odds, the lower id first
    assert scores.ids.tolist() == [[0, 1]]
    np.testing.assert_allclose(scores.probabilities, [[0.5, 0.5]], rtol=1e-6)
    np.testing.assert_allclose(scores.entropy, [np.log(2)], rtol=1e-6)
    np.testing.assert_allclose(scores.log_sum, [2 + np.log(2)], rtol=1e-6)


def test_scale_comes_before_the_cap() -> None:
    head = table_head(np.array([[8.0], [0.0]]), HeadSpec(scale=0.5, softcap=2.0))
    scores = head.read(np.ones((1, 1), np.float32), 1)
    np.testing.assert_allclose(scores.logits, [[2 * np.tanh(2.0)]], rtol=1e-6)


@given(st.integers(1, 9), st.integers(1, 30), st.integers(1, 12), st.integers(0, 99))
def test_chunks_make_no_difference(step: int, n_tokens: int, top: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # few values, so that many logits are equal
    head = table_head(rng.integers(-2, 3, (n_tokens, 3)))
    states = rng.integers(-2, 3, (4, 3)).astype(np.float32)
    wanted = rng.integers(0, n_tokens, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_module, "CHUNK", 3 * step)
        scores = head.read(states, top, wanted)
    logits = states @ head.params.store.read("table").T
    order = np.argsort(-logits, axis=1, kind="stable")
    assert np.array_equal(scores.ids, order[:, :top])
    exact = np.exp(logits.astype(np.float64))
    exact /= exact.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        scores.probabilities, np.take_along_axis(exact, order, 1)[:, :top], rtol=1e-6
    )
    np.testing.assert_allclose(scores.entropy, -(exact * np.log(exact)).sum(1), atol=1e-6)
    places = np.argmax(order == wanted[:, None], axis=1)
    assert scores.ranks is not None
    assert np.array_equal(scores.ranks, places + 1)


def test_table_is_never_whole_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    head = table_head(np.ones((50, 4)))
    asked: list[int] = []
    rows = ArrayStore.rows

    def watched(store: ArrayStore, name: str, index: slice) -> Array:
        asked.append(index.stop - index.start)
        return rows(store, name, index)

    monkeypatch.setattr(ArrayStore, "rows", watched)
    monkeypatch.setattr(head_module, "CHUNK", 4 * 8)
    head.read(np.ones((1, 4), np.float32), 3)
    assert asked == [8, 8, 8, 8, 8, 8, 2]


def test_logits_that_are_no_numbers_are_refused() -> None:
    head = table_head(np.array([[3e38], [1.0]]))
    with pytest.raises(ModelProblem, match="no numbers"):
        head.read(np.full((1, 1), 10, np.float32), 1)


def test_sentence_encoder_has_no_head(minilm: Model) -> None:
    assert find_head(minilm.params) is None


def test_untied_checkpoint_without_a_table_has_no_head() -> None:
    golden = read_golden_head("llama")
    del golden.tensors["lm_head.weight"]
    assert head_of(golden) is None


def test_tied_checkpoint_without_a_table_uses_the_embedding() -> None:
    golden = read_golden_head("llama")
    del golden.tensors["lm_head.weight"]
    golden.config["tie_word_embeddings"] = True
    head = head_of(golden)
    assert head is not None
    assert head.params.sources["head.token.weight"].tensor.endswith("embed_tokens.weight")


def test_first_version_said_to_be_untied_without_a_table_has_no_head() -> None:
    golden = read_golden_head("t5")
    golden.config["tie_word_embeddings"] = False
    assert head_of(golden) is None


def test_decoder_that_sees_both_ways_predicts_nothing() -> None:
    golden = read_golden_head("gemma3")
    golden.config["use_bidirectional_attention"] = True
    assert head_of(golden) is None


def test_discriminator_has_no_head() -> None:
    golden = read_golden_head("electra")
    for name in [name for name in golden.tensors if name.startswith("generator_")]:
        values = golden.tensors.pop(name)
        golden.tensors[name.replace("generator_predictions", "discriminator_predictions")] = values
    golden.tensors.pop("generator_lm_head.bias", None)
    golden.tensors = {n: v for n, v in golden.tensors.items() if not n.startswith("generator")}
    assert head_of(golden) is None


def test_classifier_with_the_dense_part_of_a_mask_head_has_none() -> None:
    golden = read_golden_head("modernbert")
    golden.tensors["classifier.weight"] = np.ones((2, 16), np.float32)
    assert head_of(golden) is None


@pytest.mark.parametrize(
    ("case", "missing"),
    [
        ("bert", "cls.predictions.transform.dense.bias"),
        ("gptj", "lm_head.bias"),
        ("distilbert", "vocab_projector.bias"),
    ],
)
def test_part_of_a_head_is_refused_by_name_only_when_it_is_used(case: str, missing: str) -> None:
    golden = read_golden_head(case)
    del golden.tensors[missing]
    _, params = golden.model()
    with pytest.raises(ModelProblem, match=f"1 of . tensors missing .{missing}"):
        find_head(params)


def test_table_of_another_shape_is_refused() -> None:
    golden = read_golden_head("llama")
    golden.tensors["lm_head.weight"] = golden.tensors["lm_head.weight"][:-1]
    with pytest.raises(ModelProblem, match=r"lm_head.weight has shape \[39, 16\]"):
        head_of(golden)


def test_bias_that_the_reference_does_not_have_is_refused() -> None:
    # the family ignores this tensor, its head must not
    golden = read_golden_head("phi3")
    golden.tensors["lm_head.bias"] = np.ones(40, np.float32)
    with pytest.raises(ModelProblem, match=r"does not know what to do with \(lm_head.bias\)"):
        head_of(golden)


def test_tied_heads_read_the_older_name_of_the_bias() -> None:
    golden = read_golden_head("bert")
    newer, older = "cls.predictions.decoder.bias", "cls.predictions.bias"
    present = newer if newer in golden.tensors else older
    values = golden.tensors.pop(present)
    states = np.ones((1, 24), np.float32)
    found = []
    for name in (newer, older):
        head = head_of(replace(golden, tensors={**golden.tensors, name: values}))
        assert head is not None
        found.append(logits_of(head, states))
    np.testing.assert_array_equal(*found)
    untied = {**golden.config, "tie_word_embeddings": False}
    table = {"cls.predictions.decoder.weight": np.ones((40, 24), np.float32)}
    with pytest.raises(ModelProblem, match=newer):
        head_of(replace(golden, config=untied, tensors={**golden.tensors, **table, older: values}))


@pytest.mark.parametrize(("legacy", "dense"), [(None, "cls"), (True, "cls"), (False, "lm_")])
def test_of_two_mask_heads_in_a_file_the_configuration_chooses(legacy: Any, dense: str) -> None:
    older, newer = read_golden_head("deberta"), read_golden_head("deberta-new")
    config = {**older.config, "legacy": legacy}
    head = head_of(replace(older, config=config, tensors={**older.tensors, **newer.tensors}))
    assert head is not None
    assert head.params.sources["head.dense.weight"].tensor.startswith(dense)


def test_norms_of_2018_are_read_in_heads_too() -> None:
    golden = read_golden_head("bert")
    expected = head_of(replace(golden, tensors=dict(golden.tensors)))
    for ending, old in (("weight", "gamma"), ("bias", "beta")):
        stem = "cls.predictions.transform.LayerNorm."
        golden.tensors[stem + old] = golden.tensors.pop(stem + ending)
    found, states = head_of(golden), np.ones((1, 24), np.float32)
    assert found is not None
    assert expected is not None
    np.testing.assert_array_equal(logits_of(found, states), logits_of(expected, states))


def test_wrong_key_of_the_head_stops_only_what_predicts() -> None:
    golden = read_golden_head("gemma2-capped")
    golden.config["final_logit_softcapping"] = -1
    _, params = golden.model()
    with pytest.raises(ModelProblem, match="final_logit_softcapping is -1"):
        find_head(params)


def test_head_of_a_file_without_any_of_it_is_none() -> None:
    config, tensors = tiny_bert()
    _, params = resolve(ConfigReader(config, "config.json"), ArrayStore(Path("file"), tensors))
    assert find_head(params) is None
