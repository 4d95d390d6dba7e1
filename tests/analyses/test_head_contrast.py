"""Heads in two texts: published figures, the definition of the distance, swaps of words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attncli import api
from attncli.analyses import head_contrast as module
from attncli.analyses.head_changes import HeadChanges
from attncli.analyses.head_swap import swap_words
from attncli.errors import InputProblem, UsageProblem
from attncli.model.load import Model
from tests.seq2seq import SOURCE, TARGET, seq2seq
from tests.toys import record

TIRED = "The animal did not cross the street because it was too tired"
WIDE = "The animal did not cross the street because it was too wide"
CAUSAL = "random:d_model=8,heads=2,layers=2,causal=true"


def changes(*arguments: object, **choice: object) -> HeadChanges:
    found = api.heads(*arguments, **choice)  # type: ignore[arg-type]
    assert isinstance(found, HeadChanges)
    return found


def test_layer_3_head_1_turns_from_the_animal_when_the_street_is_wide(minilm: Model) -> None:
    found = changes(TIRED, minilm, contrast=WIDE, from_="it", to="animal").changes
    first = found[0]
    assert (first.layer, first.head) == (3, 1)
    assert first.weight_a == pytest.approx(0.65, abs=0.02)
    assert first.weight_b == pytest.approx(0.30, abs=0.02)
    assert first.change == pytest.approx(first.weight_b - first.weight_a)
    sizes = [abs(change.change) for change in found]
    assert sizes == sorted(sizes, reverse=True)


def test_same_text_differs_nowhere_and_says_so(minilm: Model) -> None:
    found = changes(TIRED, minilm, contrast=TIRED)
    assert {change.variation for change in found.changes} == {0.0}
    assert [layer.state for layer in found.layers] == pytest.approx([0] * 6, abs=1e-6)
    assert "both texts are the same tokens: nothing can change" in found.notes


def test_variation_is_half_the_sum_of_differences_of_the_words_rows(minilm: Model) -> None:
    # "very" is only in the second text, so it is a column of its own; all tokens are whole words
    a, b = "the dog sees a cat", "the dog sees a very big cat"
    weights = [
        record(minilm.spec, minilm.params, minilm.encode(text).ids).weights for text in (a, b)
    ]
    rows = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 7)]
    found = changes(a, minilm, contrast=b)
    assert found.words == found.rows == len(rows)
    for change in found.changes:
        w, v = (values[change.layer, change.head] for values in weights)
        total, largest = [], 0.0
        for i, j in rows:
            pairs = [(w[i, x], v[j, y]) for x, y in rows]
            pairs.append((w[i, 0] + w[i, 6], v[j, 0] + v[j, 8]))
            largest = max(largest, *(abs(float(q - p)) for p, q in pairs))
            total.append(sum(abs(p - q) for p, q in pairs) + v[j, 5] + v[j, 6])
        assert change.variation == pytest.approx(float(np.mean(total)) / 2, abs=1e-5)
        assert abs(change.change) == pytest.approx(largest, abs=1e-5)
    first = found.layers[0]
    of_layer = [c.variation for c in found.changes if c.layer == 0 and c.variation is not None]
    assert first.variation == pytest.approx(np.mean(of_layer))
    assert first.largest == pytest.approx(max(of_layer))


def test_states_of_the_words_are_compared_after_each_layer(minilm: Model) -> None:
    states = [
        record(minilm.spec, minilm.params, minilm.encode(text).ids).resid for text in ("hi", "ho")
    ]
    found = changes("hi", minilm, contrast="ho")
    x, y = (values[:, 1].astype(np.float64) for values in states)
    cosine = (x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1))
    assert found.embedding == pytest.approx(1 - cosine[0], abs=1e-5)
    assert [layer.state for layer in found.layers] == pytest.approx(list(1 - cosine[1:]), abs=1e-5)


def test_rows_before_the_first_difference_of_a_causal_model_cannot_change() -> None:
    found = changes("i like my jam", CAUSAL, contrast="i like my toast")
    assert any("rows of 3 words of 4, before the first difference" in n for n in found.notes)
    pair = changes("i like my jam", CAUSAL, contrast="i like my toast", from_="my", to="like")
    assert {change.change for change in pair.changes} == {0.0}
    assert any("'my' stands before the first difference" in note for note in pair.notes)
    after = changes("jam i like", CAUSAL, contrast="toast i like", from_="like", to="i")
    assert not any("first difference" in note for note in after.notes)


def test_long_texts_are_compared_on_some_words_and_say_so(minilm: Model, monkeypatch) -> None:
    monkeypatch.setattr(module, "BUDGET", 72 * 14 * 3)
    found = changes(TIRED, minilm, contrast=WIDE)
    assert (found.rows, found.words) == (3, 12)
    assert any("rows of 3 of 12 pairs of words" in note for note in found.notes)


def test_texts_without_a_common_word_and_words_of_one_text_are_refused(minilm: Model) -> None:
    with pytest.raises(InputProblem, match="share no word"):
        changes("a b c d e f", minilm, contrast="u v w x y")
    with pytest.raises(UsageProblem, match="--to animal: not in the text"):
        changes(TIRED, minilm, contrast="it was tired", from_="it", to="animal")


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("He said she left", "he,she", "She said he left"),
        ("HE and She, he.", "he,she", "SHE and He, she."),
        ("I saw Paris in london", "Paris,London", "I saw London in paris"),
        ("the cafe\u0301", "caf\u00e9,bar", "the bar"),
        ("he's he", "he,she", "he's she"),
        ("his X", " his , her ", "her X"),
    ],
)
def test_words_are_exchanged_both_ways_with_their_case(text: str, words: str, expected) -> None:
    assert swap_words(text, words) == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("he", "expected two words with a comma"),
        ("he,she,it", "expected two words with a comma"),
        ("he,not she", "expected two words with a comma"),
        ("he,He", "both are the same word"),
        ("him,her", "neither word is in the text"),
    ],
)
def test_swap_that_cannot_be_made_is_refused(words: str, said: str) -> None:
    with pytest.raises(UsageProblem, match=said):
        swap_words("he said she left", words)


def test_swapped_copy_stands_beside_the_text_word_for_word(minilm: Model) -> None:
    found = changes("he she", minilm, swap="he,she")
    assert [text.text for text in found.texts] == ["he she", "she he"]
    assert found.words == 2
    assert all(change.variation is not None for change in found.changes)
    # not "she" beside "she": each word stands beside the one that took its place
    assert {pair for change in found.changes for pair in (change.words or ())} <= {
        (query, key) for query in ("he", "she") for key in ("he", "she", "[specials]")
    }
    assert found.changes[0].words is not None
    (query_a, _), (query_b, _) = found.changes[0].words
    assert query_a != query_b


def test_words_of_different_numbers_of_pieces_are_said(minilm: Model) -> None:
    found = changes("the cat sees zebrafish", minilm, swap="cat,zebrafish")
    assert not any("different numbers of pieces" in note for note in found.notes)
    found = changes("the cat sees", minilm, swap="cat,zebrafish")
    assert any("different numbers of pieces" in note for note in found.notes)


def test_encoder_of_two_stacks_is_compared_and_a_target_refused(tmp_path: Path) -> None:
    model = seq2seq(tmp_path / "two")
    found = changes(SOURCE, model, swap="dog,cat")
    assert "the encoder is compared; the decoder takes no part" in found.notes
    with pytest.raises(UsageProblem, match="--swap compares what is read without a target"):
        changes(SOURCE, model, swap="dog,cat", target=TARGET)
