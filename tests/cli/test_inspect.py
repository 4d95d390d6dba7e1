"""attn inspect: the numbers of the mission, and every option."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pytest

DIFFICULT = "The student did not answer the question because it was too difficult"
STUCK = "We were stuck in a traffic jam for hours"


def by_text(record: dict, row: list[float]) -> dict[str, float]:
    """Name the numbers of a row by the words of its keys."""
    tokens = record["tokens"]
    return {tokens[key]["token"]: value for key, value in zip(record["keys"], row, strict=True)}


def test_it_links_to_question_and_not_to_student_in_layer_3_head_1(attn) -> None:
    record = attn("inspect", DIFFICULT, "-H", "3.1", "--query", "it", "--json").document
    weights, scores = record["weights"][0], record["scores"][0]
    named = by_text(record, weights)
    assert named["question"] == pytest.approx(0.24, abs=0.03)
    assert named["student"] == pytest.approx(0.02, abs=0.03)
    assert sum(weights) == pytest.approx(1, abs=1e-5)
    # softmax: every score is the logarithm of its weight plus one constant of the row
    constants = [s - math.log(w) for s, w in zip(scores, weights, strict=True)]
    assert max(constants) - min(constants) < 1e-3


def test_every_row_of_every_head_sums_to_one(attn, tmp_path: Path) -> None:
    path = tmp_path / "heads.npz"
    assert attn("inspect", DIFFICULT, "-f", "npz", "-o", str(path)).code == 0
    with np.load(path) as arrays:
        for name in ("weights_by_head", "contributions_by_head", "weights", "contributions"):
            np.testing.assert_allclose(arrays[name].sum(axis=-1), 1, atol=1e-5, err_msg=name)


SKETCH = {
    # DESIGN, section 2: by contribution, largest weight, sinks, telling head
    "stuck": ([("stuck", 0.15), ("jam", 0.14), ("traffic", 0.12)], ("jam", 0.06), 0.60),
    "traffic": ([("jam", 0.25), ("traffic", 0.15), ("stuck", 0.11)], ("jam", 0.10), 0.63),
    "jam": ([("traffic", 0.24), ("jam", 0.16), ("stuck", 0.10)], ("traffic", 0.10), 0.63),
    "hours": ([("for", 0.18), ("hours", 0.14), ("stuck", 0.13)], ("for", 0.09), 0.56),
}
TELLING = {
    "stuck": (0, 4, "traffic", 0.64),
    "traffic": (5, 9, "stuck", 0.45),
    "jam": (0, 4, "traffic", 0.80),
    "hours": (5, 9, "stuck", 0.70),
}


def test_overview_agrees_with_the_published_table(attn) -> None:
    record = attn("inspect", STUCK, "--json").document
    assert record["selection"]["layers"] == list(range(6))
    rows = {row["text"]: row for row in record["top"]}
    for word, (contributions, (key, weight), sinks) in SKETCH.items():
        found = {k["text"]: k["contribution"] for k in rows[word]["keys"]}
        assert found == pytest.approx(dict(contributions), abs=0.03)
        assert next(iter(found)) == contributions[0][0]
        row = by_text(record, record["weights"][rows[word]["query"]])
        assert row[key] == pytest.approx(weight, abs=0.03)
        assert rows[word]["special_weight"] == pytest.approx(sinks, abs=0.03)
        head = rows[word]["telling"]
        assert (head["layer"], head["head"], head["text"]) == TELLING[word][:3]
        assert head["weight"] == pytest.approx(TELLING[word][3], abs=0.03)


def test_table_shows_scores_and_weights_of_one_head_with_their_sums_said(attn) -> None:
    text = attn("inspect", "I like jam", "-H", "3.1").out
    assert "scores: scaled q·k, before the softmax" in text
    assert "rows sum to 1" in text
    assert "L3 H1" in text.splitlines()[0]


@pytest.mark.parametrize(
    ("options", "layers", "heads"),
    [
        (["-l", "-1"], [5], list(range(12))),
        (["-H", "0-2"], list(range(6)), [0, 1, 2]),
        (["-l", "0,-2", "-H", "-1"], [0, 4], [11]),
        (["-H", "-1.-12"], [5], [0]),
        (["-l", "3", "-H", "3.1"], [3], [1]),
        (["-l", "all", "-H", "all"], list(range(6)), list(range(12))),
    ],
)
def test_layers_and_heads_are_echoed_resolved(attn, options, layers, heads) -> None:
    selection = attn("inspect", "I like jam", "--json", *options).document["selection"]
    assert (selection["layers"], selection["heads"]) == (layers, heads)
    assert (selection["reduce"] is None) == (len(layers) == len(heads) == 1)


def test_mean_over_heads_is_the_mean_of_the_heads(attn) -> None:
    parts = [
        attn("inspect", STUCK, "-H", f"2.{head}", "--json").document["weights"] for head in (3, 7)
    ]
    both = attn("inspect", STUCK, "-l", "2", "-H", "3,7", "--json").document["weights"]
    np.testing.assert_allclose(both, np.mean(parts, axis=0), atol=1e-6)
    most = attn("inspect", STUCK, "-l", "2", "-H", "3,7", "--reduce", "max", "--json").document
    np.testing.assert_allclose(most["weights"], np.max(parts, axis=0), atol=1e-6)


def test_query_and_key_choose_rows_and_columns_without_changing_numbers(attn) -> None:
    whole = attn("inspect", STUCK, "-H", "0.4", "--json").document
    chosen = ["-q", "jam", "-q", "-1", "-k", "traffic", "-k", "[CLS]"]
    part = attn("inspect", STUCK, "-H", "0.4", "--json", *chosen).document
    assert (part["queries"], part["keys"]) == ([7, 10], [0, 6])
    assert part["weights"] == [[whole["weights"][q][k] for k in (0, 6)] for q in (7, 10)]
    assert part["scores"] == [[whole["scores"][q][k] for k in (0, 6)] for q in (7, 10)]


def test_words_merge_pieces_and_special_tokens_fold_or_hide(attn) -> None:
    text = "Unbelievably jammed"
    merged = attn("inspect", text, "--words", "--special", "hide", "--json").document
    assert [unit["text"] for unit in merged["units"]] == ["Unbelievably", "jammed"]
    np.testing.assert_allclose(np.sum(merged["weights"], axis=1), 1, atol=1e-5)
    folded = attn("inspect", text, "--special", "fold", "-H", "0.0", "--json").document
    assert folded["units"][-1]["tokens"] == [0, len(folded["tokens"]) - 1]
    assert folded["scores"] is None
    assert any("scores are left out" in note for note in folded["notes"])


def test_top_and_by_order_the_keys(attn) -> None:
    rows = attn("inspect", STUCK, "--by", "weight", "--top", "5", "--json").document["top"]
    for row in rows:
        weights = [key["weight"] for key in row["keys"]]
        assert len(weights) == 5
        assert weights == sorted(weights, reverse=True)


def test_control_string_in_the_text_can_be_read_as_plain_characters(attn) -> None:
    special = attn("inspect", "a [SEP] b", "--json").document
    plain = attn("inspect", "a [SEP] b", "--literal-specials", "--json").document
    assert [t["token"] for t in special["tokens"]] == ["[CLS]", "a", "[SEP]", "b", "[SEP]"]
    assert len(plain["tokens"]) > len(special["tokens"])
    assert "--literal-specials" in special["notes"][0]
    assert plain["notes"] == []


def test_several_texts_are_several_documents(attn) -> None:
    first, second = attn("inspect", "I like jam", "you like toast", "--json").documents
    assert (first["text"], second["text"]) == ("I like jam", "you like toast")
    alone = attn("inspect", "you like toast", "--json").document
    assert alone == second


def test_npz_of_a_pipe_of_lines_is_numbered(attn, tmp_path: Path) -> None:
    path = tmp_path / "lines.npz"
    ran = attn("inspect", "-f", "npz", "-o", str(path), stdin=b"I like jam\nyou\n")
    assert (ran.code, ran.out) == (0, "")
    arrays = np.load(io.BytesIO(path.read_bytes()))
    assert arrays["0/weights"].shape == (5, 5)
    assert arrays["1/weights"].shape == (3, 3)


def test_model_that_sees_only_the_past_masks_the_future(attn) -> None:
    ran = attn("inspect", "one two three", "-m", "random:causal=true,heads=2", "-H", "1", "--json")
    for query, row in enumerate(ran.document["scores"]):
        assert [score is None for score in row] == [key > query for key in range(len(row))]


def test_sum_of_the_weights_is_begun_early_for_records_only(
    attn, bert_folder: Path, monkeypatch
) -> None:
    begun = []
    monkeypatch.setattr("attncli.model.checksum.Checksum.start", lambda self: begun.append(self))
    assert attn("inspect", "the dog", "-m", str(bert_folder)).code == 0
    assert begun == []
    assert attn("inspect", "the dog", "-m", str(bert_folder), "--json").document["model"]["sha256"]
    assert len(begun) == 1
