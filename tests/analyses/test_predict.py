"""predict: candidates equal the logits of transformers, in the right place; the logit lens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import api
from attncli.errors import InputProblem, ModelProblem, UsageProblem
from attncli.model.head import find_head
from attncli.model.load import Model
from tests.parity.heads import logits_of
from tests.predictors import (
    CONTINUED,
    MASKED,
    continuer,
    filler,
    pair_filler,
    tokenizer,
    translator,
)
from tests.seq2seq import SOURCE, TARGET
from tests.toys import record, write_folder

Array = np.ndarray


def softmax(logits: Array) -> Array:
    shares = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def expected(model: Model, states: Array) -> Array:
    """Probabilities over the whole vocabulary, [state, token]."""
    head = find_head(model.params)
    assert head is not None
    return softmax(logits_of(head, states))


def assert_place(place: Any, shares: Array) -> None:
    """Candidates are the most probable tokens, entropy that of all."""
    order = np.argsort(-shares)[: len(place.candidates)]
    assert [c.id for c in place.candidates] == order.tolist()
    found = [c.probability for c in place.candidates]
    np.testing.assert_allclose(found, shares[order], rtol=1e-5)
    assert place.entropy == pytest.approx(-(shares * np.log(shares)).sum(), rel=1e-5)


def test_decoder_says_what_follows_the_last_token(tmp_path: Path) -> None:
    model = continuer(tmp_path)
    found = api.predict(CONTINUED, model, top=5)
    states = record(model.spec, model.params, model.encode(CONTINUED).ids).resid[-1]
    (place,) = found.places
    assert (place.kind, place.token) == ("next", 2)
    assert_place(place, expected(model, states[-1:])[0])


def test_every_mask_is_filled_in_its_own_place(tmp_path: Path) -> None:
    model = filler(tmp_path)
    found = api.predict(MASKED, model, top=40)
    assert [(p.kind, p.token) for p in found.places] == [("mask", 3), ("mask", 5)]
    states = record(model.spec, model.params, model.encode(MASKED).ids).resid[-1]
    for place, shares in zip(found.places, expected(model, states[[3, 5]]), strict=True):
        assert_place(place, shares)
        assert sum(c.probability for c in place.candidates) == pytest.approx(1, abs=1e-6)


def test_target_is_continued_after_its_last_word(tmp_path: Path) -> None:
    model = translator(tmp_path)
    found = api.predict(SOURCE, model, target=TARGET, top=4)
    assert found.target is not None
    # the start token, then all words: the end token is what may come next
    assert [t.token for t in found.target.tokens] == ["<pad>", *TARGET.split()]
    ids, source = found.target.ids, model.encode(SOURCE).ids
    states = record(model.spec, model.params, ids, source).resid[-1]
    assert_place(found.places[0], expected(model, states[-1:])[0])
    assert found.notes == ()


def test_without_a_target_the_first_token_is_asked_for(tmp_path: Path) -> None:
    model = translator(tmp_path, "bart")
    found = api.predict(SOURCE, model, top=4)
    assert found.target is not None
    assert (found.target.text, found.target.ids) == ("", [0])
    states = record(model.spec, model.params, [0], model.encode(SOURCE).ids).resid[-1]
    assert_place(found.places[0], expected(model, states)[0])


def test_language_code_at_the_end_of_a_target_starts_it(tmp_path: Path) -> None:
    model = translator(tmp_path, "mbart", "$A </s> en_XX", decoder_start_token_id=None)
    found = api.predict(SOURCE, model, target="der hund")
    assert found.target is not None
    assert [t.token for t in found.target.tokens] == ["en_XX", "der", "hund"]
    with pytest.raises(ModelProblem, match="give the beginning of a target with --target"):
        api.predict(SOURCE, model)


def test_decoder_with_its_own_vocabulary_is_refused(tmp_path: Path) -> None:
    model = translator(tmp_path, "marian-own-vocabulary")
    for target in (None, TARGET):
        with pytest.raises(ModelProblem, match="vocabulary of its own"):
            api.predict(SOURCE, model, target=target)


@pytest.mark.parametrize("case", ["gpt2", "llama", "olmo", "gemma2-capped", "opt-post-norm"])
def test_lens_reads_every_state_through_norm_and_head(case: str, tmp_path: Path) -> None:
    model = continuer(tmp_path, case)
    found = api.predict(CONTINUED, model, top=3, lens=True)
    lens, answer = found.places[0].lens, found.places[0].candidates[0]
    assert lens is not None
    n_layers = model.spec.stack.n_layers
    assert [guess.state for guess in lens] == ["embedding", *(f"L{i}" for i in range(n_layers))]
    states = record(model.spec, model.params, model.encode(CONTINUED).ids).resid[:, -1]
    weight = model.params.get("final_norm.weight")
    early = states[:-1].astype(np.float64)
    if weight is not None or model.spec.stack.plain_norms:
        scale = 1.0 if weight is None else weight + model.spec.stack.norm_offset
        if model.spec.stack.norm == "layer":
            early = early - early.mean(axis=-1, keepdims=True)
        early = early / np.sqrt((early**2).mean(-1, keepdims=True) + model.spec.stack.eps) * scale
        bias = model.params.get("final_norm.bias")
        early = early if bias is None else early + bias
    shares = expected(model, np.concatenate([early, states[-1:]]).astype(np.float32))
    for guess, row in zip(lens, shares, strict=True):
        assert guess.best.id == row.argmax()
        assert guess.best.probability == pytest.approx(row.max(), rel=1e-4)
        assert guess.probability == pytest.approx(row[answer.id], rel=1e-4)
        assert guess.rank == 1 + (row > row[answer.id]).sum()
        assert guess.entropy == pytest.approx(-(row * np.log(row)).sum(), rel=1e-4)
    assert (lens[-1].rank, lens[-1].best) == (1, answer)
    assert "a reading" in found.notes[0]


def test_lens_of_several_masks_keeps_them_apart(tmp_path: Path) -> None:
    model = filler(tmp_path)
    both = api.predict(MASKED, model, lens=True).places
    for place in both:
        assert place.lens is not None
        assert place.lens[-1].best == place.candidates[0]
    states = record(model.spec, model.params, model.encode(MASKED).ids).resid
    for i in range(model.spec.stack.n_layers):
        shares = expected(model, states[i, [3, 5]])
        assert [p.lens[i].best.id for p in both if p.lens] == shares.argmax(-1).tolist()


def test_chosen_layers_are_the_rows_of_the_lens(tmp_path: Path) -> None:
    model = continuer(tmp_path)
    found = api.predict(CONTINUED, model, lens=True, layer=-1)
    assert found.layers == (1,)
    assert [guess.state for guess in found.places[0].lens or ()] == ["L1"]
    with pytest.raises(UsageProblem, match="valid layers are 0 to 1"):
        api.predict(CONTINUED, model, lens=True, layer="2")
    with pytest.raises(UsageProblem, match="only for --lens"):
        api.predict(CONTINUED, model, layer=0)


def test_mask_may_be_spelled_as_other_models_do(tmp_path: Path) -> None:
    model = filler(tmp_path)
    found = api.predict("the dog <mask> a [MASK]", model)
    assert [place.candidates for place in found.places] == [
        place.candidates for place in api.predict(MASKED, model).places
    ]
    assert found.encoded.text == MASKED
    assert found.notes == ("<mask> read as [MASK], the mask of this model",)


def test_mask_as_plain_text_is_no_mask(tmp_path: Path) -> None:
    model = filler(tmp_path)
    with pytest.raises(InputProblem, match="--literal-specials reads \\[MASK\\] as plain text"):
        api.predict(MASKED, model, literal_specials=True)


def test_text_without_a_mask_shows_how_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(InputProblem, match=r'write \[MASK\] .* "The cat sat on the \[MASK\]."'):
        api.predict("the dog", filler(tmp_path))


def test_what_the_tokenizer_puts_at_the_end_is_not_read(tmp_path: Path) -> None:
    plain = api.predict(CONTINUED, continuer(tmp_path / "a"))
    ended = api.predict(CONTINUED, continuer(tmp_path / "b", template="$A [SEP]"))
    assert ended.places == plain.places
    assert ended.notes == ("read without [SEP], which the tokenizer puts at the end",)


def test_space_at_the_end_is_remarked(tmp_path: Path) -> None:
    notes = api.predict(f"{CONTINUED} ", continuer(tmp_path)).notes
    assert ["ends with a space" in note for note in notes] == [True]


def test_padded_rows_count_and_are_shown_by_number(tmp_path: Path) -> None:
    model = continuer(tmp_path, words=20)
    found = api.predict(CONTINUED, model, top=40)
    assert found.vocabulary == 40
    padding = [c for c in found.places[0].candidates if c.token is None]
    assert sorted(c.id for c in padding) == list(range(20, 40))
    assert padding[0].label.text == f"#{padding[0].id}"


def test_more_candidates_than_tokens_are_all_tokens(tmp_path: Path) -> None:
    found = api.predict(CONTINUED, continuer(tmp_path), top=1000)
    assert len(found.places[0].candidates) == 40
    with pytest.raises(UsageProblem, match="--top 0"):
        api.predict(CONTINUED, continuer(tmp_path), top=0)


def test_model_without_a_head_is_told_so(minilm: Model) -> None:
    with pytest.raises(ModelProblem, match="minilm: this checkpoint has no output head"):
        api.predict("the [MASK]", minilm)


def test_target_for_a_model_with_one_stack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="no encoder-decoder"):
        api.predict(CONTINUED, continuer(tmp_path), target=TARGET)


def test_tokenizer_without_a_mask_is_refused(tmp_path: Path) -> None:
    from attncli.model.load import load
    from tests.parity.heads import read_golden_head
    from tests.toys import word_tokenizer

    golden = read_golden_head("bert")
    folder = write_folder(tmp_path, golden.config, golden.tensors, word_tokenizer())
    with pytest.raises(ModelProblem, match="no one token for them"):
        api.predict("the [MASK]", load(str(folder)))


def test_tokenizer_of_the_helper_knows_its_mask() -> None:
    from attncli.tokenize import TextTokenizer

    assert TextTokenizer(tokenizer()).mask == "[MASK]"


def test_masks_of_both_texts_of_a_pair_are_filled(tmp_path: Path) -> None:
    model = pair_filler(tmp_path)
    found = api.predict("the dog [MASK]", model, pair="a cat [MASK]", top=3)
    assert [place.token for place in found.places] == [3, 7]
    # the second text is read with its own types, and with the first in front of it
    alone = api.predict("a cat [MASK]", model, top=3)
    chances = [[c.probability for c in place.candidates] for place in found.places]
    assert chances[1] != pytest.approx([c.probability for c in alone.places[0].candidates])
    with pytest.raises(UsageProblem, match="--pair"):
        api.predict(CONTINUED, continuer(tmp_path / "c"), pair="x")
