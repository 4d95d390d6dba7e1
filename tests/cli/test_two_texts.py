"""--target and --attention on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.seq2seq import SOURCE, TARGET, seq2seq


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("seq2seq")
    seq2seq(made)
    return str(made)


def test_target_reads_the_source(attn, folder: str) -> None:
    arguments = ["inspect", "-m", folder, SOURCE, "--target", TARGET, "-H", "1.0"]
    document = attn(*arguments, "--json").document
    assert document["selection"]["attention"] == "cross"
    assert [t["token"] for t in document["target"]["tokens"]] == ["<pad>", *TARGET.split()]
    assert (len(document["weights"]), len(document["weights"][0])) == (5, 6)
    shown = " ".join(attn(*arguments).out.split())
    assert "rows query in the target text, columns key in the source text" in shown


def test_attention_within_the_target_can_be_asked_for(attn, folder: str) -> None:
    arguments = ["inspect", "-m", folder, SOURCE, "--target", TARGET, "--attention=self"]
    document = attn(*arguments, "--json").document
    assert document["selection"]["attention"] == "self"
    assert len(document["weights"][0]) == 5


def test_every_line_of_a_pipe_is_a_source_of_the_target(attn, folder: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("the dog\na cat runs\n", "utf-8")
    arguments = ["inspect", "-m", folder, "--file", str(lines), "--target", TARGET]
    documents = attn(*arguments, "--json").documents
    assert [len(document["keys"]) for document in documents] == [3, 4]
    assert [len(document["queries"]) for document in documents] == [5, 5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", TARGET], "no encoder-decoder"),
        (["--attention", "cross"], "one stack"),
        (["--attention", "sideways"], "--attention"),
    ],
)
def test_what_a_model_cannot_do_is_one_line(attn, options: list[str], message: str) -> None:
    ran = attn("inspect", SOURCE, *options)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_decoder_without_a_text_asks_for_one(attn, folder: str) -> None:
    ran = attn("inspect", "-m", folder, SOURCE, "--attention", "cross")
    assert ran.code == 2
    assert "add --target TEXT" in ran.err
