"""`--pair`: two texts that an encoder reads as one sequence."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers.processors import TemplateProcessing

from attncli import api
from attncli.model.load import Model
from tests.seq2seq import seq2seq
from tests.toys import random_array, tiny_bert, word_tokenizer, write_folder

FIRST, SECOND = "the cat sees a dog", "😀 a cat, unbelievable"


def test_json_says_which_text_each_token_and_word_is_of(attn) -> None:
    document = attn("tokens", FIRST, "--pair", SECOND, "--json").document
    assert (document["text"], document["pair"]) == (FIRST, SECOND)
    texts = [document["text"], document["pair"]]
    for token in document["tokens"]:
        if token["part"] is not None:
            assert token["text"] == texts[token["part"]][token["start"] : token["end"]]
    for word in document["words"]:
        assert word["text"] == texts[word["part"]][word["start"] : word["end"]]
    assert {t["type"] for t in document["tokens"] if t["part"] == 1} == {1}


@pytest.mark.parametrize("command", ["tokens", "inspect"])
def test_documents_of_one_text_have_no_field_of_pairs(attn, command: str) -> None:
    document = attn(command, FIRST, "--json").document
    assert "pair" not in document
    assert {*document["tokens"][0]} == {
        *("index", "id", "token", "text", "start", "end", "special", "word")
    }


def test_row_of_a_word_of_the_second_text(attn) -> None:
    document = attn("inspect", FIRST, "--pair", SECOND, "-q", "cat#2", "--json").document
    (query,) = document["queries"]
    token = document["tokens"][query]
    assert (token["text"], token["part"]) == ("cat", 1)
    shown = attn("inspect", FIRST, "--pair", SECOND, "-q", "cat#2").out
    assert "from “cat²”" in shown
    assert "note: ² marks tokens of the second text" in shown


def test_merged_words_and_folded_specials_add_up(attn) -> None:
    arguments = ("inspect", FIRST, "--pair", SECOND, "--words", "--special", "fold", "--json")
    document = attn(*arguments).document
    assert [unit["text"] for unit in document["units"]] == [
        *("the", "cat", "sees", "a", "dog", "😀", "a", "cat", ",", "unbelievable"),
        "[specials]",
    ]
    np.testing.assert_allclose(np.sum(document["weights"], axis=1), 1, atol=1e-5)


def test_csv_has_the_text_of_query_and_key(attn) -> None:
    out = attn("inspect", FIRST, "--pair", SECOND, "-f", "csv").out
    rows = list(csv.DictReader(io.StringIO(out)))
    named = {(row["query_text"], row["query_part"]) for row in rows}
    assert {("cat", "0"), ("cat", "1"), ("[SEP]", "")} <= named
    assert {(row["key_text"], row["key_part"]) for row in rows} == named
    tokens = list(csv.DictReader(io.StringIO(attn("tokens", "a", "--pair", "b", "-f", "csv").out)))
    assert [(t["part"], t["type"]) for t in tokens] == [
        *(("", "0"), ("0", "0"), ("", "0")),
        *(("1", "1"), ("", "1")),
    ]


@pytest.mark.parametrize("command", ["tokens", "inspect"])
def test_npz_has_the_text_and_type_of_each_token(attn, command: str, tmp_path: Path) -> None:
    path = tmp_path / "pair.npz"
    attn(command, "a dog", "--pair", "a cat", "-f", "npz", "-o", str(path))
    with np.load(path) as arrays:
        assert arrays["parts"].tolist() == [-1, 0, 0, -1, 1, 1, -1]
        assert arrays["types"].tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_pair_is_the_second_text_of_every_line(attn) -> None:
    ran = attn("inspect", "--pair", "a cat", "--json", stdin=b"the dog\n\nthe fox runs\n")
    assert [(d["line"], d["text"], d["pair"]) for d in ran.documents] == [
        (1, "the dog", "a cat"),
        (3, "the fox runs", "a cat"),
    ]


@pytest.mark.parametrize("command", ["tokens", "inspect"])
def test_models_that_read_one_text_refuse_a_second(attn, command: str, tmp_path: Path) -> None:
    seq2seq(tmp_path / "seq2seq")
    models = {
        "random:layers=2,causal": "a decoder",
        str(tmp_path / "seq2seq"): "an encoder-decoder",
    }
    for model, kind in models.items():
        ran = attn(command, "the dog", "--pair", "a cat", "-m", model)
        assert (ran.code, ran.out) == (2, "")
        assert f"is {kind}, it reads one text" in ran.err
        assert ran.err.count("\n") == 1


def test_toy_reads_a_pair_without_types(attn) -> None:
    document = attn("inspect", "a dog", "--pair", "a cat", "-m", "random:layers=1", "--json")
    assert {token["type"] for token in document.document["tokens"]} == {0}


@pytest.mark.parametrize("text", ["", "  "])
def test_empty_second_text_is_refused(attn, text: str) -> None:
    ran = attn("inspect", "a dog", "--pair", text)
    assert ran.code == 1
    assert "The second text (--pair) is" in ran.err


def test_pair_longer_than_the_positions_is_refused_with_its_count(attn) -> None:
    ran = attn("inspect", "a " * 300, "--pair", "b " * 210)
    assert ran.code == 1
    assert "The two texts have 513 tokens together, minilm takes at most 512" in ran.err
    assert attn("tokens", "a " * 300, "--pair", "b " * 209).code == 0


def load_bert(folder: Path, tokenizer: Any = None, rows: int = 2) -> Model:
    """Return a tiny BERT whose table of token types has this many rows."""
    config, tensors = tiny_bert()
    name = "embeddings.token_type_embeddings.weight"
    tensors[name] = random_array(np.random.default_rng(3), name, (rows, 12))
    return api.load(
        str(write_folder(folder, config | {"type_vocab_size": rows}, tensors, tokenizer))
    )


def test_type_without_a_row_is_refused_by_name(attn, tmp_path: Path) -> None:
    load_bert(tmp_path / "one", rows=1)
    ran = attn("inspect", "the dog", "--pair", "a cat", "-m", str(tmp_path / "one"))
    assert ran.code == 1
    assert "token type 1, the model's table has 1 row" in ran.err
    assert attn("inspect", "the dog", "-m", str(tmp_path / "one")).code == 0


def test_tokenizer_that_does_not_say_how_texts_are_joined_is_refused(attn, tmp_path: Path) -> None:
    tokenizer = word_tokenizer()
    tokenizer.post_processor = TemplateProcessing(
        "[CLS] $A [SEP]", None, [("[CLS]", 1), ("[SEP]", 2)]
    )
    load_bert(tmp_path / "single", tokenizer)
    ran = attn("inspect", "the dog", "--pair", "a cat", "-m", str(tmp_path / "single"))
    assert ran.code == 1
    assert "does not say how two texts are joined" in ran.err


def test_pair_reads_other_types_than_one_text_of_the_same_tokens(tmp_path: Path) -> None:
    model = load_bert(tmp_path / "two")
    pair = api.inspect("the dog", model, pair="a cat", head="0.0")
    one = api.inspect("the dog [SEP] a cat", model, head="0.0")
    assert pair.encoded.ids == one.encoded.ids
    assert np.abs(pair.weights - one.weights).max() > 1e-3
