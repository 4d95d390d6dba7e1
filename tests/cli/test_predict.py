"""attn predict on the command line."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.predictors import CONTINUED, MASKED, continuer, filler, translator
from tests.seq2seq import SOURCE, TARGET


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("decoder")
    continuer(made)
    return str(made)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("encoder")
    filler(made)
    return str(made)


def test_next_tokens_are_a_table_and_a_document(attn, decoder: str) -> None:
    ran = attn("predict", "-m", decoder, CONTINUED, "--top", "3")
    assert (ran.code, ran.err) == (0, "")
    assert "next token, after the dog sees · entropy" in ran.out
    document = attn("predict", "-m", decoder, CONTINUED, "--top", "3", "--json").document
    (prediction,) = document["predictions"]
    assert (prediction["place"], prediction["at"], prediction["lens"]) == ("next", 2, None)
    assert len(prediction["candidates"]) == 3
    first = prediction["candidates"][0]
    assert f"{first['probability']:.3f}".removeprefix("0") in ran.out
    assert first["token"] in ran.out


def test_each_mask_has_its_table(attn, encoder: str) -> None:
    ran = attn("predict", "-m", encoder, MASKED)
    assert ran.code == 0
    assert "[MASK] at token 3, after [CLS] the dog · entropy" in ran.out
    assert "[MASK] at token 5, after dog [MASK] a · entropy" in ran.out
    assert "note" not in ran.out


def test_lens_has_a_row_for_every_state(attn, encoder: str) -> None:
    arguments = ["predict", "-m", encoder, MASKED, "--lens"]
    document = attn(*arguments, "--json").document
    for prediction in document["predictions"]:
        assert [guess["state"] for guess in prediction["lens"]] == ["embedding", "L0", "L1"]
        last, answer = prediction["lens"][-1], prediction["candidates"][0]
        assert (last["best"], last["answer_rank"]) == (answer, 1)
        assert last["answer_probability"] == answer["probability"]
    assert document["selection"] == {"top": 10, "lens": True, "layers": [0, 1]}
    assert "a reading, not a step" in attn(*arguments).out


def test_target_is_continued(attn, tmp_path: Path) -> None:
    translator(tmp_path)
    arguments = ["predict", "-m", str(tmp_path), SOURCE, "--target", TARGET]
    document = attn(*arguments, "--json").document
    assert [t["token"] for t in document["target"]["tokens"]] == ["<pad>", *TARGET.split()]
    assert document["model"]["stack"] == "decoder"
    assert "next token of the target, after hund sieht eine" in attn(*arguments).out
    first = attn(*arguments[:-2], "--json").document
    assert first["target"]["text"] == ""
    assert [t["token"] for t in first["target"]["tokens"]] == ["<pad>"]


def test_every_line_of_a_pipe_is_a_text_and_a_bad_one_does_not_stop_it(attn, encoder: str) -> None:
    lines = b"the [MASK] runs\nthe dog\na [MASK]\n"
    ran = attn("predict", "-m", encoder, "--json", "--top", "2", stdin=lines)
    assert ran.code == 1
    first, second, third = ran.documents
    assert (first["line"], third["line"]) == (1, 3)
    assert "write [MASK]" in second["error"]


def test_csv_has_candidates_and_guesses(attn, decoder: str) -> None:
    ran = attn("predict", "-m", decoder, CONTINUED, "-f", "csv", "--top", "2", "--lens")
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert [row["kind"] for row in rows] == ["candidate"] * 2 + ["lens"] * 3
    assert rows[0]["probability"] == rows[-1]["answer_probability"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-m", "minilm", "the [MASK]"], 1, "no output head"),
        (["-m", "random:layers=2,causal", "the dog"], 1, "no output head"),
        (["the dog", "--layer", "1"], 1, "no output head"),
    ],
)
def test_what_cannot_be_predicted_is_one_line(
    attn, arguments: list[str], code: int, message: str
) -> None:
    ran = attn("predict", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_damaged_head_stops_predict_and_nothing_else(attn, tmp_path: Path) -> None:
    from tests.parity.heads import read_golden_head
    from tests.predictors import tokenizer
    from tests.toys import write_folder

    golden = read_golden_head("bert")
    del golden.tensors["cls.predictions.transform.dense.bias"]
    folder = write_folder(tmp_path, golden.config, golden.tensors, tokenizer())
    assert attn("inspect", "-m", str(folder), "the dog").code == 0
    ran = attn("predict", "-m", str(folder), MASKED)
    assert ran.code == 1
    assert "cls.predictions.transform.dense.bias" in ran.err
