"""tokens: what the record, the table and the arrays say of one text."""

from __future__ import annotations

import numpy as np

from attncli.api import tokens
from attncli.model.load import Model


def test_words_and_tokens_point_at_each_other(minilm: Model) -> None:
    text = "Don't  stop: unbelievability, café!"
    record = tokens(text, minilm).record()
    for word in record["words"]:
        assert text[word["start"] : word["end"]] == word["text"]
        for token in word["tokens"]:
            assert record["tokens"][token]["word"] == word["index"]
    pieces = [t["text"] for t in record["tokens"] if not t["special"]]
    assert "".join(pieces) == text.replace(" ", "")


def test_added_tokens_say_so_and_typed_ones_show_their_characters(minilm: Model) -> None:
    (table,) = tokens("a [SEP]", minilm).tables()
    at = [column.name for column in table.columns].index("characters")
    assert [row[at] for row in table.rows] == ["added", "0–1", "2–7", "added"]


def test_continued_pieces_are_marked(minilm: Model) -> None:
    (table,) = tokens("unbelievability", minilm).tables()
    shown = [row[1].text for row in table.rows]
    assert shown[0] == "[CLS]"
    assert all(text.startswith("##") for text in shown[2:-1])
    assert len(shown) > 3


def test_arrays_mark_tokens_without_a_word(minilm: Model) -> None:
    arrays = tokens("a cat", minilm).arrays()
    np.testing.assert_array_equal(arrays["words"], [-1, 0, 1, -1])
    np.testing.assert_array_equal(arrays["spans"][1:3], [[0, 1], [2, 5]])
    np.testing.assert_array_equal(arrays["special"], [True, False, False, True])
