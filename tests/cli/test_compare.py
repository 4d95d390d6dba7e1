"""attn compare: one word in several contexts."""

from __future__ import annotations

from pathlib import Path

import pytest

STUCK = "We were stuck in a traffic jam for hours"
TOAST = "I love my toast with strawberry jam"
JAM = ["compare", STUCK, TOAST, "--word", "jam"]


def test_jam_starts_as_one_vector_and_moves_apart(attn) -> None:
    record = attn(*JAM, "--to", "traffic", "--to", "food", "--json").document
    (pair,) = record["pairs"]
    assert pair["cosine"][0] == pytest.approx(1, abs=1e-5)
    assert pair["cosine"][-1] == pytest.approx(0.665, abs=0.03)
    assert record["layers"] == ["embedding", "L0", "L1", "L2", "L3", "L4", "L5"]
    last = {a["anchor"]: [row[-1] for row in a["cosine"]] for a in record["anchors"]}
    assert last["traffic"] == pytest.approx([0.267, 0.021], abs=0.03)
    assert last["food"] == pytest.approx([0.023, 0.173], abs=0.03)
    places = [(o["text"], o["word"], o["start"], o["end"]) for o in record["occurrences"]]
    assert places == [(0, "jam", 27, 30), (1, "jam", 32, 35)]


def test_table_names_the_texts_the_baseline_and_what_changed(attn) -> None:
    text = attn(*JAM).out
    assert "[jam]" in text
    for row in ("cosine", "random", "adjusted", "top dim"):
        assert row in text
    assert "what “jam” reads from each word" in text


def test_anchor_in_a_sentence_is_read_in_that_sentence(attn) -> None:
    ran = attn(*JAM, "--to", "jam", "--to", f"jam: {TOAST}", "--json")
    alone, within = (anchor["cosine"] for anchor in ran.document["anchors"])
    assert within[1] == pytest.approx([1.0] * 7, abs=1e-5)
    assert alone[1][-1] < 0.99


def test_heads_and_measure_choose_what_changed(attn) -> None:
    record = attn(*JAM, "-H", "0.4", "--by", "weight", "--json").document
    assert (record["selection"]["layers"], record["selection"]["heads"]) == ([0], [4])
    changes = [abs(key["weight_change"]) for key in record["changed"][0]["keys"]]
    assert changes == sorted(changes, reverse=True)
    assert record["changed"][0]["keys"][0]["a"]["text"] == "traffic"


def test_lines_of_a_file_and_of_a_pipe_are_the_texts(attn, tmp_path: Path) -> None:
    lines = f"{STUCK}\n\n{TOAST}\n"
    path = tmp_path / "jam.txt"
    path.write_text(lines)
    from_arguments = attn(*JAM, "--json").document
    assert attn("compare", "-w", "jam", "--file", str(path), "--json").document == from_arguments
    assert attn("compare", "-w", "jam", "--json", stdin=lines.encode()).document == from_arguments


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([STUCK, TOAST, "--word", "bread"], 1, "--word bread: not in the 2 texts"),
        ([STUCK, "--word", "jam"], 1, "only once in the text"),
        (["one two", "three four"], 1, "share no word"),
        ([STUCK, "--word", "jam", "--to", "jam: I like bread"], 2, "does not hold the word 'jam'"),
        ([STUCK, TOAST, "-w", "jam", "--to", ""], 1, "empty"),
    ],
)
def test_what_cannot_be_compared_is_one_line(attn, arguments, code, said) -> None:
    ran = attn("compare", *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
    assert said in ran.err


def test_control_strings_can_be_plain_in_compared_texts(attn) -> None:
    ran = attn("compare", "jam [SEP]", "jam", "--literal-specials", "--json")
    assert not any(token["special"] for token in ran.document["texts"][0]["tokens"][1:-1])
