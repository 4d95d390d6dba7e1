"""inspect of encoder-decoders: which attention, whose tokens on which side, what cannot be said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from attncli import api
from attncli.analyses.inspection import Inspection
from attncli.analyses.reduction import cosine
from attncli.errors import InputProblem, UsageProblem
from attncli.model.load import Model
from attncli.results import Matrix
from tests.seq2seq import SOURCE, TARGET, seq2seq
from tests.toys import Recorder, record


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return seq2seq(tmp_path_factory.mktemp("t5"))


@pytest.fixture(scope="module")
def bart(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return seq2seq(tmp_path_factory.mktemp("bart"), "bart-scaled")


def whole_run(model: Model) -> Recorder:
    target, source = model.encode_target(TARGET), model.encode(SOURCE)
    return record(model.spec, model.params, target.ids, source.ids)


def row_texts(result: Inspection) -> list[str]:
    return [result.query_units[i].text for i in result.queries]


def column_texts(result: Inspection) -> list[str]:
    return [result.key_units[i].text for i in result.keys]


def test_with_a_target_rows_are_its_tokens_and_columns_those_of_the_source(t5: Model) -> None:
    result = api.inspect(SOURCE, t5, target=TARGET, head="1.2")
    found = whole_run(t5)
    np.testing.assert_allclose(result.weights, found.cross.weights[1, 2], atol=1e-6)
    np.testing.assert_allclose(result.scores, found.cross.scores[1, 2], atol=1e-5)
    assert row_texts(result) == ["<pad>", *TARGET.split()]
    assert column_texts(result) == [*SOURCE.split(), "</s>"]
    np.testing.assert_allclose(result.shift, cosine(found.resid, found.resid[:1]).T, atol=1e-5)
    values = found.cross.values[1]
    lengths = found.cross.weights[1, 2] * values.norms(2)
    shares = lengths / lengths.sum(1, keepdims=True)
    np.testing.assert_allclose(result.contributions, shares, atol=1e-5)


def test_within_the_target_the_decoder_sees_only_what_came_before(t5: Model) -> None:
    result = api.inspect(SOURCE, t5, target=TARGET, attention="self", head="0.1")
    found = whole_run(t5)
    np.testing.assert_allclose(result.weights, found.weights[0, 1], atol=1e-6)
    assert row_texts(result) == column_texts(result) == ["<pad>", *TARGET.split()]
    assert (result.weights[np.triu_indices(5, 1)] == 0).all()
    np.testing.assert_allclose(result.shift, cosine(found.resid, found.resid[:1]).T, atol=1e-5)


def test_without_a_target_the_encoder_is_shown(t5: Model) -> None:
    result = api.inspect(SOURCE, t5, head="1.0")
    found = whole_run(t5).encoder
    np.testing.assert_allclose(result.weights, found.weights[1, 0], atol=1e-6)
    np.testing.assert_allclose(result.shift, cosine(found.resid, found.resid[:1]).T, atol=1e-5)
    assert result.record()["target"] is None
    assert result.record()["selection"]["attention"] == "encoder"


def test_layers_and_heads_are_those_of_the_stack_that_is_shown(bart: Model) -> None:
    # two layers of three heads in the encoder, one of two in the decoder
    assert api.inspect(SOURCE, bart).record()["model"]["stack"] == "encoder"
    assert api.inspect(SOURCE, bart, head="1.2").heads.layers == (1,)
    document = api.inspect(SOURCE, bart, target=TARGET).record()
    sizes = {name: document["model"][name] for name in ("stack", "layers", "heads", "causal")}
    assert sizes == {"stack": "decoder", "layers": 1, "heads": 2, "causal": True}
    with pytest.raises(UsageProblem, match="valid layers are 0 to 0"):
        api.inspect(SOURCE, bart, target=TARGET, head="1.2")


def test_queries_are_looked_up_in_the_target_and_keys_in_the_source(t5: Model) -> None:
    whole = api.inspect(SOURCE, t5, target=TARGET, head="0.0")
    some = api.inspect(SOURCE, t5, target=TARGET, head="0.0", query=["hund"], key=["cat", "dog"])
    assert (row_texts(some), column_texts(some)) == (["hund"], ["dog", "cat"])
    np.testing.assert_array_equal(some.weights, whole.weights[np.ix_([2], [1, 4])])
    with pytest.raises(UsageProblem, match="--query dog"):
        api.inspect(SOURCE, t5, target=TARGET, query=["dog"])
    with pytest.raises(UsageProblem, match="--key hund"):
        api.inspect(SOURCE, t5, target=TARGET, key=["hund"])


def test_share_of_sinks_is_the_weight_on_special_tokens_of_the_source(t5: Model) -> None:
    result = api.inspect(SOURCE, t5, target=TARGET, head="0.0", special="hide")
    shown = api.inspect(SOURCE, t5, target=TARGET, head="0.0")
    for row, full in zip(result.rows, shown.weights[1:], strict=True):
        assert row.special_weight == pytest.approx(float(full[-1]), rel=1e-5)
    inner = shown.weights[1:, :-1]
    np.testing.assert_allclose(result.weights, inner / inner.sum(1, keepdims=True), rtol=1e-5)
    assert column_texts(result) == SOURCE.split()


def test_folded_specials_are_units_of_each_text(t5: Model) -> None:
    document = api.inspect(SOURCE, t5, target=TARGET, special="fold", words=True).record()
    assert [unit["text"] for unit in document["units"]] == [*SOURCE.split(), "[specials]"]
    target_units = document["target"]["units"]
    assert [unit["text"] for unit in target_units] == [*TARGET.split(), "[specials]"]
    assert [unit["tokens"] for unit in target_units] == [[1], [2], [3], [4], [0]]
    within = api.inspect(SOURCE, t5, target=TARGET, special="fold", attention="self").record()
    assert "units" not in within
    assert len(within["target"]["units"]) == 5


def test_cross_attention_has_no_telling_heads_and_says_so(t5: Model) -> None:
    cross = api.inspect(SOURCE, t5, target=TARGET)
    assert [row.telling for row in cross.rows] == [None] * 5
    assert any("no telling heads" in note for note in cross.notes)
    assert "telling head" not in [c.name for c in cross.tables()[1].columns]
    within = api.inspect(SOURCE, t5, target=TARGET, attention="self")
    assert not any("telling" in note for note in within.notes)
    assert "telling head" in [c.name for c in within.tables()[1].columns]


def test_tables_of_cross_attention_name_both_texts(t5: Model) -> None:
    several = api.inspect(SOURCE, t5, target=TARGET, head="0.0").tables()
    assert all("source text" in t.sides for t in several if isinstance(t, Matrix))
    assert "source keys by weight" in [c.name for c in several[2].columns]
    one = api.inspect(SOURCE, t5, target=TARGET, head="0.0", query=["hund"]).tables()
    assert "key in the source" in [c.name for c in one[0].columns]
    assert (
        "5 target tokens and 6 source tokens" in api.inspect(SOURCE, t5, target=TARGET).headline()
    )


def test_matrices_of_every_head_have_the_two_lengths(t5: Model) -> None:
    result = api.inspect(SOURCE, t5, target=TARGET, every_head=True)
    assert {name: m.shape for name, m in result.by_head.items()} == dict.fromkeys(
        ("weights", "scores", "contributions"), (2, 3, 5, 6)
    )
    np.testing.assert_allclose(result.by_head["weights"].mean((0, 1)), result.weights, atol=1e-6)
    arrays = result.arrays()
    assert arrays["tokens"].tolist() == [*SOURCE.split(), "</s>"]
    assert arrays["target_tokens"].tolist() == ["<pad>", *TARGET.split()]


def test_unknown_words_are_told_of_the_text_they_stand_in(t5: Model) -> None:
    notes = api.inspect("the zebra", t5, target="der tiger").notes
    assert "not in the vocabulary: zebra" in notes
    assert "target: not in the vocabulary: tiger" in notes


def test_target_without_ordinary_tokens_to_show_is_a_problem(t5: Model) -> None:
    with pytest.raises(InputProblem, match="--special show"):
        api.inspect(SOURCE, t5, target="</s>", special="hide")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention": "cross"}, "add --target"),
        ({"attention": "self"}, "add --target"),
        ({"attention": "encoder", "target": TARGET}, "leave --target out"),
    ],
)
def test_attention_that_does_not_fit_the_texts_is_refused(
    t5: Model, options: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageProblem, match=message):
        api.inspect(SOURCE, t5, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": TARGET}, r"--target: minilm \(BERT\)"),
        ({"attention": "cross"}, "--attention cross"),
        ({"attention": "encoder"}, "--attention encoder"),
    ],
)
def test_model_with_one_stack_refuses_what_needs_two(
    minilm: Model, options: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageProblem, match=message):
        api.inspect(SOURCE, minilm, **options)
    document = api.inspect(SOURCE, minilm, attention="self").record()
    assert document["selection"]["attention"] == "self"
    assert "stack" not in document["model"]


def test_compare_reads_with_the_encoder_and_says_so(t5: Model) -> None:
    texts = ["the dog sees a cat", "a cat and the dog"]
    result = api.compare(*texts, model=t5, word="dog", head="1.0")
    assert any("encoder" in note for note in result.notes)
    runs = [record(t5.spec, t5.params, (0,), t5.encode(text).ids).encoder for text in texts]
    expected = cosine(runs[0].resid[:, 1], runs[1].resid[:, 4])
    np.testing.assert_allclose(result.pairs[0].cosine, expected, atol=1e-5)
    json.dumps(result.record(), allow_nan=False)


def test_facts_of_a_model_name_both_stacks(bart: Model) -> None:
    from attncli.analyses.models import describe_model

    facts = describe_model(bart).facts
    assert (facts["layers"], facts["heads"]) == (2, 3)
    assert facts["decoder"].startswith("1 layer × 2 heads")


def test_folder_that_is_packed_again_gives_the_same_cross_attention(
    t5: Model, tmp_path: Path
) -> None:
    from attncli.model.load import load
    from attncli.model.pack import pack_model

    pack_model(t5.place.path, tmp_path, "f32")
    again = load(str(tmp_path))
    first, second = (api.inspect(SOURCE, m, target=TARGET).weights for m in (t5, again))
    np.testing.assert_array_equal(first, second)
