"""Which row, key and head `attn explain` shows when the user leaves it open, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from attncli._shapes import Float
from attncli.analyses.excess import LEAST, Excess
from attncli.analyses.sides import Sides
from attncli.model.load import Model
from attncli.model.observe import AttentionBlock, Observer
from attncli.model.spec import StackSpec
from attncli.numbers import format_fraction
from attncli.selection import Heads, find_occurrences, find_tokens
from attncli.tokenize import Encoded

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Choice:
    """One row of one head, and the key that is followed closely."""

    layer: int
    head: int
    query: int
    """Token index."""
    key: int
    notes: tuple[str, ...]
    """How it came to this choice, where the user left it open."""


def choose_token(encoded: Encoded, name: str, option: str) -> tuple[int, list[str]]:
    """Return the one token a word stands for, and what to say about it.

    Raises:
        UsageProblem: the word is not in the text.
    """
    tokens = find_tokens(encoded, name, option)
    if re.fullmatch(r"-?\d{1,9}", name):
        return tokens[0], []
    notes, groups = [], find_occurrences(encoded, name) or [tokens]
    if len(groups) > 1:
        notes.append(
            f"“{name}” occurs {len(groups)} times, the first is taken; --{option} {name}#2 takes "
            "the second"
        )
    pieces = groups[0]
    if len(pieces) > 1:
        notes.append(
            f"“{name}” is cut into {len(pieces)} pieces, the last is taken; --{option} "
            f"{pieces[0]} takes the first"
        )
    return pieces[-1], notes


def choose(
    model: Model, sides: Sides, stack: StackSpec, heads: Heads, query: str, key: str | None
) -> Choice:
    """Settle on one query token, one head, one key.

    Args:
        model: what runs.
        sides: the texts.
        stack: the stack whose attention is shown.
        heads: layers and heads the user left open.
        query: word or token index of the row.
        key: likewise of the key; None: the one that adds most.

    Raises:
        UsageProblem: a word that is not in its text.
    """
    row, notes = choose_token(sides.queries, query, "query")
    column = None
    if key is not None:
        column, more = choose_token(sides.keys, key, "key")
        notes += more
    watch = Rows(heads, row, len(sides.keys.tokens))
    observers: list[Observer] = [watch]
    ordinary = np.array([not token.special for token in sides.keys.tokens])
    excess = None if sides.is_cross else Excess(heads, ordinary, causal=stack.causal)
    observers += [] if excess is None else [excess]
    if heads.single and column is not None:
        return Choice(heads.layers[0], heads.heads[0], row, column, tuple(notes))
    model.run([sides.job(model.spec, observers)])
    layer, head = heads.layers[0], heads.heads[0]
    if not heads.single:
        n = len(heads.layers) * len(heads.heads)
        telling = None if excess is None or column is not None else excess.telling([row])[0]
        if telling is not None:
            layer, head, column = telling.layer, telling.head, telling.key
            word = sides.keys.tokens[column].text.strip()
            why = f"the telling one: its weight {format_fraction(telling.weight)} on “{word}” is "
            why += "farthest above what it gives there by position alone"
        elif column is not None:
            (i, j), why = _head_of_pair(excess, watch.weights[..., column], row, column)
            layer, head = heads.layers[i], heads.heads[j]
        else:
            ranked = np.where(ordinary, watch.weights, 0)
            at = np.unravel_index(ranked.argmax(), ranked.shape)
            layer, head = heads.layers[int(at[0])], heads.heads[int(at[1])]
            why = "the one with the largest weight on an ordinary token"
        notes.append(f"L{layer} H{head} is shown, of {n} heads {why}; -H L.H shows another")
    if column is None:
        lengths = watch.lengths[heads.layers.index(layer), heads.heads.index(head)]
        competes, besides = ordinary.copy(), " among ordinary tokens" if not ordinary.all() else ""
        if stack.causal and not sides.is_cross and row > 0:
            competes[0] = False  # where heads of causal models rest
            besides += " (but for the first, where heads rest)"
        # what is masked adds nothing, and there may be nothing ordinary to see
        if not (lengths[competes] > 0).any():
            competes[:], besides = True, ""
        column = int(np.where(competes, lengths, -1).argmax())
        notes.append(
            f"“{sides.keys.tokens[column].text.strip() or sides.keys.tokens[column].token}” is the "
            f"key that adds most to this row{besides}; --key WORD follows another"
        )
    return Choice(layer, head, row, column, tuple(notes))


def _head_of_pair(
    excess: Excess | None, weights: Float[Array, "layer head"], row: int, column: int
) -> tuple[tuple[int, int], str]:
    """Return the places of the head that says most about two tokens, and why it is that one."""
    best = np.unravel_index(weights.argmax(), weights.shape)
    place, why = (int(best[0]), int(best[1])), "the one with the largest weight on this key"
    if not weights.any():
        return place, "the first: none can see this key"
    if excess is None:
        return place, why
    above, known = excess.of_pairs(np.array([row]), np.array([column]), weights[..., None])
    if not known[0]:
        return place, why
    if above.max() < LEAST:
        return place, f"{why} (none gives it more than position alone explains)"
    best = np.unravel_index(above[..., 0].argmax(), weights.shape)
    place = int(best[0]), int(best[1])
    return place, (
        f"the one whose weight on this key, {format_fraction(float(weights[place]))}, is farthest "
        "above what it gives there by position alone"
    )


class Rows(Observer):
    """Keeps one query's weights, and the lengths of what each key adds, for every chosen head."""

    def __init__(self, selected: Heads, query: int, n_keys: int) -> None:
        """Make room for [layer, head, key]."""
        self._selected, self._query = selected, query
        self.attention_layers = frozenset(selected.layers)
        shape = (len(selected.layers), len(selected.heads), n_keys)
        self.weights = np.zeros(shape, np.float32)
        self.lengths = np.zeros(shape, np.float32)

    def on_attention(self, block: AttentionBlock) -> None:
        """Keep the row where this block holds it."""
        if not block.queries.start <= self._query < block.queries.stop:
            return
        layer = self._selected.layers.index(block.layer)
        at, heads = self._query - block.queries.start, self._selected.heads
        self.weights[layer, :, block.keys] = block.weights[list(heads), at]
        if block.values is None:
            return
        for place, head in enumerate(heads):
            norms = block.values.norms(head)
            self.lengths[layer, place] = self.weights[layer, place] * norms
