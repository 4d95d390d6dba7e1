"""Markdown: full tables, and no text that becomes markup."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from attncli.results import Column, Failure, Label, Matrix, Share, Table
from tests.outputs.streams import HOSTILE, Made, labels, to_file

TABLE = Table(
    "top",
    "what each query attends to",
    [
        Column("query", "label"),
        Column("keys", "shares"),
        Column("bar", "bar"),
        Column("sinks", "fraction"),
    ],
    [
        (Label("jam", index=1), (Share(Label("a|b"), 0.25), Share(Label("I"), 0.5)), 0.5, 0.125),
        (Label("`I`", index=2), (), 0.1, None),
    ],
)


def test_table_and_matrix_as_text(tmp_path: Path) -> None:
    values = np.array([[0.5, -math.inf], [0.25, 0.75]], np.float32)
    matrix = Matrix(
        "scores", "scores", "score", labels("[CLS]", "jam"), labels("[CLS]", "jam"), values
    )
    made = Made([TABLE, matrix], title="my_model · 2 tokens", notes=["a *note*"])
    assert to_file([made, Failure("inspect", 2, "a_b")], "markdown", tmp_path).decode() == (
        "**my\\_model · 2 tokens**\n"
        "\n"
        "*a \\*note\\**\n"
        "\n"
        "what each query attends to\n"
        "\n"
        "| query | keys | sinks |\n"
        "| :-- | :-- | --: |\n"
        "| jam | a\\|b .25  I .50 | .12 |\n"
        "| \\`I\\` | – | – |\n"
        "\n"
        "scores · rows query, columns key\n"
        "\n"
        "| query | 0 \\[CLS\\] | 1 jam |\n"
        "| :-- | --: | --: |\n"
        "| 0 \\[CLS\\] | .50 | – |\n"
        "| 1 jam | .25 | .75 |\n"
        "\n"
        "line 2: a\\_b\n"
        "\n"
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_label_stays_in_its_cell(text: str, tmp_path: Path) -> None:
    table = Table("t", "", [Column("a", "label"), Column("b")], [(Label(text), text)])
    written = to_file([Made([table])], "markdown", tmp_path).decode()
    row = written.splitlines()[4]
    unescaped = row.replace("\\\\", "").replace("\\|", "").replace("\\`", "").replace("\\<", "")
    assert unescaped.count("|") == 3
    assert "`" not in unescaped
    assert "<" not in unescaped
    assert all(char.isprintable() or char == "\u200d" for char in row)


def test_long_tables_are_whole(tmp_path: Path) -> None:
    table = Table("t", "", [Column("n", "int")], [(i,) for i in range(500)])
    assert "| 499 |" in to_file([Made([table])], "markdown", tmp_path).decode()
