"""Rows and columns: tokens or words, specials shown, folded or hidden."""

from __future__ import annotations

import numpy as np
import pytest

from attncli.analyses.units import (
    Unit,
    make_units,
    merge_keys,
    merge_queries,
    renormalise,
)
from attncli.model.load import Model
from attncli.selection import View
from attncli.tokenize import Encoded


@pytest.fixture
def encoded(minilm: Model) -> Encoded:
    text = minilm.encode("unbelievableness was")
    assert len(text.tokens) > 4
    return text


def texts(units: list[Unit]) -> list[str]:
    """Return the texts of units, checking that they are numbered in order."""
    assert [unit.index for unit in units] == list(range(len(units)))
    return [unit.text for unit in units]


def test_tokens_are_units_of_one(encoded: Encoded) -> None:
    units = make_units(encoded, View())
    assert [unit.tokens for unit in units] == [(i,) for i in range(len(encoded.tokens))]
    assert texts(units)[0] == "[CLS]"
    assert [unit.special for unit in units] == [token.special for token in encoded.tokens]


def test_words_gather_their_pieces_and_specials_stay(encoded: Encoded) -> None:
    units = make_units(encoded, View(words=True))
    assert texts(units) == ["[CLS]", "unbelievableness", "was", "[SEP]"]
    assert units[1].tokens == tuple(range(1, len(encoded.tokens) - 2))


def test_folded_specials_are_one_unit_at_the_end(encoded: Encoded) -> None:
    units = make_units(encoded, View(words=True, special="fold"))
    assert texts(units) == ["unbelievableness", "was", "[specials]"]
    assert units[-1].tokens == (0, len(encoded.tokens) - 1)
    assert units[-1].special


def test_hidden_specials_have_no_unit(encoded: Encoded) -> None:
    assert texts(make_units(encoded, View(words=True, special="hide"))) == [
        "unbelievableness",
        "was",
    ]


def test_word_label_is_safe_while_its_text_is_exact(minilm: Model) -> None:
    units = make_units(minilm.encode("a\u200bb"), View(words=True))
    assert (units[1].text, units[1].label) == ("a\u200bb", "a\\u200bb")


def unit(index: int, *tokens: int) -> Unit:
    return Unit(index, "", "", tokens, False)


def test_weight_to_a_word_is_the_sum_and_from_a_word_the_mean_of_its_pieces() -> None:
    weights = np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4]], np.float32)
    units = [unit(0, 0), unit(1, 1, 2)]
    merged = merge_queries(merge_keys(weights, units), [0, 1, 2], units)
    np.testing.assert_allclose(merged, [[0.5, 0.5], [0.2, 0.8]], rtol=1e-6)


def test_rows_are_found_by_their_token_and_not_by_their_place() -> None:
    values = np.array([[1.0], [2.0], [3.0]], np.float32)
    merged = merge_queries(values, [4, 7, 9], [unit(0, 9), unit(1, 4, 7)])
    assert merged.tolist() == [[3], [1.5]]


def test_units_in_another_order_are_no_identity() -> None:
    values = np.array([[1.0, 2.0]], np.float32)
    assert merge_keys(values, [unit(0, 1), unit(1, 0)]).tolist() == [[2, 1]]


def test_renormalised_rows_sum_to_one_and_empty_ones_stay() -> None:
    found = renormalise(np.array([[1, 3], [0, 0]], np.float32))
    assert found.tolist() == [[0.25, 0.75], [0, 0]]
