"""The whole of inspect: what is cut, merged and ranked, and that nothing is made up."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from attncli.analyses.inspect import inspect_text
from attncli.analyses.inspection import Inspection
from attncli.analyses.reduction import cosine
from attncli.errors import InputProblem, UsageProblem
from attncli.model.load import Model, load
from attncli.selection import View, choose_heads
from tests.parity.comparison import read_golden
from tests.toys import record, write_folder

STUDENT = "The student did not answer the question because it was too difficult"
JAM = "We were stuck in a traffic jam for hours"


def look(
    model: Model,
    text: str,
    view: View | None = None,
    *,
    layer: str | None = None,
    head: str | None = None,
    **more: object,
) -> Inspection:
    """Inspect a text with all heads unless some are named."""
    stack = model.spec.stack
    heads = choose_heads(layer, head, stack.n_layers, stack.n_heads)
    return inspect_text(model, model.encode(text), heads, view or View(), **more)


def row(result: Inspection, text: str) -> dict[str, object]:
    """Return the JSON of the row of one query."""
    return next(top for top in result.record()["top"] if top["text"] == text)


def test_readme_example_finds_the_antecedent_head(minilm: Model) -> None:
    result = look(minilm, STUDENT, head="3.1", query=["it"])
    keys = [unit.text for unit in result.units]
    weights = dict(zip(keys, result.weights[0], strict=True))
    assert weights["question"] == pytest.approx(0.24, abs=0.02)
    assert weights["student"] == pytest.approx(0.02, abs=0.02)


def test_contribution_ranks_above_the_sinks_that_drown_the_weights(minilm: Model) -> None:
    jam = row(look(minilm, JAM), "jam")
    assert jam["keys"][0]["text"] == "traffic"
    assert jam["keys"][0]["contribution"] == pytest.approx(0.24, abs=0.02)
    assert jam["special_weight"] == pytest.approx(0.63, abs=0.03)
    assert jam["telling"]["text"] == "traffic"


def test_single_head_gives_the_numbers_of_the_run(minilm: Model) -> None:
    result = look(minilm, STUDENT, head="3.1")
    found = record(minilm.spec, minilm.params, minilm.encode(STUDENT).ids)
    np.testing.assert_array_equal(result.weights, found.weights[3, 1])
    np.testing.assert_array_equal(result.scores, found.scores[3, 1])
    np.testing.assert_allclose(result.shift, cosine(found.resid, found.resid[:1]).T, atol=1e-6)
    np.testing.assert_allclose(result.shift[:, 0], 1, atol=1e-6)


def test_several_heads_have_no_scores(minilm: Model) -> None:
    result = look(minilm, JAM, layer="1")
    assert result.scores is None
    assert result.record()["scores"] is None


def test_queries_and_keys_cut_rows_and_columns_of_the_same_numbers(minilm: Model) -> None:
    whole = look(minilm, STUDENT, head="3.1")
    some = look(minilm, STUDENT, head="3.1", query=["it", "the"], key=["question", "student"])
    assert [some.units[i].text for i in some.queries] == ["The", "the", "it"]
    assert [some.units[i].text for i in some.keys] == ["student", "question"]
    cut = np.ix_(some.queries, some.keys)
    np.testing.assert_array_equal(some.weights, whole.weights[cut])
    np.testing.assert_array_equal(some.scores, whole.scores[cut])
    assert {key["text"] for key in row(some, "it")["keys"]} == {"student", "question"}


def test_merged_words_keep_rows_that_sum_to_one_and_lose_scores(minilm: Model) -> None:
    text = "the unbelievableness of cats"
    result = look(minilm, text, View(words=True), head="2.3")
    assert [unit.text for unit in result.units] == [
        "[CLS]", "the", "unbelievableness", "of", "cats", "[SEP]",
    ]  # fmt: skip
    for matrix in (result.weights, result.contributions):
        np.testing.assert_allclose(matrix.sum(1), 1, atol=1e-5)
    assert result.scores is None
    assert any("scores" in note for note in result.notes)
    pieces = look(minilm, text, head="2.3").weights
    word = list(result.units[2].tokens)
    assert result.weights[2, 2] == pytest.approx(pieces[np.ix_(word, word)].sum(1).mean(), rel=1e-5)


def test_no_piece_of_a_word_is_the_telling_key_of_that_word(minilm: Model) -> None:
    result = look(minilm, "the unbelievableness of overworked cats", View(words=True))
    assert len(result.units[2].tokens) > 1
    for query in result.rows:
        assert query.telling is None or query.telling.key != query.unit.index


@pytest.mark.parametrize("special", ["show", "fold", "hide"])
def test_share_of_special_tokens_is_the_same_however_they_are_shown(
    minilm: Model, special: str
) -> None:
    result = look(minilm, JAM, View(special=special))
    assert row(result, "jam")["special_weight"] == pytest.approx(0.63, abs=0.03)
    np.testing.assert_allclose(result.weights.sum(1), 1, atol=1e-5)
    names = {unit.text for unit in result.units if unit.special}
    assert names == {"show": {"[CLS]", "[SEP]"}, "fold": {"[specials]"}, "hide": set()}[special]


def test_folded_and_hidden_weights_follow_from_those_shown(minilm: Model) -> None:
    shown = look(minilm, JAM, head="4.2").weights
    folded = look(minilm, JAM, View(special="fold"), head="4.2").weights
    hidden = look(minilm, JAM, View(special="hide"), head="4.2").weights
    np.testing.assert_allclose(folded[:-1, -1], shown[1:-1, [0, -1]].sum(1), rtol=1e-5)
    np.testing.assert_allclose(folded[-1, -1], shown[[0, -1]][:, [0, -1]].sum(1).mean(), rtol=1e-5)
    inner = shown[1:-1, 1:-1]
    np.testing.assert_allclose(hidden, inner / inner.sum(1, keepdims=True), rtol=1e-5)


def test_hidden_token_cannot_be_a_query(minilm: Model) -> None:
    with pytest.raises(UsageProblem, match=r"--key \[CLS\].*--special show"):
        look(minilm, JAM, View(special="hide"), key=["[CLS]"])


def test_top_lists_are_sorted_cut_and_free_of_specials(minilm: Model) -> None:
    result = look(minilm, JAM, View(by="weight", top=2), head="0.5")
    for query in result.rows:
        for keys, measure in ((query.by_weight, "weight"), (query.by_contribution, "contribution")):
            values = [getattr(key, measure) for key in keys]
            assert values == sorted(values, reverse=True)
            assert len(values) == 2
            assert not any(key.unit.special for key in keys)
    best = max(range(1, 10), key=lambda j: result.weights[7, j])
    assert row(result, "jam")["keys"][0]["key"] == best


def test_causal_model_gives_null_scores_and_no_future_keys() -> None:
    model = load("random:d_model=16,heads=2,causal=true")
    result = look(model, "I like strawberry jam", head="0.1", query=["I"])
    document = result.record()
    assert document["scores"][0].count(None) == len(result.keys) - 1 - result.queries[0]
    assert all(key["key"] <= result.queries[0] for key in document["top"][0]["keys"])
    assert document["model"]["random"]
    assert any("random" in note for note in document["notes"])


def test_matrices_of_every_head_come_only_when_asked(minilm: Model) -> None:
    assert look(minilm, JAM).by_head == {}
    result = look(minilm, JAM, layer="1,3", every_head=True)
    n = len(result.encoded.tokens)
    assert {name: m.shape for name, m in result.by_head.items()} == dict.fromkeys(
        ("weights", "scores", "contributions"), (2, 12, n, n)
    )
    np.testing.assert_allclose(result.by_head["weights"].mean((0, 1)), result.weights, atol=1e-6)


@pytest.mark.parametrize("text", ["\u200b", "a", "\x1b[31m [SEP] \U0001f468\u200d\U0001f469"])
@pytest.mark.parametrize("view", [View(), View(words=True, special="fold"), View(words=True)])
def test_any_text_gives_strict_json_and_tables(minilm: Model, text: str, view: View) -> None:
    result = look(minilm, text, view)
    json.dumps(result.record(), allow_nan=False)
    assert result.tables()
    assert result.tidy().rows


def test_text_of_which_nothing_is_left_to_show_is_a_problem(minilm: Model) -> None:
    with pytest.raises(InputProblem, match="--special show"):
        look(minilm, "\u200b", View(special="hide"))


def test_json_holds_the_numbers_of_the_tables(minilm: Model) -> None:
    result = look(minilm, JAM, head="1.4")
    document = json.loads(json.dumps(result.record(), allow_nan=False))
    for name in ("weights", "scores", "contributions"):
        np.testing.assert_array_equal(np.float32(document[name]), getattr(result, name))
    assert [entry["token"] for entry in document["shift"]] == list(range(11))
    assert result.arrays()["weights"] is result.weights


@pytest.fixture
def sink_model(tmp_path: Path) -> Model:
    """A tiny model with learned sinks and experts, [CLS] and [SEP] around each text."""
    golden = read_golden("gpt-oss")
    return load(str(write_folder(tmp_path / "m", golden.config, golden.tensors)))


def titles(result: Inspection) -> list[str]:
    return [table.title for table in result.tables()]


def test_learned_sink_is_said_wherever_rows_do_not_sum_to_one(sink_model: Model) -> None:
    for query in ([], ["dog"]):
        result = look(sink_model, "the dog sees a cat", query=query)
        assert (result.weights.sum(axis=1) < 0.99).all()
        note = "rows sum to less than 1: this model has a learned sink"
        assert [n for n in result.record()["notes"] if n.startswith(note)]
        shown = " ".join(titles(result))
        assert "rows sum to less than 1 (a learned sink takes the rest)" in shown
        assert "rows sum to 1" not in shown


def test_hiding_special_tokens_scales_the_share_of_the_learned_sink_away(
    sink_model: Model,
) -> None:
    result = look(sink_model, "the dog sees a cat", View(special="hide"))
    np.testing.assert_allclose(result.weights.sum(axis=1), 1, atol=1e-6)
    assert any("learned sink, whose share of each row is scaled away" in n for n in result.notes)
    assert not any("less than 1" in text for text in [*result.notes, *titles(result)])


def test_no_learned_sink_is_claimed_where_there_is_none(minilm: Model) -> None:
    result = look(minilm, JAM)
    assert not any("learned sink" in text for text in [*result.notes, *titles(result)])
    assert any("rows sum to 1" in title for title in titles(result))
