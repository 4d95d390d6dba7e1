"""Heads that link two words: published figures, definitions, and questions that are void."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attncli import api
from attncli.analyses.head_links import HeadLinks
from attncli.errors import UsageProblem
from attncli.model.load import Model
from tests.analyses.test_excess import excess_by_definition
from tests.seq2seq import SOURCE, TARGET, seq2seq
from tests.toys import record

TIRED = "The animal did not cross the street because it was too tired"
PIECES = "The zebrafish animal saw the zebrafish street"


def links(*arguments: object, **choice: object) -> HeadLinks:
    found = api.heads(*arguments, **choice)  # type: ignore[arg-type]
    assert isinstance(found, HeadLinks)
    return found


def test_heads_that_link_it_to_animal_are_layer_3_head_1_and_layer_5_head_11(minilm) -> None:
    found = links(TIRED, minilm, from_="it", to="animal").links
    assert [(link.layer, link.head) for link in found[:2]] == [(3, 1), (5, 11)]
    assert found[0].weight == pytest.approx(0.65, abs=0.02)
    assert found[1].weight == pytest.approx(0.64, abs=0.02)
    assert len(found) == 72


@pytest.mark.parametrize("by", ["weight", "contribution", "excess"])
def test_heads_are_ranked_by_the_measure_asked_for(minilm, by: str) -> None:
    values = [link.by(by) for link in links(TIRED, minilm, from_="it", to="animal", by=by).links]
    assert None not in values
    assert values == sorted(values, key=lambda value: -(value or 0))


def test_numbers_are_those_of_inspect_and_of_the_definition_of_excess(minilm: Model) -> None:
    encoded = minilm.encode(TIRED)
    weights = record(minilm.spec, minilm.params, encoded.ids).weights
    ordinary = [not token.special for token in encoded.tokens]
    inspected = api.inspect(TIRED, minilm, every_head=True).by_head
    it, animal = 9, 2
    for link in links(TIRED, minilm, from_="it", to="animal").links:
        head = link.layer, link.head
        assert link.weight == pytest.approx(float(weights[head][it, animal]), abs=1e-6)
        assert link.contribution == pytest.approx(
            float(inspected["contributions"][head][it, animal]), abs=1e-5
        )
        expected = excess_by_definition(weights[head], ordinary, it, animal)
        assert link.excess == pytest.approx(expected, abs=1e-5)


def test_pieces_are_summed_to_and_averaged_from_and_occurrences_averaged(minilm: Model) -> None:
    encoded = minilm.encode(PIECES)
    words = [word.text for word in encoded.words]
    of = encoded.tokens_by_word()
    first, second = (of[i] for i, word in enumerate(words) if word == "zebrafish")
    (animal,) = of[words.index("animal")]
    assert len(first) > 1
    weights = record(minilm.spec, minilm.params, encoded.ids).weights[4, 2]
    to = links(PIECES, minilm, from_="animal", to="zebrafish", head="4.2")
    expected = (weights[animal, list(first)].sum() + weights[animal, list(second)].sum()) / 2
    assert to.links[0].weight == pytest.approx(float(expected), abs=1e-6)
    back = links(PIECES, minilm, from_="zebrafish#2", to="animal", head="4.2")
    expected = weights[list(second), animal].mean()
    assert back.links[0].weight == pytest.approx(float(expected), abs=1e-6)
    assert "means over 2 pairs of occurrences of 'animal' and 'zebrafish'" in to.notes[0]
    assert any(f"has {len(first)} pieces: sum to its pieces" in note for note in to.notes)
    assert any(f"has {len(first)} pieces: mean from its pieces" in note for note in back.notes)


def test_repeated_word_is_asked_about_its_other_places(minilm: Model) -> None:
    encoded = minilm.encode("jam and jam")
    weights = record(minilm.spec, minilm.params, encoded.ids).weights[0, 3]
    found = links("jam and jam", minilm, from_="jam", to="jam", head="0.3")
    assert found.links[0].weight == pytest.approx(float(weights[1, 3] + weights[3, 1]) / 2)
    itself = links("jam and jam", minilm, from_="jam#1", to="jam#1", head="0.3")
    assert itself.links[0].weight == pytest.approx(float(weights[1, 1]))


def test_offset_that_occurs_once_has_no_excess_and_says_so(minilm: Model) -> None:
    found = links("hi there", minilm, from_="hi", to="there")
    assert {link.excess for link in found.links} == {None}
    assert any("stand as far apart" in note for note in found.notes)
    with pytest.raises(UsageProblem, match="--by excess"):
        links("hi there", minilm, from_="hi", to="there", by="excess")
    special = links("hi there", minilm, from_="hi", to="[SEP]")
    assert any("special tokens do not take part" in note for note in special.notes)


def test_later_word_in_a_causal_model_is_a_void_question() -> None:
    causal = "random:d_model=8,heads=2,causal=true"
    with pytest.raises(UsageProblem, match=r"'jam' stands after 'like'.* cannot depend on a later"):
        links("i like jam", causal, from_="like", to="jam")
    some = links("jam is jam", causal, from_="jam", to="is")
    assert [pair[0] for pair in some.pairs] == [(3,)]
    assert any("1 left out, their key comes later" in note for note in some.notes)
    assert some.links[0].weight > 0


def test_target_words_are_linked_to_source_words_without_excess(tmp_path: Path) -> None:
    model = seq2seq(tmp_path / "two")
    found = links(SOURCE, model, target=TARGET, from_="hund", to="dog")
    inspected = api.inspect(SOURCE, model, target=TARGET, every_head=True, by="weight").by_head
    query = next(t.index for t in found.sides.queries.tokens if t.token == "hund")
    key = next(t.index for t in found.sides.keys.tokens if t.token == "dog")
    for link in found.links:
        value = inspected["weights"][link.layer, link.head, query, key]
        assert link.weight == pytest.approx(float(value))
        assert link.excess is None
    with pytest.raises(UsageProblem, match="--from dog: not in the text"):
        links(SOURCE, model, target=TARGET, from_="dog", to="dog")


def test_too_many_pairs_are_refused_with_the_way_out(minilm: Model) -> None:
    with pytest.raises(UsageProblem, match="pairs of occurrences are too many; name one of each"):
        links("jam or " * 120, minilm, from_="jam", to="or")


def test_weights_of_an_observer_are_left_as_they_were(minilm: Model) -> None:
    plain = links(TIRED, minilm, from_="it", to="animal", top=1).links[0]
    chosen = links(TIRED, minilm, from_="it", to="animal", layer=3).links[0]
    assert np.isclose(plain.weight, chosen.weight)
    assert (chosen.layer, chosen.head) == (3, 1)
