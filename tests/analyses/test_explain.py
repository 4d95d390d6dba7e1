"""explain: which row, key and head are shown when the user leaves it open, and what is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attncli import api
from attncli.errors import UsageProblem
from attncli.model.load import Model, load
from tests.seq2seq import SOURCE, TARGET, seq2seq

STUDENT = "The student did not answer the question because it was too difficult"
CAUSAL = "random:layers=2,heads=2,d_model=8,causal"


def names(result) -> list[str]:
    return [step.name for step in result.steps]


def test_numbers_are_those_of_inspect(minilm: Model) -> None:
    seen = api.inspect(STUDENT, minilm, head="3.1", query="it")
    found = api.explain(STUDENT, minilm, query="it", key="question", head="3.1")
    steps = {step.name: step for step in found.steps}
    weights = {row[0]: row[4] for row in steps["softmax"].listing.rows}
    np.testing.assert_allclose([weights[i] for i in range(14)], seen.weights[0], atol=1e-6)
    shares = {row[0]: row[3] for row in steps["output"].listing.rows}
    np.testing.assert_allclose([shares[i] for i in range(14)], seen.contributions[0], atol=1e-5)
    (score,) = [n.value for n in steps["score"].numbers if n.name == "score"]
    assert score == pytest.approx(seen.scores[0, 7], abs=1e-5)


def test_model_without_a_norm_there_has_no_such_step(minilm: Model) -> None:
    assert names(api.explain(STUDENT, minilm, query="it", head="0.0")) == [
        *("embedding", "residual", "project", "product", "score", "softmax"),
        *("mix", "output", "block"),
    ]


def test_telling_head_and_its_key_are_shown_where_none_is_named(minilm: Model) -> None:
    found = api.explain(STUDENT, minilm, query="it")
    (row,) = api.inspect(STUDENT, minilm, query="it").rows
    telling = row.telling
    assert (found.layer, found.head, found.key) == (telling.layer, telling.head, telling.key)
    assert "of 72 heads the telling one" in found.notes[0]


def test_head_farthest_above_its_pattern_of_positions_is_shown_for_a_named_key(
    minilm: Model,
) -> None:
    found = api.explain(STUDENT, minilm, query="it", key="question")
    seen = api.inspect(STUDENT, minilm, every_head=True).by_head["weights"]
    # pairs of words at the distance of "it" and "question", special tokens left out
    others = [(query, query - 2) for query in range(3, 13) if query != 9]
    usual = np.mean([seen[:, :, query, key] for query, key in others], axis=0)
    above = seen[:, :, 9, 7] - usual
    assert (found.layer, found.head) == np.unravel_index(above.argmax(), above.shape)
    assert (found.layer, found.head) == (3, 1)
    assert "above what it gives there by position alone" in found.notes[0]


@pytest.mark.parametrize(
    ("query", "key"),
    # the last two words are the only ones as far apart as the text is long
    [("it", "[CLS]"), ("difficult", "1")],
)
def test_head_with_the_largest_weight_is_shown_where_nothing_can_be_subtracted(
    minilm: Model, query: str, key: str
) -> None:
    found = api.explain(STUDENT, minilm, query=query, key=key)
    seen = api.inspect(STUDENT, minilm, every_head=True).by_head["weights"]
    by_head = seen[:, :, found.query, found.key]
    assert (found.layer, found.head) == np.unravel_index(by_head.argmax(), by_head.shape)
    assert "the one with the largest weight on this key;" in found.notes[0]


def test_no_head_is_praised_where_none_can_see_the_key() -> None:
    found = api.explain("jam on toast", load(CAUSAL), query="jam", key="toast")
    assert (found.layer, found.head) == (0, 0)
    assert any("the first: none can see this key" in note for note in found.notes)


@pytest.mark.parametrize(
    "choice", [{"layer": "0-1"}, {"head": "0-2"}, {"head": "all"}, {"layer": "0", "head": "1,2"}]
)
def test_range_of_heads_is_refused(minilm: Model, choice: dict[str, str]) -> None:
    with pytest.raises(UsageProblem, match="explain shows one head"):
        api.explain(STUDENT, minilm, query="it", **choice)


@pytest.mark.parametrize(("choice", "n"), [({"layer": 3}, 12), ({"head": 1}, 6)])
def test_only_heads_of_the_layer_or_number_that_is_named_compete(
    minilm: Model, choice: dict[str, int], n: int
) -> None:
    found = api.explain(STUDENT, minilm, query="it", key="question", **choice)
    assert (found.layer, found.head) == (3, 1)
    assert f"of {n} heads" in found.notes[0]


def test_key_that_adds_most_is_followed_where_none_is_named(minilm: Model) -> None:
    found = api.explain(STUDENT, minilm, query="it", head="3.1")
    assert found.key == 7
    assert found.notes == (
        "“question” is the key that adds most to this row among ordinary tokens; --key WORD "
        "follows another",
    )


def test_first_token_of_a_causal_model_is_not_taken_unasked() -> None:
    found = api.explain("jam on toast", load(CAUSAL), query="toast")
    assert found.key > 0
    found = api.explain("jam on toast", load(CAUSAL), query="toast", key="0", head="0.0")
    assert found.key == 0


def test_word_that_occurs_twice_stands_for_the_first(minilm: Model) -> None:
    text = "jam on toast and jam on rye"
    found = api.explain(text, minilm, query="jam", key="toast", head="0.0")
    assert (found.query, found.key) == (1, 3)
    assert "“jam” occurs 2 times, the first is taken" in found.notes[0]
    assert api.explain(text, minilm, query="jam#2", key="toast", head="0.0").query == 5


def test_word_in_pieces_stands_for_its_last(minilm: Model) -> None:
    text = "an electroencephalogram"
    found = api.explain(text, minilm, query="electroencephalogram", key="an", head="0.0")
    assert found.query == 5
    assert "is cut into 4 pieces, the last is taken; --query 2 takes the first" in found.notes[0]


@pytest.mark.parametrize(
    ("choice", "problem"),
    [
        ({"query": "rye"}, "--query rye: not in the text"),
        ({"query": "it", "key": "rye"}, "--key rye: not in the text"),
        ({"query": ""}, "say which row to explain, such as --query it"),
        ({"query": "it", "top": 0}, "--top 0: expected 1 or more"),
        ({"query": "it", "head": "9.9"}, "valid layers are 0 to 5"),
        ({"query": "it", "target": "x"}, "no encoder-decoder"),
    ],
)
def test_choice_that_does_not_fit_is_refused(minilm: Model, choice, problem: str) -> None:
    with pytest.raises(UsageProblem, match=problem):
        api.explain(STUDENT, minilm, **choice)


def test_masked_key_has_no_score_and_no_weight() -> None:
    found = api.explain("the jam was good", load(CAUSAL), query="jam", key="good", head="0.0")
    assert any("a causal model has not read it yet" in note for note in found.notes)
    steps = {step["name"]: step for step in found.record()["steps"]}
    assert steps["score"]["numbers"]["score"] is None
    assert steps["softmax"]["numbers"]["weight"] == 0
    assert "masked" in steps["score"]["sentence"]


def test_chosen_key_is_listed_however_small_its_weight(minilm: Model) -> None:
    found = api.explain(STUDENT, minilm, query="it", key="was", head="3.1", top=2)
    (table,) = [t for t in found.tables() if t.name == "softmax.keys"]
    assert [row[1].text for row in table.rows] == ["[CLS]", "was", "12 more"]
    assert sum(row[4] for row in table.rows) == pytest.approx(1, abs=1e-5)


def test_brief_leaves_sentences_out_of_tables_only(minilm: Model) -> None:
    found = api.explain(STUDENT, minilm, query="it", head="3.1", brief=True)
    assert not any(table.text for table in found.tables())
    assert found.record()["steps"][0]["sentence"]


def test_cross_attention_starts_behind_self_attention(tmp_path: Path) -> None:
    found = api.explain(SOURCE, seq2seq(tmp_path), target=TARGET, query="hund", head="1.0")
    assert found.sides.is_cross
    assert "self-attention" in found.steps[1].sentence
    assert found.record()["target"]["text"] == TARGET


def test_pair_is_walked_across(minilm: Model) -> None:
    found = api.explain("a traffic jam", minilm, pair="toast with jam", query="jam#2", key="jam#1")
    assert (found.query, found.key) == (7, 3)
    types = found.steps[0].vectors
    assert not np.allclose(
        next(v.values for v in types if v.name == "type"),
        minilm.params.rows("embed.type", [0])[0],
    )


@pytest.mark.reference
@pytest.mark.filterwarnings("default")
def test_other_engine_is_refused() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    with pytest.raises(UsageProblem, match="does not show the steps"):
        api.explain("jam", load("minilm", engine="torch"), query="jam")
