"""Self-similarity, matrices of similarities and mean-centred cosines."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attncli.analyses import baseline, compare, gather
from attncli.analyses.reduction import cosine
from attncli.analyses.similarity import cosine_matrix, self_similarity
from attncli.api import compare as compared
from attncli.errors import InputProblem, UsageProblem
from attncli.model.forward import Job, run
from attncli.model.load import Model
from attncli.results import Matrix
from tests.analyses.hand import FOOD, by_hand

NUMBERS = st.floats(-100, 100, width=32)
VECTORS = st.tuples(st.integers(2, 7), st.integers(1, 3), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=NUMBERS)
)


@pytest.fixture
def food(tmp_path: Path) -> Model:
    return by_hand(tmp_path / "food", FOOD)


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample whose words have the mean embedding (.5, 0): jam, toast, rye, jam."""
    monkeypatch.setattr(baseline, "SAMPLE", ("jam toast", "rye jam"))


def test_self_similarity_of_three_vectors() -> None:
    # cosines: 0 to each other, and .6 and .8 to the third
    vectors = np.array([[[2, 0]], [[0, 3]], [[0.6, 0.8]]], np.float32)
    assert self_similarity(vectors) == pytest.approx([1.4 / 3], abs=1e-6)


def test_vector_of_zeros_is_like_nothing() -> None:
    vectors = np.array([[[1, 0]], [[1, 0]], [[0, 0]]], np.float32)
    assert self_similarity(vectors) == pytest.approx([1 / 3], abs=1e-6)
    np.testing.assert_array_equal(cosine_matrix(vectors[:, 0]), [[1, 1, 0], [1, 1, 0], [0, 0, 0]])


@given(VECTORS)
def test_self_similarity_is_the_mean_over_explicit_pairs(vectors: np.ndarray) -> None:
    wide = vectors.astype(np.float64)
    pairs = [cosine(wide[a], wide[b]) for a, b in combinations(range(len(wide)), 2)]
    np.testing.assert_allclose(self_similarity(vectors), np.mean(pairs, axis=0), atol=1e-5)


@given(VECTORS)
def test_matrix_holds_the_cosine_of_every_pair(vectors: np.ndarray) -> None:
    wide = vectors[:, 0].astype(np.float64)
    expected = cosine(wide[:, None], wide[None])
    np.testing.assert_allclose(cosine_matrix(vectors[:, 0]), expected, atol=1e-5)


def test_result_gives_the_mean_of_its_pairs_with_the_baseline(minilm: Model) -> None:
    texts = ["a traffic jam", "toast with jam", "Jam and jam again"]
    result = compared(*texts, model=minilm, word="jam")
    (word,) = result.self_similarity
    assert (word.word, word.n, len(result.pairs)) == ("jam", 4, 6)
    pairs = np.mean([pair.cosine for pair in result.pairs], axis=0)
    np.testing.assert_allclose(word.cosine, pairs, atol=1e-5)
    np.testing.assert_allclose(word.adjusted, word.cosine - result.baseline)
    assert [len(row) for row in result.record()["similarity"]["matrix"]] == [4] * 4
    for pair in result.pairs:
        assert result.similarity.matrix[pair.a, pair.b] == pytest.approx(pair.cosine[-1], abs=1e-5)


def test_each_word_has_a_self_similarity_of_its_own(food: Model) -> None:
    result = compared("jam toast jam", "toast jam rye", model=food)
    assert [(word.word, word.n) for word in result.self_similarity] == [("jam", 3), ("toast", 2)]
    assert result.similarity is None


def test_more_pairs_than_are_listed_leave_the_mean_over_all_of_them(
    food: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["jam toast", "jam rye", "jam", "toast jam rye"]
    every = compared(*texts, model=food, word="jam", to=["toast"])
    monkeypatch.setattr(compare, "MAX_PAIRS", 5)
    result = compared(*texts, model=food, word="jam", to=["toast"])
    assert (result.pairs, result.changed, result.similarity) == ((), (), None)
    (note,) = [note for note in result.notes if "left out" in note]
    assert "6 pairs, at most 5" in note
    np.testing.assert_array_equal(result.self_similarity[0].cosine, every.self_similarity[0].cosine)
    np.testing.assert_array_equal(result.anchors[0].cosine, every.anchors[0].cosine)
    shown = [table.name for table in result.tables() if isinstance(table, Matrix) or table.rows]
    assert shown == ["places", "self_similarity", "anchors"]


def test_batches_give_what_one_run_gives(minilm: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"the {word} jam was never so {word} before" for word in ("red", "traffic", "sweet")]
    together = compared(*texts, "no such word", model=minilm, word="jam", to=["food"])
    monkeypatch.setattr(gather, "BATCH_TOKENS", 15)
    apart = compared(*texts, "no such word", model=minilm, word="jam", to=["food"])
    np.testing.assert_allclose(apart.states, together.states, atol=1e-5)
    np.testing.assert_allclose(apart.baseline, together.baseline, atol=1e-5)
    np.testing.assert_allclose(apart.anchors[0].cosine, together.anchors[0].cosine, atol=1e-5)
    weights = [[change.weight for change in result.changed[0]] for result in (apart, together)]
    np.testing.assert_allclose(*weights, atol=1e-5)


def test_batches_hold_no_more_tokens_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "BATCH_TOKENS", 20)
    jobs = [Job([0] * n, [0] * n, ()) for n in (3, 32, 5, 3, 12, 1)]
    assert [[len(job.ids) for job in batch] for batch in gather.batches(jobs)] == [
        [3],
        [32],
        [5, 3, 12],
        [1],
    ]


def test_text_without_the_word_does_not_run(minilm: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[int]] = []
    monkeypatch.setattr(
        type(minilm),
        "run",
        lambda model, jobs: (
            ran.extend(job.ids for job in jobs) or run(model.spec, model.params, jobs)
        ),
    )
    texts = ("a jam", "no such word", "the jam")
    result = compared(*texts, model=minilm, word="jam")
    assert ran[:2] == [minilm.encode(texts[0]).ids, minilm.encode(texts[2]).ids]
    assert minilm.encode(texts[1]).ids not in ran
    assert "'jam' is not in text B" in result.notes


def test_state_of_the_matrix_can_be_chosen_by_number_and_by_name(minilm: Model) -> None:
    texts = ["a traffic jam", "toast with jam", "jam again"]
    found = {
        state: compared(*texts, model=minilm, word="jam", state=state).similarity
        for state in (None, -1, 6, "L5", "l3", 4, "embedding", 0)
    }
    names = [made.name for made in found.values()]
    assert names == ["L5", "L5", "L5", "L5", "L3", "L3", "embedding", "embedding"]
    assert found["embedding"].matrix[0, 2] > found["L5"].matrix[0, 2]


@pytest.mark.parametrize("state", ["7", "-8", "L6", "last", ""])
def test_state_that_is_not_there_is_refused_with_those_that_are(minilm: Model, state) -> None:
    with pytest.raises(UsageProblem, match="expected embedding, L0 to L5"):
        compared("jam", "jam", "jam", model=minilm, word="jam", state=state)


def test_named_state_makes_a_matrix_of_several_words_too(food: Model) -> None:
    result = compared("jam toast", "toast jam rye", model=food, state="embedding")
    assert result.similarity.name == "embedding"
    # jam, jam, toast, toast: the embeddings are at right angles
    by_word = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    np.testing.assert_allclose(result.similarity.matrix, by_word, atol=1e-6)
    (matrix,) = [table for table in result.tables() if isinstance(table, Matrix)]
    assert [label.text for label in matrix.queries] == ["jam A", "jam B", "toast A", "toast B"]


def test_named_state_of_two_places_says_that_a_matrix_needs_more(food: Model) -> None:
    result = compared("jam toast", "jam rye", model=food, word="jam", state="0")
    assert result.similarity is None
    assert "a matrix of similarities needs 3 occurrences, here are 2" in result.notes


@pytest.mark.usefixtures("sample")
def test_centred_cosines_are_of_what_the_sample_does_not_share(food: Model) -> None:
    result = compared("jam toast", "rye jam", model=food, word="jam", to=["toast"], centred=True)
    # the sample is these texts: mean embedding (.5, 0), mean of the outputs twice that
    np.testing.assert_allclose(result.centre, [[0.5, 0], [1, 0]], atol=1e-6)
    # jam: (1, 0) - (.5, 0); (1.5, .5) - (1, 0) and (1.5, -.5) - (1, 0), at right angles
    np.testing.assert_allclose(result.pairs[0].cosine, [1, 0], atol=1e-6)
    np.testing.assert_allclose(result.pairs[0].top_dimension_share, [1, 0.5], atol=1e-6)
    # toast alone: (0, 1) - (.5, 0), then (0, 2) - (1, 0)
    root = 1.25**0.5
    second = [(-0.5 + 1) / (0.5**0.5 * 5**0.5), (-0.5 - 1) / (0.5**0.5 * 5**0.5)]
    expected = [[-0.5 / root, second[0]], [-0.5 / root, second[1]]]
    np.testing.assert_allclose(result.anchors[0].cosine, expected, atol=1e-6)
    # pairs of the sample: jam-rye, toast-rye, toast-jam, each of two embeddings minus (.5, 0)
    pairs = [-0.25 / (0.5 * root), -0.75 / 1.25, -0.25 / (0.5 * root)]
    assert result.baseline[0] == pytest.approx(np.mean(pairs), abs=1e-6)
    np.testing.assert_allclose(result.states[0], [[1, 0], [1.5, 0.5]], atol=1e-6)


@pytest.mark.usefixtures("sample")
def test_centred_cosines_say_so_everywhere(food: Model) -> None:
    result = compared("jam toast", "jam rye", "jam", model=food, word="jam", centred=True)
    assert result.headline().endswith("mean-centred cosines")
    assert result.record()["selection"]["centred"] is True
    titles = [table.title for table in result.tables() if table.name != "places"]
    assert all("mean-centred cosine" in title for title in titles)
    plain = compared("jam toast", "jam rye", "jam", model=food, word="jam")
    assert plain.record()["selection"]["centred"] is False
    assert "centred" not in plain.headline() + "".join(table.title for table in plain.tables())


@pytest.mark.usefixtures("sample")
def test_words_side_by_side_are_centred_too(food: Model) -> None:
    plain, centred = (
        compared("jam toast", "jam rye", model=food, word="jam", centred=centred).aligned
        for centred in (False, True)
    )
    assert plain[1].cosine[0] == pytest.approx(-1)
    # (-.5, 1) and (-.5, -1)
    assert centred[1].cosine[0] == pytest.approx(-0.75 / 1.25)


def test_without_a_sample_there_is_nothing_to_centre_on(food: Model) -> None:
    with pytest.raises(InputProblem, match="--centred: the vocabulary of food does not tell"):
        compared("jam toast", "jam rye", model=food, word="jam", centred=True)


def test_centring_takes_away_most_of_what_unrelated_words_share(minilm: Model) -> None:
    plain, centred = (
        compared("a traffic jam", "toast with jam", model=minilm, centred=centred).baseline
        for centred in (False, True)
    )
    assert np.abs(centred).max() < 0.1 < plain[1:-1].min()
