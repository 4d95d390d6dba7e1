"""The tables of `attn compare`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attncli.analyses.columns import state_columns
from attncli.analyses.comparison_parts import Occurrence, Pair, Reading, same_word
from attncli.display import display
from attncli.results import Column, Label, Table

if TYPE_CHECKING:
    from attncli.analyses.comparison import Comparison

EXCERPT = 32
"""Characters shown on either side of an occurrence."""
HINT = "--json has all"


def tables(comparison: Comparison) -> list[Table]:
    """Return the tables in reading order."""
    shown = [_places(comparison)]
    # of two texts that are alike, the words side by side say all that pairs of words would
    if len(comparison.words) == 1 or not comparison.aligned:
        shown.append(_cosines(comparison))
    if comparison.anchors:
        shown.append(_anchors(comparison))
    if len(comparison.pairs) == 1 and comparison.changed:
        shown.append(_changes(comparison))
    if comparison.aligned:
        shown.append(_side_by_side(comparison))
    return shown


def _places(comparison: Comparison) -> Table:
    """Say which letter stands for which text, with the word in brackets."""
    columns = [Column(""), Column("")]
    if len(comparison.words) > 1:
        rows = [(_letter(at), _cut(text.text)) for at, text in enumerate(comparison.texts)]
    else:
        rows = [
            (_name(comparison, at), _excerpt(comparison.texts[o.text].text, o))
            for at, o in enumerate(comparison.occurrences)
        ]
    return Table("places", "", columns, rows, hint=HINT)


def _cosines(comparison: Comparison) -> Table:
    title = (
        "how alike: cosine of the word's two states, at the embedding and after each layer"
        " (random: mean of unrelated words, adjusted: what is left)"
    )
    states = state_columns(comparison.card.layers, "cosine")
    columns = [Column("word", "label"), Column("pair"), Column("", priority=95), *states]
    rows: list[list[Any]] = []
    importance = []
    detailed = len(comparison.pairs) == 1
    pairs: Sequence[Pair] = comparison.pairs
    if len(comparison.words) > 1:
        title = title.replace("how alike", "how alike, of each word the pair that is least so")
        pairs = _least_alike(comparison)
    for pair in pairs:
        a, b = comparison.occurrences[pair.a], comparison.occurrences[pair.b]
        word = a.word if a.word == b.word else f"{a.word}/{b.word}"
        between = f"{_name(comparison, pair.a)}–{_name(comparison, pair.b)}"
        rows.append([Label(word), between, "cosine", *map(float, pair.cosine)])
        if detailed and pair.baseline is not None:
            rows.append(["", "", "random", *map(float, pair.baseline)])
            rows.append(["", "", "adjusted", *map(float, pair.cosine - pair.baseline)])
        if detailed:
            rows.append(["", "", "top dim", *map(float, pair.top_dimension_share)])
        importance.append(1 - float(pair.cosine[-1]))
    if comparison.pairs and not detailed and comparison.pairs[0].baseline is not None:
        rows.append(["", "", "random", *map(float, comparison.pairs[0].baseline)])
        importance.append(2.0)
    return Table(
        "cosine", title, columns, rows, () if detailed else importance, "the lowest cosines", HINT
    )


def _least_alike(comparison: Comparison) -> list[Pair]:
    """Return one pair for each word: the one whose last states are least alike."""
    best: dict[str, Pair] = {}
    for pair in comparison.pairs:
        word = comparison.occurrences[pair.a].word.casefold()
        if word not in best or pair.cosine[-1] < best[word].cosine[-1]:
            best[word] = pair
    return list(best.values())


def _anchors(comparison: Comparison) -> Table:
    columns = [Column("word", "label"), Column("in"), Column("to", priority=99)]
    columns += state_columns(comparison.card.layers, "cosine")
    rows: list[list[Any]] = [
        [Label(o.word), _name(comparison, at), anchor.name, *map(float, anchor.cosine[at])]
        for anchor in comparison.anchors
        for at, o in enumerate(comparison.occurrences)
    ]
    if comparison.baseline is not None:
        rows.append([Label(""), "", "(random words)", *map(float, comparison.baseline)])
    return Table("anchors", "cosine to the anchors", columns, rows, hint=HINT)


def _changes(comparison: Comparison) -> Table:
    pair, changes = comparison.pairs[0], comparison.changed[0]
    a, b = _name(comparison, pair.a), _name(comparison, pair.b)
    by = comparison.view.by
    columns = [
        Column(f"key in {a}", "label"),
        Column("weight", "fraction", priority=80 if by == "contribution" else 90),
        Column("contribution", "fraction", priority=90 if by == "contribution" else 80),
        Column(f"key in {b}", "label"),
        Column("weight", "fraction", priority=80 if by == "contribution" else 90),
        Column("contribution", "fraction", priority=90 if by == "contribution" else 80),
        Column("change", "number"),
    ]
    rows = [
        [
            _key_label(change.a),
            change.a and change.a.weight,
            change.a and change.a.contribution,
            _key_label(change.b),
            change.b and change.b.weight,
            change.b and change.b.contribution,
            change.by(by),
        ]
        for change in changes
    ]
    if all(change.contribution is None for change in changes):
        kept = [at for at, column in enumerate(columns) if column.name != "contribution"]
        columns, rows = [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]
    important = [abs(change.by(by)) for change in changes]
    word = display(comparison.occurrences[pair.a].word)
    heads = comparison.heads.describe(comparison.card.layers, comparison.card.heads)
    title = f"what “{word}” reads from each word ({heads}; change of {by})"
    return Table("changed", title, columns, rows, important, "the largest changes", HINT)


def _side_by_side(comparison: Comparison) -> Table:
    columns = [Column("A", "label"), Column("B", "label")]
    columns += state_columns(comparison.card.layers, "cosine")
    texts = comparison.texts
    rows = []
    for row in comparison.aligned:
        a = None if row.a is None else Label(texts[0].words[row.a].text)
        b = None if row.b is None else Label(texts[1].words[row.b].text)
        n_states = comparison.card.layers + 1
        values = [None] * n_states if row.cosine is None else list(map(float, row.cosine))
        rows.append([a, b, *values])
    important = [1.0 if r.cosine is None else 1 - float(r.cosine[-1]) for r in comparison.aligned]
    title = "the two texts side by side: cosine of each word to its partner"
    return Table("aligned", title, columns, rows, important, "the lowest cosines", HINT)


def _name(comparison: Comparison, occurrence: int) -> str:
    """Name an occurrence shortly: A, B, … by text, A.2 for a second one in the same text."""
    o = comparison.occurrences[occurrence]
    same = [
        i
        for i, other in enumerate(comparison.occurrences)
        if other.text == o.text and same_word(o, other)
    ]
    letter = _letter(o.text)
    return letter if len(same) == 1 else f"{letter}.{same.index(occurrence) + 1}"


def _letter(number: int) -> str:
    """Name a text: A to Z, then T26, T27, …."""
    return chr(ord("A") + number) if number < 26 else f"T{number}"


def _excerpt(text: str, o: Occurrence) -> str:
    """Show the word in brackets with a little of the text around it."""
    before, after = text[: o.start], text[o.end :]
    if len(before) > EXCERPT:
        before = "…" + before[-EXCERPT:]
    if len(after) > EXCERPT:
        after = after[:EXCERPT] + "…"
    return f"{before}[{o.word}]{after}"


def _cut(text: str) -> str:
    return text if len(text) <= 2 * EXCERPT else text[: 2 * EXCERPT] + "…"


def _key_label(reading: Reading | None) -> Label | None:
    return None if reading is None else Label(reading.text, special=reading.word < 0)
