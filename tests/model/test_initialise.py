"""Models made on request, and hand-made ones in an .npz file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli.errors import InputProblem, ModelProblem, UsageProblem
from attncli.model.initialise import Recipe, initialise_folder, parse_recipe, word_vocabulary
from attncli.model.load import load
from tests.toys import record


def hand_made(**changes: Any) -> dict[str, Any]:
    """Return the arrays of a textbook example: two words, one head of width 2."""
    arrays = {
        "embedding": np.array([[1.0, 0.0], [0.0, 1.0]]),
        "w_q": np.eye(2),
        "w_k": np.eye(2) * 2,
        "w_v": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "vocabulary": np.array(["jam", "toast"]),
        "n_heads": np.array(1),
    }
    return {k: v for k, v in {**arrays, **changes}.items() if v is not ...}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "textbook.npz"


def test_hand_made_model_gives_the_numbers_of_the_formula(path: Path) -> None:
    np.savez(path, **hand_made())
    model = load(str(path))
    encoded = model.encode("jam toast")
    assert encoded.ids == [0, 1]
    found = record(model.spec, model.params, encoded.ids)
    # q·k / sqrt(2) is 2 / sqrt(2) on the diagonal and 0 beside it
    np.testing.assert_allclose(found.scores[0, 0], np.eye(2) * 2**0.5, rtol=1e-6)
    high = np.exp(2**0.5) / (np.exp(2**0.5) + 1)
    np.testing.assert_allclose(found.weights[0, 0, 0], [high, 1 - high], rtol=1e-6)
    out = [1 + high * 1 + (1 - high) * 3, high * 2 + (1 - high) * 4]
    np.testing.assert_allclose(found.resid[1, 0], out, rtol=1e-6)


def test_hand_made_model_can_be_causal_and_is_not_random(path: Path) -> None:
    np.savez(path, **hand_made(causal=np.array(True)))
    model = load(str(path))
    assert model.card().causal
    assert not model.card().random
    found = record(model.spec, model.params, [0, 1])
    assert found.weights[0, 0, 0].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"w_k": ...}, "arrays missing: w_k"),
        ({"w_x": np.eye(2)}, "w_x"),
        ({"w_q": np.eye(2, dtype=np.complex64)}, "array w_q is complex64"),
        ({"w_v": np.ones(2)}, "array w_v"),
        ({"w_k": np.ones((3, 2))}, "w_k has shape [3, 2], expected [2, 2]"),
        ({"w_q": np.ones((2, 3)), "n_heads": np.array(2)}, "does not divide"),
        ({"w_q": np.ones((2, 4)), "w_k": np.ones((2, 4)), "w_v": np.ones((2, 4))}, "w_o"),
        ({"vocabulary": np.array(["jam", "jam"])}, "2 different strings"),
        ({"vocabulary": np.array(["jam"])}, "2 different strings"),
        ({"vocabulary": np.array([b"jam", b"toast"])}, "different strings"),
        ({"vocabulary": np.array([1, 2])}, "different strings"),
        ({"n_heads": np.array(0)}, "n_heads"),
        ({"n_heads": np.array([1, 1])}, "n_heads"),
        ({"n_heads": np.array(1.0)}, "n_heads"),
        ({"embedding": np.full((2, 2), np.nan)}, "array embedding holds NaN"),
    ],
)
def test_arrays_that_make_no_model_are_refused_by_name(
    path: Path, changes: dict[str, Any], part: str
) -> None:
    np.savez(path, **hand_made(**changes))
    with pytest.raises(ModelProblem) as caught:
        load(str(path))
    assert part in str(caught.value)
    assert "textbook.npz" in str(caught.value)


def test_word_outside_a_hand_made_vocabulary_is_an_input_problem(path: Path) -> None:
    np.savez(path, **hand_made())
    with pytest.raises(InputProblem, match="vocabulary"):
        load(str(path)).encode("jam zebra")


def test_random_model_is_the_same_for_a_seed_and_says_that_it_is_random() -> None:
    def first_scores(name: str) -> np.ndarray:
        model = load(name)
        assert model.card().random
        assert model.sha256() is None
        return record(model.spec, model.params, model.encode("I like jam").ids).scores

    one = first_scores("random:d_model=32,heads=2,seed=5")
    np.testing.assert_array_equal(one, first_scores("random:seed=5,heads=2,d_model=32"))
    assert np.abs(one - first_scores("random:d_model=32,heads=2,seed=6")).max() > 0.1
    # spread near 1: the heads choose, and none is saturated
    assert 0.3 < one.std() < 3


def test_recipe_is_read_with_its_defaults() -> None:
    assert parse_recipe("") == Recipe()
    assert parse_recipe("causal,ffn=false,layers=3") == Recipe(causal=True, ffn=False, layers=3)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("width=3", "'width=3' not understood"),
        ("heads", "'heads' not understood"),
        ("heads=-2", "'heads=-2' not understood"),
        ("heads=٣", "not understood"),
        ("causal=maybe", "'causal=maybe' not understood"),
        ("config=1", "not understood"),
        ("heads=0", "heads=0, expected 1 to"),
        ("d_model=999999999", "expected 1 to 16,384"),
        ("d_model=10,heads=3", "10 does not divide by 3"),
    ],
)
def test_recipe_that_is_not_understood_is_a_usage_problem(text: str, part: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        parse_recipe(text)
    assert part in str(caught.value)


@pytest.mark.parametrize("changes", [{}, {"ffn": False}, {"output": False}, {"layers": 3}])
def test_written_model_loads_and_equals_the_one_in_memory(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    recipe = Recipe(d_model=8, heads=2, seed=3, **changes)
    (tmp_path / "words.txt").write_bytes("\ufeffI like jam\nand I like toast".encode())
    initialise_folder(tmp_path / "made", recipe, tmp_path / "words.txt")
    model = load(str(tmp_path / "made"))
    assert model.card().random
    encoded = model.encode("I like zebra")
    assert [token.token for token in encoded.tokens] == ["i", "like", "[UNK]"]
    for name, values in recipe.arrays(6).items():
        np.testing.assert_array_equal(model.params.store.read(name), values)
    found = record(model.spec, model.params, encoded.ids)
    assert found.weights.shape == (recipe.layers, 2, 3, 3)


def test_vocabulary_has_each_word_once_in_order_of_first_use() -> None:
    vocabulary = word_vocabulary("I like jam, and I like toast")
    assert vocabulary == ["[UNK]", "i", "like", "jam", ",", "and", "toast"]


def test_folder_with_a_model_is_replaced_only_when_asked(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("I like jam")
    initialise_folder(tmp_path, Recipe(d_model=4, heads=1), words)
    with pytest.raises(ModelProblem, match="already there"):
        initialise_folder(tmp_path, Recipe(d_model=8, heads=1), words)
    initialise_folder(tmp_path, Recipe(d_model=8, heads=1), words, overwrite=True)
    assert load(str(tmp_path)).spec.stack.d_model == 8


@pytest.mark.parametrize(("content", "part"), [(None, "cannot be read"), (b"a\xff", "byte 1")])
def test_words_that_cannot_be_read_are_a_model_problem(
    tmp_path: Path, content: bytes | None, part: str
) -> None:
    if content is not None:
        (tmp_path / "words.txt").write_bytes(content)
    with pytest.raises(ModelProblem, match=rf"words\.txt: {part}"):
        initialise_folder(tmp_path / "made", Recipe(), tmp_path / "words.txt")


def test_model_without_words_of_its_own_uses_the_default_tokenizer(tmp_path: Path) -> None:
    initialise_folder(tmp_path, Recipe(d_model=4, heads=1), None)
    model = load(str(tmp_path))
    assert [token.token for token in model.encode("jam").tokens] == ["[CLS]", "jam", "[SEP]"]
