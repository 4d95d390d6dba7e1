"""The tokens of the vocabulary that a contextual vector is nearest to.

Nearness is the cosine with the rows of the input embedding: what stands for the token before
position, type and the norms behind them are added. Vectors of later states need not lie in the
space of that table, so a neighbour says what a vector points at, not what it means.
"""

from __future__ import annotations

import numpy as np

from attncli._shapes import Float, Int
from attncli.analyses.comparison_parts import Neighbour
from attncli.analyses.similarity import unit_vectors
from attncli.display import vocabulary_label
from attncli.errors import ModelProblem
from attncli.model.load import Model

Array = np.ndarray

MAX_OCCURRENCES = 1_000
"""More are refused: their lists would fill a screen a thousand times."""
ROWS = 4_096
"""Rows of the vocabulary, and vectors, that are multiplied at a time (64 MB of cosines)."""


def neighbours(
    model: Model, vectors: Float[Array, "occurrence state d_model"], n: int
) -> tuple[tuple[tuple[Neighbour, ...], ...], ...]:
    """Return, for each occurrence and state, the n nearest tokens, the nearest first.

    The table is read a part at a time. Its rows that are no token of the vocabulary (tables are
    often padded) do not compete; special tokens do.

    Args:
        model: whose input embedding is read.
        vectors: contextual vectors.
        n: tokens wanted; fewer when the vocabulary has fewer.

    Raises:
        ModelProblem: the embedding has another width than the states, and what widens it is not
            known.
    """
    flat = unit_vectors(vectors.reshape(-1, vectors.shape[-1]))
    ids, cosines = _nearest(model, flat, n)
    tokenizer = model.tokenizer

    def neighbour(id_: int, cosine: float) -> Neighbour:
        piece, special = tokenizer.piece(id_) or "", tokenizer.is_special(id_)
        label = vocabulary_label(id_, piece, tokenizer.surface(id_), special=special)
        return Neighbour(id_, piece, label, cosine)

    found = [
        tuple(map(neighbour, *row)) for row in zip(ids.tolist(), cosines.tolist(), strict=True)
    ]
    n_states = vectors.shape[1]
    return tuple(tuple(found[at : at + n_states]) for at in range(0, len(found), n_states))


def _nearest(
    model: Model, units: Float[Array, "row d_model"], n: int
) -> tuple[Int[Array, "row n"], Float[Array, "row n"]]:
    """Return ids and cosines of the n tokens nearest to each vector, the nearest first."""
    ids = np.zeros((len(units), 0), np.int64)
    cosines = np.zeros((len(units), 0), np.float32)
    for start in range(0, model.spec.vocab_size, ROWS):
        rows = unit_vectors(model.token_rows(slice(start, start + ROWS)))
        if rows.shape[1] != units.shape[1]:
            raise ModelProblem(
                f"{model.name} ({model.spec.family}): its input embeddings have {rows.shape[1]} "
                f"dimensions, its states {units.shape[1]}, and what widens them is not known; "
                "leave --neighbours out, or use --engine numpy."
            )
        numbers = np.arange(start, start + len(rows))
        named = np.array([model.tokenizer.piece(int(number)) is not None for number in numbers])
        rows, numbers = rows[named], numbers[named]
        both_ids, both_cosines = [], []
        for first in range(0, len(units), ROWS):
            part = slice(first, first + ROWS)
            found = units[part] @ rows.T
            best = _best(found, n)
            both_ids.append(np.concatenate([ids[part], numbers[best]], axis=1))
            chosen = np.take_along_axis(found, best, axis=1)
            both_cosines.append(np.concatenate([cosines[part], chosen], axis=1))
        ids, cosines = np.concatenate(both_ids), np.concatenate(both_cosines)
        best = _best(cosines, n)
        ids = np.take_along_axis(ids, best, axis=1)
        cosines = np.take_along_axis(cosines, best, axis=1)
    # equal cosines in the order of the vocabulary
    order = np.lexsort((ids, -cosines), axis=1)
    ids = np.take_along_axis(ids, order, axis=1)
    return ids, np.clip(np.take_along_axis(cosines, order, axis=1), -1, 1)


def _best(values: Float[Array, "row column"], n: int) -> Int[Array, "row best"]:
    """Return the columns of the n largest values of each row, in no order."""
    if values.shape[1] <= n:
        return np.broadcast_to(np.arange(values.shape[1]), values.shape)
    return np.argpartition(-values, n - 1, axis=1)[:, :n]
