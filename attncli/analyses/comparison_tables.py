"""The tables of `attn compare`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attncli.analyses.columns import state_columns
from attncli.analyses.comparison_parts import Occurrence, Pair, Reading, place_names, text_name
from attncli.analyses.similarity_tables import (
    cosine_name,
    neighbours,
    self_similarity,
    similarity,
)
from attncli.display import display
from attncli.results import Column, Label, Matrix, Table

if TYPE_CHECKING:
    from attncli.analyses.comparison import Comparison

EXCERPT = 32
"""Characters shown on either side of an occurrence."""
HINT = "--json has all"
MEASURED = ("rollout", "value-zeroing")
TWO = 2
"""Places of a word whose self-similarity is the cosine of its one pair."""


def tables(comparison: Comparison) -> list[Table | Matrix]:
    """Return the tables in reading order."""
    names = place_names(comparison.occurrences)
    shown: list[Table | Matrix] = [_places(comparison, names)]
    if any(word.n > TWO for word in comparison.self_similarity):
        shown.append(self_similarity(comparison))
    if comparison.similarity is not None:
        shown.append(similarity(comparison, names))
    # of two texts that are alike, the words side by side say all that pairs of words would
    if len(comparison.words) == 1 or not comparison.aligned:
        shown.append(_cosines(comparison, names))
    if comparison.anchors:
        shown.append(_anchors(comparison, names))
    if len(comparison.pairs) == 1 and comparison.changed:
        shown.append(_changes(comparison, names))
    if comparison.aligned:
        shown.append(_side_by_side(comparison))
    if comparison.neighbours:
        shown.append(neighbours(comparison, names))
    return shown


def _places(comparison: Comparison, names: Sequence[str]) -> Table:
    """Say which letter stands for which text, with the word in brackets."""
    columns = [Column(""), Column("")]
    if len(comparison.words) > 1:
        rows = [(text_name(at), _cut(text.text)) for at, text in enumerate(comparison.texts)]
    else:
        rows = [
            (names[at], _excerpt(comparison.texts[o.text].text, o))
            for at, o in enumerate(comparison.occurrences)
        ]
    return Table("places", "", columns, rows, hint=HINT)


def _cosines(comparison: Comparison, names: Sequence[str]) -> Table:
    title = (
        f"how alike: {cosine_name(comparison)} of the word's two states, at the embedding and after"
        " each layer"
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
        between = f"{names[pair.a]}–{names[pair.b]}"
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


def _anchors(comparison: Comparison, names: Sequence[str]) -> Table:
    columns = [Column("word", "label"), Column("in"), Column("to", priority=99)]
    columns += state_columns(comparison.card.layers, "cosine")
    rows: list[list[Any]] = [
        [Label(o.word), names[at], anchor.name, *map(float, anchor.cosine[at])]
        for anchor in comparison.anchors
        for at, o in enumerate(comparison.occurrences)
    ]
    if comparison.baseline is not None:
        rows.append([Label(""), "", "(random words)", *map(float, comparison.baseline)])
    title = f"{cosine_name(comparison)} to the anchors"
    return Table("anchors", title, columns, rows, hint=HINT)


def _changes(comparison: Comparison, names: Sequence[str]) -> Table:
    pair, changes = comparison.pairs[0], comparison.changed[0]
    a, b = names[pair.a], names[pair.b]
    by = comparison.view.by
    # the measure asked for stays longest, beside the weight
    fields = {"weight": "weight", by if by != "weight" else "contribution": "contribution"}
    fields = {name: "measure" if name in MEASURED else field for name, field in fields.items()}
    if all(change.contribution is None for change in changes):
        fields = {name: field for name, field in fields.items() if field != "contribution"}
    numbers = [Column(name, "fraction", priority=90 if name == by else 80) for name in fields]
    columns = [
        Column(f"key in {a}", "label"),
        *numbers,
        Column(f"key in {b}", "label"),
        *numbers,
        Column("change", "number"),
    ]

    def cells(reading: Reading | None) -> list[Any]:
        values = [reading and getattr(reading, field) for field in fields.values()]
        return [_key_label(reading), *values]

    rows = [[*cells(change.a), *cells(change.b), change.by(by)] for change in changes]
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
    title = f"the two texts side by side: {cosine_name(comparison)} of each word to its partner"
    return Table("aligned", title, columns, rows, important, "the lowest cosines", HINT)


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
