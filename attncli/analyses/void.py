"""What must be said about a question before its answer is read."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attncli.analyses.units import Unit
from attncli.selection import Heads, find_occurrences
from attncli.tokenize import Encoded
from attncli.words import split_words


def naming_notes(encoded: Encoded, names: Sequence[str], option: str, *, merged: bool) -> list[str]:
    """Say when a named word stands in several places, or is several rows or columns.

    Args:
        encoded: the text.
        names: what the user gave for the option.
        option: such as `query`.
        merged: the pieces of a word are one row.
    """
    notes = []
    line = "row" if option == "query" else "column"
    for name in names:
        if re.fullmatch(r"-?\d{1,9}", name):
            continue
        places = find_occurrences(encoded, name)
        if len(places) > 1:
            notes.append(
                f"“{name}” occurs {len(places)} times and all are shown; "
                f"--{option} {name}#1 chooses one"
            )
        pieces = max(map(len, places), default=1)
        if pieces > 1 and not merged and len(split_words(name)) == 1:
            notes.append(
                f"“{name}” is cut into {pieces} pieces, a {line} each; --words merges them"
            )
    return notes


def link_notes(
    queries: Sequence[Unit], keys: Sequence[Unit], heads: Heads, *, causal: bool
) -> list[str]:
    """Say what a question about named queries and keys cannot show.

    Args:
        queries: rows that were named.
        keys: columns that were named.
        heads: chosen layers and heads.
        causal: a query sees only what stands before it.
    """
    notes = []
    last = max(max(unit.tokens) for unit in queries)
    unseen = [f"“{key.text.strip()}”" for key in keys if min(key.tokens) > last]
    if causal and unseen:
        notes.append(
            f"{', '.join(dict.fromkeys(unseen))}: stands after the query, and a causal model has "
            "not read it yet; whatever it is, the row stays the same"
        )
    n_heads = len(heads.layers) * len(heads.heads)
    if n_heads > 1 and not (causal and unseen):
        notes.append(
            f"{n_heads} heads are merged here; attn heads --from WORD --to WORD tells which of "
            "them link two words"
        )
    return notes
