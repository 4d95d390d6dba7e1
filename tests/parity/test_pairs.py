"""Pairs as transformers reads them: its tokenizer of a family, its model, the same two texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli.analyses.sides import reading_job
from attncli.model.load import Model, load
from tests.parity.cases import CASES, Case
from tests.parity.comparison import GOLDEN, TOLERANCE, assert_same
from tests.real import PAIR, checkpoint
from tests.toys import Recorder

TEXTS = ("the dogs see", "a cat sees the dogs")
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def run_pair(model: Model, texts: tuple[str, str]) -> tuple[list[int], list[int], Recorder]:
    """Return ids, types and numbers of a pair, by the way that every analysis takes."""
    encoded = model.encode(*texts)
    recorder = Recorder(model.spec, len(encoded.tokens))
    model.run([reading_job(model.spec, encoded, [recorder])])
    return encoded.ids, encoded.types, recorder


def word_pieces(specials: tuple[str, ...] = SPECIALS) -> dict[str, Any]:
    pieces = [*specials, "the", "dog", "##s", "see", "##es", "a", "cat"]
    return {"vocab": {piece: i for i, piece in enumerate(pieces)}}


def byte_pairs(specials: tuple[str, ...]) -> dict[str, Any]:
    pieces = [*specials, *sorted({*"thedogsacat", "\u0120"})]
    return {"vocab": {piece: i for i, piece in enumerate(pieces)}, "merges": []}


def unigrams(specials: tuple[str, ...]) -> dict[str, Any]:
    pieces = [*specials, "▁the", "▁dog", "s", "▁see", "es", "▁a", "▁cat"]
    return {"vocab": [(piece, -float(i)) for i, piece in enumerate(pieces)]}


ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
TOKENIZERS = {
    "bert": ("BertTokenizer", word_pieces()),
    "distilbert": ("BertTokenizer", word_pieces()),
    "electra": ("BertTokenizer", word_pieces()),
    "mpnet": ("MPNetTokenizer", word_pieces(("<s>", "<pad>", "</s>", "[UNK]", "<mask>"))),
    "albert": ("AlbertTokenizer", unigrams(("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"))),
    "roberta": ("RobertaTokenizer", byte_pairs(ROBERTA)),
    "xlm-roberta": ("XLMRobertaTokenizer", unigrams(("<s>", "<pad>", "</s>", "<unk>", "<mask>"))),
    "deberta": ("DebertaTokenizer", byte_pairs(SPECIALS)),
    "deberta-v2": ("DebertaV2Tokenizer", unigrams(SPECIALS)),
    "deberta-v2-pair": ("DebertaV2Tokenizer", unigrams(SPECIALS)),
}
MORE = {"max_position_embeddings": 48}


@pytest.mark.reference
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_pair_is_joined_and_read_as_by_transformers(
    name: str, engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tests.parity import reference

    case = next(case for case in CASES if case.name == name)
    theirs = reference.build(Case(name, case.model_type, {**case.config, **MORE}), seed=2)
    class_name, vocabulary = TOKENIZERS[name]
    tokenizer = getattr(transformers, class_name)(**vocabulary)
    reference.write_checkpoint(theirs, tmp_path)
    tokenizer.save_pretrained(tmp_path)
    # the class of ALBERT gives types only when asked; its models were trained with them
    inputs = tokenizer(*TEXTS, **({"return_token_type_ids": True} if name == "albert" else {}))
    types = inputs.get("token_type_ids", [])
    takes_types = name in ("bert", "electra", "albert", "deberta-v2-pair")
    expected = reference.run(theirs, inputs["input_ids"], types=types if takes_types else [])
    model = load(str(tmp_path), engine=engine)
    ids, own_types, found = run_pair_on(model, engine)
    assert ids == inputs["input_ids"]
    assert own_types == (types if takes_types else [0] * len(ids))
    assert takes_types == (1 in own_types)
    if engine == "numpy":
        assert_same(name, expected, found)
    else:
        np.testing.assert_allclose(found, expected.weights, atol=TOLERANCE)


def run_pair_on(model: Model, engine: str) -> tuple[list[int], list[int], Any]:
    """Return ids, types and, of the engine torch, which shows less, the weights alone."""
    if engine == "numpy":
        return run_pair(model, TEXTS)
    from attncli.analyses.reduction import HeadMatrices
    from attncli.selection import Heads

    encoded = model.encode(*TEXTS)
    n, stack = len(encoded.tokens), model.spec.stack
    matrices = HeadMatrices(Heads((*range(stack.n_layers),), (*range(stack.n_heads),)), n, n)
    model.run([reading_job(model.spec, encoded, [matrices])])
    return encoded.ids, encoded.types, matrices.weights


def _frozen() -> dict[str, Any]:
    with np.load(GOLDEN / "minilm-pair.npz") as arrays:
        return dict(arrays)


def test_bundled_model_reads_a_pair_as_its_original_within_the_packing_error(minilm: Model) -> None:
    frozen = _frozen()
    ids, types, found = run_pair(minilm, PAIR)
    assert (ids, types) == (frozen["ids"].tolist(), frozen["types"].tolist())
    error = np.abs(found.weights - frozen["weights"])
    assert error.max() <= 0.03
    assert error.mean() <= 0.001
    # without the types of the second text the error is far larger
    encoded = minilm.encode(" [SEP] ".join(PAIR))
    untyped = Recorder(minilm.spec, len(ids))
    minilm.run([reading_job(minilm.spec, encoded, [untyped])])
    assert encoded.ids == ids
    assert np.abs(untyped.weights - frozen["weights"]).max() > 0.1


@pytest.mark.real
def test_original_minilm_reads_a_pair_as_transformers() -> None:
    frozen, model = _frozen(), load(str(checkpoint("minilm")))
    ids, types, found = run_pair(model, PAIR)
    assert (ids, types) == (frozen["ids"].tolist(), frozen["types"].tolist())
    assert np.abs(found.weights - frozen["weights"]).max() <= TOLERANCE
    assert np.abs(found.resid[..., :64] - frozen["resid"]).max() <= TOLERANCE
