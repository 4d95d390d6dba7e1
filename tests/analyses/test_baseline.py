"""The cosine of random pairs, and the part of a cosine that one dimension makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attncli.analyses.baseline import SAMPLE, Baseline, top_dimension_share, word_states
from attncli.analyses.reduction import States
from attncli.model.forward import Job, run
from attncli.model.load import Model, load
from tests.analyses.hand import FOOD, by_hand
from tests.toys import tiny_bert, write_folder


def baseline_of(model: Model) -> np.ndarray | None:
    baseline = Baseline(model)
    jobs = baseline.jobs()
    if jobs:
        run(model.spec, model.params, jobs)
    return baseline.cosines()


def test_mean_over_pairs_of_different_words_of_different_sentences(minilm: Model) -> None:
    words = []
    for number, line in enumerate(SAMPLE):
        text = minilm.encode(line)
        states = States(minilm.spec.stack.n_layers)
        run(minilm.spec, minilm.params, [Job(text.ids, [0] * len(text.ids), [states])])
        for word, tokens in zip(text.words, text.tokens_by_word(), strict=True):
            if any(char.isalpha() for char in word.text):
                ids = [text.ids[token] for token in tokens]
                words.append((number, ids, word_states(states.stacked(), tokens)))
    sums, count = np.zeros(minilm.spec.stack.n_layers + 1), 0
    for sentence, ids, a in words:
        for other_sentence, other_ids, b in words:
            if sentence != other_sentence and ids != other_ids:
                lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
                sums += np.einsum("sd,sd->s", a.astype(np.float64), b) / lengths
                count += 1
    found = baseline_of(minilm)
    assert found is not None
    np.testing.assert_allclose(found, sums / count, atol=1e-5)


def test_nothing_where_the_vocabulary_knows_no_word_of_the_sample(tmp_path: Path) -> None:
    assert baseline_of(by_hand(tmp_path / "unknown", FOOD)) is None


def test_nothing_where_the_vocabulary_cannot_even_spell_the_sample(tmp_path: Path) -> None:
    words = {word: at for word, at in FOOD.items() if word != "[UNK]"}
    assert baseline_of(by_hand(tmp_path / "speechless", words)) is None


def test_sentences_too_long_for_the_model_are_left_out(tmp_path: Path) -> None:
    config, tensors = tiny_bert(max_position_embeddings=4)
    model = load(str(write_folder(tmp_path / "short", config, tensors)))
    assert Baseline(model).jobs() == []
    assert Baseline(model).cosines() is None


@pytest.mark.parametrize("d", [1, 7])
def test_top_dimension_share_is_the_largest_summand_of_the_cosine(d: int) -> None:
    rng = np.random.default_rng(d)
    a, b = rng.normal(size=(2, 5, d)).astype(np.float32)
    summands = a * b / np.linalg.norm(a, axis=1)[:, None] / np.linalg.norm(b, axis=1)[:, None]
    np.testing.assert_allclose(top_dimension_share(a, b), summands.max(axis=1), atol=1e-6)


def test_top_dimension_share_of_a_zero_vector_is_zero() -> None:
    zero, one = np.zeros((1, 3), np.float32), np.ones((1, 3), np.float32)
    np.testing.assert_array_equal(top_dimension_share(zero, one), [0])
