"""Tables in the terminal: aligned, never wider than it, and what is left out is said."""

from __future__ import annotations

import re
from typing import Any

import pytest
from rich.cells import cell_len

from attncli.api import inspect
from attncli.outputs import deliver
from attncli.outputs.sink import Sink
from attncli.outputs.table import draw_table, render
from attncli.results import Column, Label, Share, Table
from tests.outputs.streams import HOSTILE, Made


def shares(*parts: tuple[str, float]) -> tuple[Share, ...]:
    return tuple(Share(Label(text, text == "[SEP]"), value) for text, value in parts)


TOP = Table(
    "top",
    "what each query attends to",
    [
        Column("query", "label"),
        Column("keys by contribution", "shares"),
        Column("keys by weight", "shares"),
        Column("sinks", "fraction"),
        Column("telling head"),
    ],
    [
        (
            Label("stuck"),
            shares(("stuck", 0.15), ("jam", 0.141), ("traffic", 0.12)),
            shares(("jam", 0.06), ("were", 0.05)),
            0.6,
            "L0 H4 → traffic .64",
        ),
        (Label("日本"), shares(("a very long label", 0.99)), (), None, "–"),
        (Label("[SEP]", True), shares(("[/INST]", 1.0)), shares(("[SEP]", 0.5)), 0.0, "–"),
    ],
)


def drawn(table: Table, width: int) -> str:
    return render(draw_table(table, width), colored=False)


def test_everything_is_shown_where_there_is_room() -> None:
    assert drawn(TOP, 200) == (
        "what each query attends to\n"
        "query  keys by contribution             keys by weight     sinks  telling head\n"
        "stuck  stuck .15  jam .14  traffic .12  jam .06  were .05    .60  L0 H4 → traffic .64\n"
        "日本   a very long label .99            –                      –  –\n"
        "[SEP]  [/INST] 1.00                     [SEP] .50            .00  –\n"
    )


def test_lists_of_keys_give_way_first_and_the_table_says_so() -> None:
    assert drawn(TOP, 80) == (
        "what each query attends to\n"
        "query  keys by contribution        keys by weight     sinks  telling head\n"
        "stuck  stuck .15  jam .14          jam .06  were .05    .60  L0 H4 → traffic .64\n"
        "日本   a very long label .99       –                      –  –\n"
        "[SEP]  [/INST] 1.00                [SEP] .50            .00  –\n"
        "(some rows show fewer keys than asked for: a wider terminal shows all)\n"
    )


def test_then_columns_go_and_are_named() -> None:
    assert drawn(TOP, 40) == (
        "what each query attends to\n"
        "query  keys by contribution        sinks\n"
        "stuck  stuck .15  jam .14            .60\n"
        "日本   a very long label .99           –\n"
        "[SEP]  [/INST] 1.00                  .00\n"
        "(no room at this width for: keys by\n"
        "weight, telling head)\n"
        "(some rows show fewer keys than asked\n"
        "for: a wider terminal shows all)\n"
    )


def test_bars_are_drawn_to_scale_and_are_first_to_go() -> None:
    columns = [
        Column("key", "label"),
        Column("weight", "fraction"),
        Column("weight as a bar", "bar", priority=50),
    ]
    rows = [(Label(text), value, value) for text, value in (("jam", 0.525), ("I", 0.0), ("a", 1.0))]
    table = Table("row", "", columns, rows)
    assert drawn(table, 80) == (
        "key  weight  weight as a bar\n"
        "jam     .53  ██████████▌\n"
        "I       .00\n"
        "a      1.00  ████████████████████\n"
    )
    assert drawn(table, 20).splitlines()[1] == "jam     .53"


def test_forty_most_important_rows_are_shown_in_reading_order_with_how_to_see_the_rest() -> None:
    rows = [(i,) for i in range(300)]
    important = [float(i % 7 == 0) for i in range(300)]
    lines = drawn(
        Table("t", "", [Column("n", "int")], rows, important, "the largest n", "-f csv has all"), 80
    )
    assert lines.split("\n")[1:-2] == [f"{i:>3}" for i in range(0, 280, 7)]
    assert lines.endswith("\n(40 of 300 rows, those with the largest n; -f csv has all)\n")


def test_text_of_three_hundred_tokens_is_readable(minilm: Any, stdout) -> None:
    stream = stdout()
    result = inspect(" ".join(["The dog sees a cat."] * 50), minilm)
    assert len(result.encoded.tokens) > 300
    deliver([result], "table", Sink())
    lines = stream.written.splitlines()
    assert len(lines) < 100
    assert max(map(cell_len, lines)) <= 100
    assert re.search(r"302 × 302 numbers do not fit .* --query\nWORD shows one row", stream.written)
    left_out = "(40 of 300 rows, those with the most telling heads; --query WORD"
    assert stream.written.count(left_out) == 2


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_cell_neither_acts_nor_breaks_the_columns(text: str) -> None:
    columns = [Column("a", "label"), Column("b"), Column("c", "shares"), Column("d")]
    row = (Label(text), text, shares((text, 0.5)), "end")
    plain = drawn(Table("t", "", columns, [row, (Label("x"), "y", (), "end")]), 200)
    head, hostile, tame = plain.splitlines()
    assert all(char.isprintable() or char == "\u200d" for char in hostile)
    assert cell_len(hostile) == cell_len(tame) == cell_len(head) + len("en")
    colored = render(draw_table(Table("t", "", columns, [row]), 200), colored=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored).splitlines()[1].rstrip() == hostile


def test_colours_only_when_asked_for_and_specials_are_dimmed() -> None:
    lines = draw_table(TOP, 200)
    assert "\x1b" not in render(lines, colored=False)
    colored = render(lines, colored=True).splitlines()
    assert colored[4].startswith("\x1b[2m[SEP]\x1b[0m")
    assert colored[4].count("\x1b[2m[SEP]") == 2
    assert "\x1b[2m" not in colored[2]


def test_headline_notes_and_an_empty_line_between_results(stdout) -> None:
    stream = stdout()
    made = Made([TOP, Table("empty", "not shown", [Column("n")], [])], notes=["two \x1b[0mwords"])
    deliver([made, made], "table", Sink())
    blocks = stream.written.split("\n\n")
    assert blocks[0] == "model · words\nnote: two \\x1b[0mwords"
    assert [block.split("\n")[0] for block in blocks[1:]] == [
        "what each query attends to",
        "model · words",
        "what each query attends to",
    ]
