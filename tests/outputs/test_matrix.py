"""A matrix in the terminal: numbers, else shades, else a line that says how to see it."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len

from attncli.outputs.matrix import draw_matrix
from attncli.outputs.table import render
from attncli.results import Label, Matrix
from tests.outputs.streams import HOSTILE, labels

LABELS = labels("[CLS]", "stuck", "日本", "[/INST]")
WEIGHTS = Matrix(
    "weights",
    "weights",
    "fraction",
    LABELS,
    LABELS,
    np.array(
        [[1, 0, 0, 0], [0.25, 0.5, 0.15, 0.1], [0.05, 0.149, 0.8, 0.001], [0.3, 0.3, 0.2, 0.2]],
        np.float32,
    ),
    hint="--query WORD shows one row",
)
MASKED = np.where(np.tri(4, dtype=bool), WEIGHTS.values * 10 - 7, -np.inf).astype(np.float32)
SCORES = Matrix("scores", "scores", "score", LABELS, LABELS, MASKED, hint="h")


def drawn(matrix: Matrix, width: int) -> str:
    return render(draw_matrix(matrix, width), colored=False)


def test_numbers_under_the_labels_of_their_keys() -> None:
    assert drawn(WEIGHTS, 80) == (
        "weights · rows query, columns key\n"
        "                 0       1       2       3\n"
        "             [CLS]   stuck    日本 [/INST]\n"
        "0 [CLS]       1.00     .00     .00     .00\n"
        "1 stuck        .25     .50     .15     .10\n"
        "2 日本         .05     .15     .80     .00\n"
        "3 [/INST]      .30     .30     .20     .20\n"
    )
    assert drawn(WEIGHTS, 200) == drawn(WEIGHTS, 80)


def test_labels_are_cut_before_numbers_are() -> None:
    assert drawn(WEIGHTS, 40).splitlines()[1:4] == [
        "                0      1      2      3",
        "            [CLS]  stuck   日本 [/INS…",
        "0 [CLS]      1.00    .00    .00    .00",
    ]


def test_masked_scores_are_dashes_and_negative_ones_keep_their_sign() -> None:
    assert drawn(SCORES, 80).splitlines()[3:] == [
        "0 [CLS]       3.00       –       –       –",
        "1 stuck      -4.50   -2.00       –       –",
        "2 日本       -6.50   -5.51    1.00       –",
        "3 [/INST]    -4.00   -4.00   -5.00   -5.00",
    ]


def test_shades_where_numbers_do_not_fit() -> None:
    assert drawn(WEIGHTS, 22) == (
        "weights · rows query,\n"
        "columns key\n"
        "shades: ░ ≥.05  ▒ ≥.15\n"
        "▓ ≥.30  █ ≥.60\n"
        "          0\n"
        "0 [CLS]   ██\n"
        "1 stuck   ▒▒▓▓▒▒░░\n"
        "2 日本    ░░░░██\n"
        "3 [/INST] ▓▓▓▓▒▒▒▒\n"
        "(numbers do not fit in\n"
        "22 columns; --query\n"
        "WORD shows one row)\n"
    )


def test_logarithmic_shades_tell_small_weights_apart() -> None:
    values = np.array([[0.9, 0.08, 0.006, 0.0002]], np.float32)
    drawing = drawn(replace(WEIGHTS, queries=LABELS[:1], values=values, shading="log"), 22)
    assert "shades: ░ ≥.001\n▒ ≥.005  ▓ ≥.025\n█ ≥.125\n" in drawing
    assert "0 [CLS] ██▓▓▒▒\n" in drawing


def test_cosines_have_shades_of_their_own() -> None:
    values = np.array([[1, 0.79, 0.55, 0.3, -1]], np.float32)
    keys = labels("a", "b", "c", "d", "e")
    cosines = Matrix("c", "c", "cosine", keys[:1], keys, values, hint="h", shading="cosine")
    drawing = drawn(cosines, 16)
    assert " ".join(drawing.split()).startswith(
        "c · rows query, columns key shades: ░ ≥.20 ▒ ≥.40 ▓ ≥.60 █ ≥.80"
    )
    assert "0 a ██▓▓▒▒░░\n" in drawing
    # one digit still orders them where two do not fit
    last = drawn(cosines, 30).splitlines()[-1]
    assert last.split() == ["0", "a", "1.0", ".8", ".6", ".3", "-1.0"]


def test_scores_that_do_not_fit_are_not_shown_as_shades_of_weights() -> None:
    values = np.log(np.array([[0.7, 0.2, 0.1, 0.001]], np.float32)) + 100
    row = Matrix("scores", "scores", "score", LABELS[:1], LABELS, values, hint="-q shows one row")
    assert " ".join(drawn(row, 22).split()) == (
        "scores: 1 × 4 numbers do not fit in 22 columns; -q shows one row"
    )


def test_row_whose_shown_keys_are_all_masked_is_drawn_without_a_warning() -> None:
    values = np.array([[-math.inf], [0.5]], np.float32)
    matrix = Matrix("scores", "scores", "score", labels("a", "b"), [Label("b", False, 1)], values)
    assert drawn(matrix, 40).splitlines()[-2:] == ["0 a    –", "1 b  .50"]
    assert "nan" not in drawn(matrix, 20)


def test_too_many_numbers_for_any_cell_are_said_with_the_way_to_see_them() -> None:
    many = labels(*["x"] * 300)
    matrix = Matrix("w", "weights", "fraction", many, many, np.full((300, 300), 1 / 300), hint="h")
    assert drawn(matrix, 80) == "weights: 300 × 300 numbers do not fit in 80 columns; h\n"


@pytest.mark.parametrize("width", [24, 40, 80, 200])
def test_hostile_labels_stay_aligned_and_do_not_act(width: int) -> None:
    marks = labels(*HOSTILE)
    values = np.full((len(HOSTILE), 2), 0.5, np.float32)
    matrix = Matrix("w", "weights", "fraction", marks, labels("a", "b"), values, hint="h")
    plain = drawn(matrix, width)
    assert all(char.isprintable() or char in "\n\u200d" for char in plain)
    rows = plain.splitlines()[-len(HOSTILE) :]
    assert len({cell_len(row) for row in rows}) == 1
    colored = render(draw_matrix(matrix, width), colored=True)
    text = re.sub(r"\x1b\[[0-9;]*m", "", colored)
    assert [line.rstrip() for line in text.splitlines()] == plain.splitlines()


def test_hostile_keys_stay_aligned() -> None:
    keys = labels(*HOSTILE)
    values = np.full((1, len(HOSTILE)), 0.05, np.float32)
    lines = drawn(Matrix("w", "w", "fraction", labels("q"), keys, values), 300).splitlines()
    assert cell_len(lines[1]) == cell_len(lines[2]) == cell_len(lines[3])
    assert all(char.isprintable() or char == "\u200d" for char in lines[2])


def test_colour_repeats_what_the_numbers_say_and_dims_specials(monkeypatch) -> None:
    monkeypatch.delenv("NO_COLOR")
    lines = render(draw_matrix(WEIGHTS, 80), colored=True).splitlines()
    assert lines[3].startswith("\x1b[2m0 \x1b[0m\x1b[2m[CLS]\x1b[0m")
    assert lines[4].startswith("\x1b[2m1 \x1b[0mstuck")
    strongest = re.search(r"\x1b\[([0-9;]*)m1\.00", lines[3])
    weakest = re.search(r"\x1b\[([0-9;]*)m\.00", lines[3])
    assert strongest
    assert weakest
    assert "48;5;" in strongest[1]
    assert weakest[1] == "2"


def test_labels_without_a_number_stand_alone_in_numbers_and_in_shades() -> None:
    values = np.array([[0.25, 0.0, 0.7], [0.5, 0.1, 0.0]], np.float32)
    rows, columns = [Label("L0"), Label("L10")], [Label("H0"), Label("H1"), Label("H2")]
    matrix = Matrix(
        "grid", "sink", "fraction", rows, columns, values, hint="-f csv", sides="layers, heads"
    )
    lines = [line.plain.rstrip() for line in draw_matrix(matrix, 40)]
    assert lines == [
        "sink · layers, heads",
        "      H0  H1  H2",
        "L0   .25 .00 .70",
        "L10  .50 .10 .00",
    ]
    shaded = [line.plain.rstrip() for line in draw_matrix(matrix, 11)]
    assert "    H0" in shaded
    assert "L0  ▒▒  ██" in shaded
