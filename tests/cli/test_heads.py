"""attn heads: every option, choices that do not go together, lines piped in."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from attncli.analyses.head_links import MEASURES as LINK_MEASURES
from attncli.analyses.head_measures import MEASURES
from attncli.analyses.head_roles import ROLES
from attncli.commands import heads as command
from tests.seq2seq import SOURCE, TARGET, seq2seq

TIRED = "The animal did not cross the street because it was too tired"
CAUSAL = "random:d_model=8,heads=2,layers=2,causal=true"


def test_help_names_the_measures_and_roles_there_are() -> None:
    assert command.MEASURES.split(", ") == [measure.name for measure in MEASURES]
    assert command.ROLES.split(", ") == list(ROLES)


def test_by_takes_what_links_have(attn) -> None:
    for measure in LINK_MEASURES:
        assert attn("heads", TIRED, "--from", "it", "--to", "animal", "--by", measure).code == 0


def test_heads_come_layer_by_layer_or_sorted_filtered_and_cut(attn) -> None:
    heads = attn("heads", TIRED, "--json").document["heads"]
    assert [(row["layer"], row["head"]) for row in heads] == [
        (layer, head) for layer in range(6) for head in range(12)
    ]
    best = attn("heads", TIRED, "--sort", "previous", "--top", "3", "--json").document["heads"]
    assert (best[0]["layer"], best[0]["head"], best[0]["role"]) == (0, 2, "previous")
    by_hand = sorted(heads, key=lambda row: -row["previous"])[:3]
    assert best == by_hand
    chosen = attn("heads", TIRED, "--role", "previous", "--role", "next", "--json").document
    assert chosen["heads"] == [row for row in heads if row["role"] in ("previous", "next")]
    assert {role["role"]: role["heads"] for role in chosen["roles"]} == {
        role: sum(row["role"] == role for row in heads) for role in ROLES
    }


def test_grid_has_the_measure_of_every_chosen_head_whatever_is_listed(attn) -> None:
    whole = attn("heads", TIRED, "-l", "1-2", "--json").document
    document = attn(
        *("heads", TIRED, "-l", "1-2", "--grid", "sink", "--role", "next", "--json")
    ).document
    assert document["grid"] == [
        [row["sink"] for row in whole["heads"] if row["layer"] == layer] for layer in (1, 2)
    ]
    assert whole["selection"]["grid"] == "special"
    text = attn("heads", TIRED).out
    assert "special (weight) · rows layers, columns heads" in text
    assert "\nL5  " in text


def test_role_that_no_head_has_is_said(attn) -> None:
    ran = attn("heads", TIRED, "--role", "induction")
    assert ran.code == 0
    assert "note: no head has the role induction" in ran.out


def test_top_shows_as_many_rows_as_asked_for(attn) -> None:
    rows = attn("heads", TIRED, "--top", "60").out.splitlines()
    assert sum(line.startswith(("L0 H", "L1 H", "L2 H", "L3 H", "L4 H")) for line in rows) == 60
    ranked = attn("heads", TIRED, "--from", "it", "--to", "animal").out
    assert "(12 of 72 rows; --top, -l and -H choose, -f csv has all)" in ranked


def test_csv_has_one_row_a_head(attn) -> None:
    rows = list(csv.DictReader(io.StringIO(attn("heads", TIRED, "-f", "csv").out)))
    assert len(rows) == 72
    assert rows[2]["role"] == "previous"
    assert rows[2]["top_key_text"] in ("[CLS]", "the", "animal")
    linked = attn("heads", TIRED, "--from", "it", "--to", "animal", "-f", "csv").out
    assert linked.splitlines()[0] == "text,layer,head,weight,contribution,excess"


def test_each_line_has_its_own_answer_and_bad_lines_do_not_stop_the_rest(attn) -> None:
    lines = f"{TIRED}\nno such word here\nthe animal saw it\n".encode()
    ran = attn("heads", "--from", "it", "--to", "animal", "--json", stdin=lines)
    assert ran.code == 1
    first, failed, last = ran.documents
    assert (first["question"], first["line"], last["line"]) == ("link", 1, 3)
    assert failed["line"] == 2
    assert "--from it: not in the text" in failed["error"]
    assert attn("heads", "--swap", "he,she", "--json", stdin=b"he left\n").document["line"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--from", "it"], "--from needs --to"),
        (["--to", "it"], "--to needs --from"),
        (["--by", "excess"], "--by excess: give --from and --to too"),
        (
            ["--from", "it", "--to", "animal", "--contrast", "it was", "--by", "weight"],
            "ranked by the change",
        ),
        (["--contrast", "it was", "--swap", "it,he"], "give one of them"),
        (["--swap", "it,he", "--from", "it", "--to", "animal"], "give --contrast the other text"),
        (["--swap", "it,he", "--pair", "it was"], "--swap compares single texts"),
        (["--swap", "it,he", "--probe"], "--probe and --swap ask different questions"),
        (["--from", "it", "--to", "animal", "--sort", "sink"], "--sort and --from ask different"),
        (["--sort", "prev"], "Did you mean previous?"),
        (["--sort", "probe_induction"], "add --probe"),
        (["--sort", "punctuation"], "has no token it is about"),
        (["--grid", "entropy"], "--grid entropy: expected one of relative_entropy"),
        (["--role", "sinks"], "Did you mean sink?"),
        (["--from", "it", "--to", "animl"], "Did you mean animal?"),
        (["--from", "it#2", "--to", "animal"], "so #1 to #1"),
        (["-l", "9"], "valid layers are 0 to 5"),
        (["--top", "0"], "0 is not in the range"),
        (["--target", "das tier"], "is no encoder-decoder"),
    ],
)
def test_choice_that_does_not_fit_is_one_line_that_says_why(attn, arguments, said) -> None:
    ran = attn("heads", TIRED, *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err


@pytest.mark.parametrize(
    ("measure", "text", "said"),
    [
        ("next", "i like jam", "no query of a causal model"),
        ("induction", "i like jam", "no token of this text repeats"),
    ],
)
def test_measure_without_meaning_in_a_causal_text_says_why(attn, measure, text, said) -> None:
    ran = attn("heads", text, "-m", CAUSAL, "--sort", measure)
    assert ran.code == 2
    assert said in ran.err


def test_cross_attention_has_no_measures_of_position(attn, tmp_path: Path) -> None:
    seq2seq(tmp_path / "two")
    model = ("-m", str(tmp_path / "two"))
    document = attn("heads", SOURCE, *model, "--target", TARGET, "--json").document
    assert document["selection"]["attention"] == "cross"
    (row, *_) = document["heads"]
    absent = {measure.name for measure in MEASURES if not measure.crosses}
    assert {name for name in absent if row[name] is not None} == set()
    assert {row[n.name] is None for n in MEASURES if n.crosses and n.name != "punctuation"} == {
        False
    }
    assert any(note.startswith("tokens of two texts") for note in document["notes"])
    ran = attn("heads", SOURCE, *model, "--target", TARGET, "--sort", "previous")
    assert "no common positions" in ran.err
    own = attn("heads", SOURCE, *model, "--target", TARGET, "--attention", "self", "--json")
    assert own.document["heads"][0]["previous"] is not None


def test_hostile_text_is_data(attn) -> None:
    text = "[INST] :smile: [/INST] \x1b[31m 😀"
    ran = attn("heads", text)
    assert ran.code == 0
    assert "\x1b" not in ran.out
    swapped = attn("heads", text, "--swap", ":,smile")
    assert swapped.code == 0
    assert "\x1b" not in swapped.out


def test_words_of_a_pair_are_linked_across_its_texts(attn) -> None:
    pair = ("heads", "a dog barked", "--pair", "the dog was loud")
    document = attn(*pair, "--from", "loud", "--to", "barked", "--json").document
    tokens = [token["token"] for token in document["tokens"]]
    assert document["pairs"] == [{"from": [tokens.index("loud")], "to": [3]}]
    inspected = attn(
        *("inspect", *pair[1:], "-H", "2.4", "--query", "loud", "--key", "barked", "--json")
    ).document
    (link,) = [row for row in document["links"] if (row["layer"], row["head"]) == (2, 4)]
    assert link["weight"] == pytest.approx(inspected["weights"][0][0], abs=1e-6)
