"""--target and --attention on the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from attncli.schemas import read_schema
from tests.seq2seq import SOURCE, TARGET, seq2seq

ROOT = Path(__file__).parents[1]


def attn(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user would."""
    return subprocess.run(
        [sys.executable, "-m", "attncli", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("seq2seq")
    seq2seq(made)
    return str(made)


def test_target_reads_the_source(folder: str) -> None:
    arguments = ["inspect", "-m", folder, SOURCE, "--target", TARGET, "-H", "1.0"]
    done = attn(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    Draft202012Validator(json.loads(read_schema("inspect"))).validate(document)
    assert document["selection"]["attention"] == "cross"
    assert [t["token"] for t in document["target"]["tokens"]] == ["<pad>", *TARGET.split()]
    assert (len(document["weights"]), len(document["weights"][0])) == (5, 6)
    shown = " ".join(attn(*arguments).stdout.split())
    assert "rows query in the target text, columns key in the source text" in shown


def test_attention_within_the_target_can_be_asked_for(folder: str) -> None:
    done = attn("inspect", "-m", folder, SOURCE, "--target", TARGET, "--attention=self", "--json")
    document = json.loads(done.stdout)
    assert document["selection"]["attention"] == "self"
    assert len(document["weights"][0]) == 5


def test_every_line_of_a_pipe_is_a_source_of_the_target(folder: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("the dog\na cat runs\n", "utf-8")
    done = attn("inspect", "-m", folder, "--file", str(lines), "--target", TARGET, "--json")
    documents = [json.loads(line) for line in done.stdout.splitlines()]
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
def test_what_a_model_cannot_do_is_one_line(options: list[str], message: str) -> None:
    done = attn("inspect", SOURCE, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_decoder_without_a_text_asks_for_one(folder: str) -> None:
    done = attn("inspect", "-m", folder, SOURCE, "--attention", "cross")
    assert done.returncode == 2
    assert "add --target TEXT" in done.stderr
