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
        ([STUCK, TOAST, "-w", "jam", "--state", "L6"], 2, "expected embedding, L0 to L5"),
        ([STUCK, TOAST, "-w", "jam", "--neighbours", "0"], 2, "0 is not in the range"),
    ],
)
def test_what_cannot_be_compared_is_one_line(attn, arguments, code, said) -> None:
    ran = attn("compare", *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
    assert said in ran.err


def test_word_over_lines_of_a_file_has_a_self_similarity_and_a_matrix(attn, tmp_path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text(f"{STUCK}\n{TOAST}\nJam again\n")
    arguments = ["compare", "--file", str(path), "--word", "jam", "--state", "L3"]
    record = attn(*arguments, "--json").document
    (word,) = record["self_similarity"]
    means = [sum(pair["cosine"][i] for pair in record["pairs"]) / 3 for i in range(7)]
    assert word["cosine"] == pytest.approx(means, abs=1e-5)
    assert record["similarity"]["state"] == "L3"
    assert record["similarity"]["matrix"][0][1] == pytest.approx(
        record["pairs"][0]["cosine"][4], abs=1e-5
    )
    text = attn(*arguments).out
    assert "self-similarity of a word: cosine, the mean over all pairs of its places" in text
    assert "similarity: cosine at L3, of unrelated words .20" in text


def test_neighbours_tell_the_two_meanings_apart(attn) -> None:
    ran = attn(*JAM, "--neighbours", "8", "--json")
    stuck, toast = ran.document["neighbours"]
    assert len(stuck) == len(toast) == 7
    assert {len(state) for state in stuck + toast} == {8}
    assert [stuck[0][0]["token"], toast[0][0]["token"]] == ["jam", "jam"]
    late = [{near["token"] for near in states[4]} for states in (stuck, toast)]
    assert "jelly" in late[1] - late[0]
    assert "tokens of the vocabulary nearest" in attn(*JAM, "--neighbours", "2").out


def test_centred_cosines_are_named_in_every_title(attn) -> None:
    ran = attn(*JAM, "--centred", "--to", "food")
    assert "mean-centred cosine of the word's two states" in ran.out
    assert "mean-centred cosine to the anchors" in ran.out
    record = attn(*JAM, "--centred", "--json").document
    assert record["selection"]["centred"] is True
    assert max(map(abs, record["baseline"])) < 0.1


def test_csv_has_every_kind_of_number(attn) -> None:
    out = attn("compare", STUCK, TOAST, "jam", "-w", "jam", "--neighbours", "1", "-f", "csv").out
    kinds = [line.split(",")[1] for line in out.splitlines()[1:]]
    # three pairs and places, seven states
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "pair": 21,
        "self-similarity": 7,
        "similarity": 3,
        "neighbour": 21,
    }


def test_control_strings_can_be_plain_in_compared_texts(attn) -> None:
    ran = attn("compare", "jam [SEP]", "jam", "--literal-specials", "--json")
    assert not any(token["special"] for token in ran.document["texts"][0]["tokens"][1:-1])
