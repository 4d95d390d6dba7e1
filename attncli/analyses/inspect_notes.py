"""What `attn inspect` says beside its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from attncli.analyses.sides import Sides
from attncli.analyses.units import Unit, describe_specials
from attncli.analyses.void import link_notes, naming_notes
from attncli.model.load import Model
from attncli.results import RANDOM_NOTE
from attncli.selection import Heads, View


def question_notes(
    sides: Sides,
    heads: Heads,
    view: View,
    names: tuple[Sequence[str], Sequence[str]],
    units: tuple[Sequence[Unit], Sequence[Unit]],
    *,
    causal: bool,
) -> list[str]:
    """Say what the question that names queries and keys cannot mean.

    Args:
        sides: the texts.
        heads: chosen layers and heads.
        view: how rows are merged.
        names: what was given for --query and --key.
        units: the rows and columns they mean.
        causal: a query sees only what stands before it.
    """
    notes = naming_notes(sides.queries, names[0], "query", merged=view.words)
    notes += naming_notes(sides.keys, names[1], "key", merged=view.words)
    if all(names):
        notes += link_notes(*units, heads, causal=causal and not sides.is_cross)
    return notes


def reading_notes(
    model: Model,
    void: Sequence[str],
    sides: Sides,
    view: View,
    *,
    rescaled: bool,
    scores_lost: bool,
    not_shown: Sequence[str],
    has_sink: bool,
    units: Sequence[Unit],
) -> tuple[str, ...]:
    """Return what a reader of the numbers must know.

    Args:
        model: what ran.
        void: what was said about the question.
        sides: the texts.
        view: how rows are merged and what is hidden.
        rescaled: rows without hidden tokens were scaled to sum to 1.
        scores_lost: scores are known and not shown, as tokens are merged.
        not_shown: what the engine cannot tell.
        has_sink: a learned sink takes a share of rows.
        units: all rows.
    """
    notes = [RANDOM_NOTE] if model.random else []
    notes += void
    notes += sides.source.notes
    if sides.target is not None:
        notes += [f"target: {note}" for note in sides.target.notes]
    if sides.is_cross:
        notes.append("cross-attention has no telling heads: two texts have no common positions")
    if view.special != "show":
        notes.append(describe_specials(view.special, rescaled=rescaled))
    if has_sink:
        notes.append(
            "this model has a learned sink, whose share of each row is scaled away too"
            if view.special == "hide"
            else "rows sum to less than 1: this model has a learned sink, which takes a share of "
            "each row that no token gets"
        )
    merged = view.words and any(len(unit.tokens) > 1 for unit in units)
    if merged or view.special == "hide":
        notes.append("telling heads are those of single pieces, with special tokens in place")
    if scores_lost:
        notes.append("scores are left out: scores of merged tokens are not defined")
    if not_shown:
        notes.append(
            f"{' and '.join(not_shown)} are left out: transformers does not show what they are "
            "made of in this architecture"
        )
    return tuple(notes)
