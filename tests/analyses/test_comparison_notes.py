"""Questions that mean something else than they seem, and what is said about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from attncli.analyses import compare as module
from attncli.api import compare, inspect
from attncli.model.load import Model, load
from tests.analyses.hand import FOOD, by_hand


@pytest.fixture
def causal(tmp_path: Path) -> Model:
    return by_hand(tmp_path / "causal", FOOD, causal=True)


def notes(*texts: str, **choice) -> list[str]:
    return list(compare(*texts, **choice).notes)


def test_plain_question_needs_no_note(minilm: Model) -> None:
    assert notes("a traffic jam", "toast with jam", model=minilm, word="jam") == []


def test_word_cut_into_pieces_is_the_mean_of_them(minilm: Model) -> None:
    texts = ["An unbelievability", "The unbelievability"]
    said = "'unbelievability' is cut into {n} pieces: its vector is their mean"
    n = len(compare(*texts, model=minilm, word="unbelievability").occurrences[0].tokens)
    assert n > 1
    assert notes(*texts, model=minilm, word="unbelievability") == [said.format(n=n)]
    assert notes(*texts, model=minilm) == [
        f"words cut into pieces, whose vector is the mean of their pieces: 'unbelievability' ({n})"
    ]


def test_phrase_is_the_mean_of_its_tokens(minilm: Model) -> None:
    assert notes("a traffic jam", "the traffic jam", model=minilm, word="traffic jam") == [
        "'traffic jam' is cut into 2 tokens: its vector is their mean"
    ]


def test_word_twice_in_the_only_text_is_compared_with_itself(minilm: Model) -> None:
    assert notes("jam and jam", model=minilm, word="jam") == [
        "'jam' occurs 2 times in the text, and these are compared"
    ]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (
            ["the jam", "jam and jam"],
            "in text B, where its places are B.1, B.2 and so on; some pairs",
        ),
        (
            ["the toast", "jam and jam"],
            "in text B, where its places are B.1, B.2 and so on; all pairs",
        ),
        (["jam, jam", "jam, jam", "a jam"], "in text A, B, where its places are A.1, A.2"),
    ],
)
def test_word_twice_in_one_of_several_texts_names_text_and_places(
    minilm: Model, texts: list[str], said: str
) -> None:
    (note,) = [n for n in notes(*texts, model=minilm, word="jam") if "more than once" in n]
    assert said in note


def test_texts_without_the_word_are_named_or_counted(minilm: Model) -> None:
    few = notes("jam", "toast", "jam", "toast", model=minilm, word="jam")
    assert few == ["'jam' is not in text B, D"]
    many = notes("jam", "jam", *["toast"] * 14, model=minilm, word="jam")
    assert many == ["'jam' is not in text C, D, E, F, G, H, I, J, K, L and 4 more"]


def test_notes_on_many_texts_are_counted(minilm: Model) -> None:
    texts = [f"jam {chr(0x1F600 + i)}" for i in range(14)]
    found = notes(*texts, model=minilm, word="jam")
    assert len([note for note in found if "not in the vocabulary" in note]) == 10
    assert "4 more notes on single texts" in found


def test_causal_rows_that_have_not_read_the_difference_are_counted(causal: Model) -> None:
    texts = ["jam toast", "jam rye", "jam", "toast jam"]
    (note,) = [n for n in notes(*texts, model=causal, word="jam") if "causal" in n]
    assert note.startswith("'jam' is equal in 3 of its places because the model is causal")


def test_causal_rows_are_told_even_where_pairs_are_left_out(
    causal: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PAIRS", 2)
    texts = ["jam toast", "jam rye", "toast jam"]
    assert any("equal in 2 of its places" in n for n in notes(*texts, model=causal, word="jam"))


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({}, False),
        ({"layer": "all", "head": "all"}, False),
        ({"head": "1.3"}, False),
        ({"layer": 1}, True),
        ({"head": "0-2"}, True),
    ],
)
def test_chosen_heads_that_are_merged_are_counted(minilm: Model, choice, said: bool) -> None:
    found = notes("a traffic jam", "toast with jam", model=minilm, word="jam", **choice)
    assert any("heads in one; -H LAYER.HEAD shows one" in note for note in found) == said


def test_random_weights_are_said_first() -> None:
    model = load("random:d_model=8,heads=2")
    found = notes("jam and jam", model=model, word="jam")
    assert found[0].startswith("random weights")


def test_spaces_and_spellings_of_accents_do_not_make_another_word(minilm: Model) -> None:
    result = compare("a caf\u00e9 bar", "the cafe\u0301  bar", model=minilm, word="caf\u00e9 bar")
    assert [(pair.a, pair.b) for pair in result.pairs] == [(0, 1)]


@pytest.mark.parametrize("by", ["rollout", "value-zeroing"])
def test_what_the_word_reads_is_told_by_every_measure(minilm: Model, by) -> None:
    texts = "We were stuck in a traffic jam", "I love my toast with strawberry jam"
    result = compare(*texts, model=minilm, word="jam", by=by)
    for side, text in enumerate(texts):
        seen = inspect(text, minilm, query="jam", by=by, words=True, special="fold")
        keys = [change.a if side == 0 else change.b for change in result.changed[0]]
        found = {key.text: key.measure for key in keys if key is not None}
        expected = {unit.text: seen.measure[0, at] for at, unit in enumerate(seen.key_units)}
        assert found == pytest.approx(expected, abs=1e-5)
    name = by.replace("-", "_")
    changes = [abs(key[f"{name}_change"]) for key in result.record()["changed"][0]["keys"]]
    assert changes == sorted(changes, reverse=True)
    (table,) = [table for table in result.tables() if table.name == "changed"]
    assert [c.name for c in table.columns][1:3] == ["weight", by]
