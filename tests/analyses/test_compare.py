"""compare: states, anchors and readings that can be worked out on paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attncli.api import compare
from attncli.errors import InputProblem, UsageProblem
from attncli.model.load import Model
from tests.analyses.hand import FOOD, by_hand


@pytest.fixture
def both_ways(tmp_path: Path) -> Model:
    return by_hand(tmp_path / "both", FOOD)


@pytest.fixture
def causal(tmp_path: Path) -> Model:
    return by_hand(tmp_path / "causal", FOOD, causal=True)


def pairs(result) -> list[tuple[int, int]]:
    return [(pair.a, pair.b) for pair in result.pairs]


def test_word_in_two_texts(both_ways: Model) -> None:
    result = compare("jam toast", "jam rye", model=both_ways, word="jam")
    # states 1: (1, 0) + (.5, .5) and (1, 0) + (.5, -.5); cosine (1.5² - .5²) / 2.5
    np.testing.assert_allclose(result.states[:, 1], [[1.5, 0.5], [1.5, -0.5]], atol=1e-6)
    (pair,) = result.pairs
    np.testing.assert_allclose(pair.cosine, [1, 0.8], atol=1e-6)
    np.testing.assert_allclose(pair.top_dimension_share, [1, 0.9], atol=1e-6)


def test_word_twice_in_one_text(causal: Model) -> None:
    result = compare("jam toast jam", model=causal, word="jam")
    # second jam: (1, 0) + (2/3, 1/3)
    np.testing.assert_allclose(result.states[:, 1], [[2, 0], [5 / 3, 1 / 3]], atol=1e-6)
    assert [(o.text, o.start, o.end) for o in result.occurrences] == [(0, 0, 3), (0, 10, 13)]
    assert result.aligned == ()
    first, second, third = result.changed[0]
    assert (first.a, first.b) != (None, None)
    assert [c.weight for c in (first, second, third)] == pytest.approx([-2 / 3, 1 / 3, 1 / 3])


def test_every_shared_word_is_followed_when_none_is_named(both_ways: Model) -> None:
    result = compare("jam toast", "toast jam rye", model=both_ways)
    assert result.words == ("jam", "toast")
    assert [(o.word, o.text) for o in result.occurrences] == [
        ("jam", 0),
        ("jam", 1),
        ("toast", 0),
        ("toast", 1),
    ]
    assert pairs(result) == [(0, 1), (2, 3)]


def test_letter_case_does_not_make_another_word(both_ways: Model) -> None:
    result = compare("Jam toast", "jam rye", model=both_ways)
    assert pairs(result) == [(0, 1)]
    assert [o.word for o in result.occurrences] == ["Jam", "jam"]


def test_text_without_the_word_is_named_and_left_out(both_ways: Model) -> None:
    result = compare("jam toast", "rye", "jam rye", model=both_ways, word="jam")
    assert [o.text for o in result.occurrences] == [0, 2]
    assert "'jam' is not in text B" in result.notes


@pytest.mark.parametrize(
    ("texts", "word", "said"),
    [
        (["toast", "rye"], "jam", "--word jam: not in the 2 texts"),
        (["jam toast", "rye"], "jam", "only once in the 2 texts"),
        (["jam toast"], None, "share no word"),
        (["jam toast"], "jam", "only once in the text"),
    ],
)
def test_too_few_occurrences_are_refused(both_ways: Model, texts, word, said: str) -> None:
    with pytest.raises(InputProblem, match=said):
        compare(*texts, model=both_ways, word=word)


def test_anchor_alone_and_in_a_sentence(both_ways: Model) -> None:
    result = compare(
        "jam toast", "jam rye", model=both_ways, word="jam", to=["toast", "toast: jam toast"]
    )
    alone, within = result.anchors
    # toast alone: (0, 2); toast beside jam: (.5, 1.5)
    root = 2.5**0.5
    np.testing.assert_allclose(alone.cosine, [[0, 0.5 / root], [0, -0.5 / root]], atol=1e-6)
    np.testing.assert_allclose(within.cosine, [[0, 1.5 / 2.5], [0, 0]], atol=1e-6)


def test_one_occurrence_is_enough_for_an_anchor(both_ways: Model) -> None:
    result = compare("jam toast", model=both_ways, word="jam", to=["rye"])
    assert result.pairs == ()
    assert result.record()["changed"] == []
    assert [table.name for table in result.tables() if table.rows] == ["places", "anchors"]


def test_anchor_whose_sentence_lacks_its_word_is_refused(both_ways: Model) -> None:
    with pytest.raises(UsageProblem, match="does not hold the word 'rye'"):
        compare("jam toast", model=both_ways, word="jam", to=["rye: jam toast"])


def test_causal_model_says_that_what_comes_later_cannot_matter(causal: Model) -> None:
    later = compare("jam toast", "jam rye", model=causal, word="jam")
    np.testing.assert_allclose(later.pairs[0].cosine, [1, 1], atol=1e-6)
    assert any("equal in both texts because the model is causal" in n for n in later.notes)
    earlier = compare("toast jam", "rye jam", model=causal, word="jam")
    assert earlier.pairs[0].cosine[1] < 0.99
    assert not any("causal" in note for note in earlier.notes)


def test_model_that_sees_both_ways_says_nothing_of_the_kind(both_ways: Model) -> None:
    result = compare("jam toast", "jam rye", model=both_ways, word="jam")
    assert not any("causal" in note for note in result.notes)


def test_minimal_pair_is_aligned_word_by_word(both_ways: Model) -> None:
    result = compare("jam toast jam", "jam rye jam", model=both_ways)
    assert [(row.a, row.b) for row in result.aligned] == [(0, 0), (1, 1), (2, 2)]
    # toast (0, 1) + (2/3, 1/3) and rye (0, -1) + (2/3, -1/3)
    a, b = np.array([2 / 3, 4 / 3]), np.array([2 / 3, -4 / 3])
    swapped = result.aligned[1].cosine
    assert swapped is not None
    np.testing.assert_allclose(swapped, [-1, a @ b / (a @ a)], atol=1e-6)


def test_inserted_word_stands_alone_and_unlike_texts_are_not_aligned(both_ways: Model) -> None:
    result = compare("jam jam", "jam toast jam", model=both_ways)
    assert [(r.a, r.b, r.cosine is None) for r in result.aligned] == [
        (0, 0, False),
        (None, 1, True),
        (1, 2, False),
    ]
    assert compare("jam rye rye rye", "toast jam", model=both_ways).aligned == ()


def test_readings_of_an_occurrence_sum_to_one(minilm: Model) -> None:
    texts = ["Unbelievable traffic jam for hours", "I love strawberry jam on unbelievable toast"]
    result = compare(*texts, model=minilm, word="jam")
    for side in ("a", "b"):
        readings = [getattr(c, side) for c in result.changed[0] if getattr(c, side) is not None]
        assert sum(reading.weight for reading in readings) == pytest.approx(1, abs=1e-5)
        assert sum(reading.contribution for reading in readings) == pytest.approx(1, abs=1e-5)
    assert sum(change.weight for change in result.changed[0]) == pytest.approx(0, abs=1e-5)
    specials = [c.a.text for c in result.changed[0] if c.a is not None and c.a.word < 0]
    assert specials == ["[specials]"]


def test_word_of_several_pieces_is_the_mean_of_their_states(minilm: Model) -> None:
    text = "An unbelievability and an unbelievability"
    result = compare(text, model=minilm, word="unbelievability")
    first, second = result.occurrences
    assert len(first.tokens) > 1
    assert text[second.start : second.end] == "unbelievability"
    # the same pieces at another place: only the position differs at the embedding
    assert 0.5 < result.pairs[0].cosine[0] < 1
