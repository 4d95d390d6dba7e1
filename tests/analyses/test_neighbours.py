"""The tokens of the vocabulary nearest to a vector, against a product with the whole table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attncli.analyses import neighbours as module
from attncli.analyses.neighbours import neighbours
from attncli.api import compare
from attncli.errors import InputProblem, ModelProblem, UsageProblem
from attncli.model.embed import token_rows
from attncli.model.load import Model, load
from attncli.model.stack import ENCODER
from tests.analyses.hand import FOOD, by_hand
from tests.parity.cases import CASES
from tests.parity.comparison import read_golden
from tests.seq2seq import seq2seq
from tests.seq2seq import tokenizer as forty_words
from tests.toys import tiny_bert, word_tokenizer, write_folder

Array = np.ndarray


def by_brute_force(table: Array, vectors: Array, n: int) -> tuple[Array, Array]:
    """Return ids and cosines, [vector, n], from all cosines at once."""
    table, vectors = table.astype(np.float64), vectors.astype(np.float64)
    cosines = vectors @ table.T
    cosines /= np.linalg.norm(vectors, axis=1)[:, None] * np.linalg.norm(table, axis=1)
    best = np.argsort(-cosines, axis=1)[:, :n]
    return best, np.take_along_axis(cosines, best, axis=1)


def assert_nearest(model: Model, table: Array, vectors: Array, n: int) -> None:
    """Compare ids, pieces and cosines with those of brute force."""
    found = neighbours(model, vectors, n)
    flat = [state for states in found for state in states]
    ids, cosines = by_brute_force(table, vectors.reshape(-1, vectors.shape[-1]), n)
    assert [[near.id for near in state] for state in flat] == ids.tolist()
    np.testing.assert_allclose(
        [[near.cosine for near in state] for state in flat], cosines, atol=1e-5
    )
    pieces = [[near.token for near in state] for state in flat]
    assert pieces == [[model.tokenizer.piece(id_) for id_ in row] for row in ids.tolist()]


def test_nearest_tokens_on_paper(tmp_path: Path) -> None:
    result = compare(
        "jam toast", "jam rye", model=by_hand(tmp_path / "food", FOOD), word="jam", neighbours=3
    )
    embedding, last = result.neighbours[0]
    # jam is itself at state 0 and (1.5, .5) after toast
    assert [near.token for near in embedding] == ["jam", "[UNK]", "toast"]
    assert [near.token for near in last] == ["jam", "toast", "[UNK]"]
    assert [near.cosine for near in last] == pytest.approx([1.5 / 2.5**0.5, 0.5 / 2.5**0.5, 0])


def test_bundled_model_in_parts_of_its_vocabulary(minilm: Model, monkeypatch) -> None:
    result = compare("a traffic jam", "toast with jam", model=minilm, word="jam", neighbours=1)
    table = minilm.params.store.rows(
        minilm.params.sources["embed.token"].tensor, slice(0, minilm.spec.vocab_size)
    )
    assert_nearest(minilm, table, result.states, 7)
    monkeypatch.setattr(module, "ROWS", 5_003)
    assert_nearest(minilm, table, result.states, 7)
    assert [state[0].token for state in result.neighbours[0]] == ["jam"] * 7


@pytest.mark.parametrize(
    ("case", "table", "weight", "bias"),
    [
        (
            "albert",
            "embeddings.word_embeddings.weight",
            "encoder.embedding_hidden_mapping_in.weight",
            "encoder.embedding_hidden_mapping_in.bias",
        ),
        (
            "electra",
            "embeddings.word_embeddings.weight",
            "embeddings_project.weight",
            "embeddings_project.bias",
        ),
        ("opt-post-norm", "embed_tokens.weight", "project_in.weight", None),
    ],
)
def test_narrow_tables_go_through_the_models_own_projection(
    case: str, table: str, weight: str, bias: str | None, tmp_path: Path, monkeypatch
) -> None:
    golden = read_golden(case)
    model = load(str(write_folder(tmp_path / case, golden.config, golden.tensors, forty_words())))

    def tensor(name: str) -> Array:
        (found,) = [v for k, v in golden.tensors.items() if k == name or k.endswith(f".{name}")]
        return found.astype(np.float64)

    rows = tensor(table) @ tensor(weight).T + (0 if bias is None else tensor(bias))
    assert rows.shape == (model.spec.vocab_size, model.spec.stack.d_model)
    vectors = np.random.default_rng(0).normal(size=(3, 2, rows.shape[1])).astype(np.float32)
    assert_nearest(model, rows, vectors, 5)
    # neither rows nor vectors fit in one part
    monkeypatch.setattr(module, "ROWS", 4)
    assert_nearest(model, rows, vectors, 5)


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_rows_of_every_family_are_as_wide_as_its_states(name: str) -> None:
    spec, params = read_golden(name).model()
    prefix = "" if spec.encoder is None else ENCODER
    assert token_rows(spec, params, prefix, slice(1, 4)).shape == (3, spec.reader.d_model)


def test_encoder_of_two_stacks_reads_its_own_table(tmp_path: Path) -> None:
    model = seq2seq(tmp_path / "t5")
    result = compare("the dog", "a dog", model=model, word="dog", neighbours=1)
    # T5 has no positions and no norm in front of its first layer
    assert [states[0][0].token for states in result.neighbours] == ["dog", "dog"]


def test_padding_rows_and_short_vocabularies_give_fewer_tokens(tmp_path: Path) -> None:
    config, tensors = tiny_bert()
    words = word_tokenizer(["[UNK]", "the", "dog"])
    model = load(str(write_folder(tmp_path / "padded", config, tensors, words)))
    found = neighbours(model, np.ones((1, 3, 12), np.float32), 8)
    assert [sorted(near.token for near in state) for state in found[0]] == [
        ["[UNK]", "dog", "the"]
    ] * 3


def test_neighbours_are_left_as_they_are_by_centring(minilm: Model) -> None:
    plain, centred = (
        compare("a jam", "the jam", model=minilm, word="jam", neighbours=2, centred=centred)
        for centred in (False, True)
    )
    assert plain.neighbours == centred.neighbours
    assert any(note.endswith("nothing is subtracted there") for note in centred.notes)


def test_what_is_measured_is_said_in_title_and_note(minilm: Model) -> None:
    result = compare("a jam", "the jam", model=minilm, word="jam", neighbours=2)
    (table,) = [table for table in result.tables() if table.name == "neighbours"]
    assert "input embedding" in table.title
    assert any("no position and no norm" in note for note in result.notes)


def test_numbers_that_make_no_list_are_refused(minilm: Model, monkeypatch) -> None:
    with pytest.raises(UsageProblem, match="--neighbours 0: expected 1 or more"):
        compare("a jam", "the jam", model=minilm, word="jam", neighbours=0)
    monkeypatch.setattr("attncli.analyses.compare.MAX_OCCURRENCES", 1)
    with pytest.raises(InputProblem, match="2 occurrences, expected at most 1"):
        compare("a jam", "the jam", model=minilm, word="jam", neighbours=3)


def test_embeddings_of_another_width_are_refused_by_name(minilm: Model, monkeypatch) -> None:
    monkeypatch.setattr(type(minilm), "token_rows", lambda model, rows: np.ones((4, 128), "f4"))
    with pytest.raises(ModelProblem, match=r"minilm \(BERT\): .* 128 dimensions, its states 384"):
        compare("a jam", "the jam", model=minilm, word="jam", neighbours=3)
