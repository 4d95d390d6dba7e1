"""attn tokens: inputs of every kind, one document a text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def test_accented_word_keeps_its_characters_and_span(attn) -> None:
    record = attn("tokens", "The unbelievable café", "--json").document
    token = record["tokens"][3]
    assert (token["token"], token["text"], token["start"], token["end"]) == ("cafe", "café", 17, 21)
    assert record["words"][token["word"]]["text"] == "café"


def test_table_counts_tokens_and_words(attn) -> None:
    assert attn("tokens", "jam").out.splitlines()[0].endswith("3 tokens, 1 word")
    assert attn("tokens", "I like").out.splitlines()[0].endswith("4 tokens, 2 words")


def test_lines_keep_their_numbers_and_a_bad_one_does_not_stop_the_rest(attn) -> None:
    data = "\ufeffone\r\n\r\nthree\n".encode() + b"b\xe9d\n" + b"five"
    ran = attn("tokens", "--json", stdin=data)
    assert ran.code == 1
    assert [(d["line"], d.get("text")) for d in ran.documents] == [
        (1, "one"),
        (3, "three"),
        (4, None),
        (5, "five"),
    ]
    assert "not UTF-8" in ran.documents[2]["error"]
    assert ran.err.count("\n") == 1
    assert ran.err.startswith("attn: line 4")


def test_line_that_the_model_cannot_take_fails_alone(attn, bert_folder: Path) -> None:
    lines = b"the dog\n" + b"the dog sees a cat and runs and runs\n" + b"a cat\n"
    ran = attn("tokens", "-m", str(bert_folder), "--json", stdin=lines)
    assert ran.code == 1
    assert [d["line"] for d in ran.documents if "error" in d] == [2]
    assert "takes at most 9" in ran.documents[1]["error"]


def test_dash_takes_all_of_standard_input_as_one_text(attn) -> None:
    record = attn("tokens", "-", "--json", stdin="\ufeffone\r\ntwo\r\n".encode()).document
    assert record["text"] == "one\r\ntwo"
    assert "line" not in record


def test_text_beats_a_pipe_and_file_beats_it_too(attn, tmp_path: Path) -> None:
    path = tmp_path / "texts"
    path.write_text("from file\n")
    assert attn("tokens", "typed", "--json", stdin=b"piped\n").document["text"] == "typed"
    ran = attn("tokens", "--file", str(path), "--json", stdin=b"piped\n")
    assert (ran.document["text"], ran.document["line"]) == ("from file", 1)


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "said"),
    [
        ([], None, 2, "No text"),
        ([], b"", 1, "standard input: no text in it"),
        ([], b"\n \r\n", 1, "standard input: no text in it"),
        ([""], None, 1, "The text is empty"),
        (["  \n"], None, 1, "only white space"),
        (["-"], b"", 1, "The text is empty"),
        (["-"], b"ab\xff", 1, "byte 2 is not UTF-8"),
        (["--file", os.devnull], None, 1, "no text in it"),
        (["--file", "absent.txt"], None, 1, "absent.txt: cannot be read"),
        (["typed", "--file", os.devnull], None, 2, "not both"),
        (["lone \udcff surrogate"], None, 1, "not valid Unicode"),
    ],
)
def test_input_without_a_text_is_one_line(attn, arguments, stdin, code, said) -> None:
    ran = attn("tokens", *arguments, stdin=stdin)
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
    assert said in ran.err


def test_text_that_begins_with_a_dash_goes_after_two(attn) -> None:
    assert attn("tokens", "--json", "--", "-5 degrees").document["text"] == "-5 degrees"
    ran = attn("tokens", "-5 degrees")
    assert ran.code == 2
    assert "goes after --" in ran.err


def test_csv_of_lines_counts_texts_and_keeps_the_failed_ones_number(attn) -> None:
    ran = attn("tokens", "-f", "csv", stdin=b"\xff\none\n")
    lines = ran.out.splitlines()
    assert lines[0].startswith("text,index,id,token")
    assert {line.split(",")[0] for line in lines[1:]} == {"1"}


def test_file_of_output_holds_what_standard_output_would(attn, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    ran = attn("tokens", "I like jam", "--json", "-o", str(path))
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert path.read_text() == attn("tokens", "I like jam", "--json").out


def test_failed_run_leaves_an_older_output_file_alone(attn, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("older")
    assert attn("tokens", "", "--json", "-o", str(path)).code == 1
    assert path.read_text() == "older"
