"""Measures beside the weight in `inspect`, and what is said about questions that mean little."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attncli import api
from attncli.analyses.measures import uniform_weights
from attncli.errors import UsageProblem
from attncli.model.load import Model, load
from attncli.model.spec import LayerSpec, StackSpec
from tests.seq2seq import SOURCE, TARGET, seq2seq

TRAFFIC = "We were stuck in a traffic jam for hours"
TOAST = "I love my toast with strawberry jam"
LONG = "electroencephalogram"
CAUSAL = "random:layers=2,heads=2,d_model=8,causal"


def stack(*windows: int | None, causal: bool) -> StackSpec:
    layers = tuple(LayerSpec(window=window) for window in windows)
    return StackSpec(layers, 2, 1, 1, 2, 1.0, causal)


@pytest.mark.parametrize(("text", "first"), [(TRAFFIC, "traffic"), (TOAST, "strawberry")])
def test_contribution_finds_the_word_where_weight_finds_the_sink(
    minilm: Model, text: str, first: str
) -> None:
    seen = api.inspect(text, minilm, query="jam")
    assert seen.rows[0].by_contribution[0].unit.text == first
    assert seen.weights[0].argmax() == 0  # [CLS]
    turned = api.inspect(text, minilm, query="jam", by="value-zeroing")
    assert turned.rows[0].by_measure[0].unit.text == first


@pytest.mark.parametrize("by", ["rollout", "value-zeroing"])
@pytest.mark.parametrize("special", ["show", "fold", "hide"])
@pytest.mark.parametrize("words", [True, False])
def test_rows_of_a_measure_sum_to_one_however_they_are_merged(
    minilm: Model, by, special, words: bool
) -> None:
    seen = api.inspect(f"an {LONG} jam", minilm, by=by, special=special, words=words)
    np.testing.assert_allclose(seen.measure.sum(axis=1), 1, atol=1e-5)
    if special == "hide":
        assert not any(unit.special for unit in seen.key_units)


def test_to_a_word_a_measure_is_summed_and_from_it_averaged(minilm: Model) -> None:
    text = f"an {LONG} jam"
    pieces = api.inspect(text, minilm, by="rollout").measure
    words = api.inspect(text, minilm, by="rollout", words=True).measure
    # [CLS] an electro ##ence ##pha ##logram jam [SEP]
    np.testing.assert_allclose(words[1, 2], pieces[1, 2:6].sum(), rtol=1e-5)
    np.testing.assert_allclose(words[2, 1], pieces[2:6, 1].mean(), rtol=1e-5)


def test_keys_are_ordered_by_the_measure_asked_for(minilm: Model) -> None:
    seen = api.inspect(TRAFFIC, minilm, by="value-zeroing")
    for entry, row in zip(seen.record()["top"], seen.record()["value_zeroing"], strict=True):
        shares = [key["value_zeroing"] for key in entry["keys"]]
        assert shares == sorted(shares, reverse=True)
        assert shares == [row[key["key"]] for key in entry["keys"]]


def test_measures_are_computed_only_when_asked_for(minilm: Model) -> None:
    record = api.inspect(TRAFFIC, minilm).record()
    assert not {"rollout", "value_zeroing"} & set(record)


def test_every_visible_key_alike() -> None:
    both_ways = uniform_weights(stack(None, causal=False), (0,), 5, cross=False)
    assert [both_ways(i) for i in (0, 4)] == [1 / 5] * 2
    causal = uniform_weights(stack(None, 2, causal=True), (0,), 5, cross=False)
    assert [causal(i) for i in range(3)] == [1, 1 / 2, 1 / 3]
    # the second layer sees two tokens at most
    mixed = uniform_weights(stack(None, 2, causal=True), (0, 1), 5, cross=False)
    assert mixed(3) == (1 / 4 + 1 / 2) / 2
    local = uniform_weights(stack(1, causal=False), (0,), 5, cross=False)
    assert [local(i) for i in (0, 2, 4)] == [1 / 2, 1 / 3, 1 / 2]
    assert uniform_weights(stack(2, causal=True), (0,), 9, cross=True)(0) == 1 / 9


def test_baseline_of_each_query_is_shown_in_causal_models(minilm: Model) -> None:
    causal = api.inspect("we were stuck", load(CAUSAL))
    (top,) = [table for table in causal.tables() if table.name == "top"]
    at = [column.name for column in top.columns].index("1/n")
    # [CLS] stands before them
    assert [row[at] for row in top.rows] == pytest.approx([1 / 2, 1 / 3, 1 / 4])
    (top,) = [t for t in api.inspect("we were stuck", minilm).tables() if t.name == "top"]
    assert "1/n" not in [column.name for column in top.columns]


def test_rollout_of_cross_attention_is_refused(tmp_path: Path) -> None:
    model = seq2seq(tmp_path)
    with pytest.raises(UsageProblem, match="no chain; use --attention self"):
        api.inspect(SOURCE, model, target=TARGET, by="rollout")
    own = api.inspect(SOURCE, model, target=TARGET, attention="self", by="rollout")
    np.testing.assert_allclose(own.measure.sum(axis=1), 1, atol=1e-5)


def test_value_zeroing_of_cross_attention_turns_the_decoder(tmp_path: Path) -> None:
    model = seq2seq(tmp_path)
    seen = api.inspect(SOURCE, model, target=TARGET, by="value-zeroing")
    assert seen.measure.shape == seen.weights.shape
    np.testing.assert_allclose(seen.measure.sum(axis=1), 1, atol=1e-5)
    single = api.inspect(SOURCE, model, target=TARGET, by="value-zeroing", head="1.0")
    assert not np.allclose(single.measure, seen.measure, atol=1e-3)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"query": "jam"}, "“jam” occurs 2 times and all are shown; --query jam#1 chooses one"),
        ({"key": "jam"}, "“jam” occurs 2 times and all are shown; --key jam#1 chooses one"),
        (
            {"query": "electroencephalogram"},
            "“electroencephalogram” is cut into 4 pieces, a row each",
        ),
        ({"query": "toast", "key": "rye"}, "72 heads are merged here; attn heads --from"),
    ],
)
def test_question_that_means_several_things_is_answered_with_a_note(
    minilm: Model, choice: dict[str, str], said: str
) -> None:
    notes = api.inspect(f"{LONG} jam on toast and jam on rye", minilm, **choice).notes
    assert any(said in note for note in notes)


@pytest.mark.parametrize(
    "choice",
    [
        {"query": "jam#2"},
        {"query": "2"},
        {"query": LONG, "words": True},
        {"query": "toast and jam"},
        {"query": "toast", "key": "rye", "head": "0.1"},
    ],
)
def test_question_that_means_one_thing_gets_no_note(minilm: Model, choice) -> None:
    notes = api.inspect(f"{LONG} jam on toast and jam on rye", minilm, **choice).notes
    assert not any(word in note for note in notes for word in ("occurs", "is cut", "are merged"))


def test_causal_row_cannot_depend_on_a_later_word() -> None:
    seen = api.inspect("the jam was good", load(CAUSAL), query="jam", key="good")
    assert any("“good”: stands after the query" in note for note in seen.notes)
    seen = api.inspect("the jam was good", load(CAUSAL), query="good", key="jam")
    assert not any("stands after" in note for note in seen.notes)


@pytest.mark.reference
@pytest.mark.filterwarnings("default")
def test_other_engine_refuses_what_it_cannot_tell() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    model = load("minilm", engine="torch")
    with pytest.raises(UsageProblem, match="which --engine torch cannot"):
        api.inspect(TRAFFIC, model, by="value-zeroing")
    theirs = api.inspect(TRAFFIC, model, by="rollout")
    ours = api.inspect(TRAFFIC, load("minilm"), by="rollout")
    np.testing.assert_allclose(theirs.measure, ours.measure, atol=1e-5)
    assert theirs.record()["top"][0]["uniform_weight"] is None
