"""Merges of a SentencePiece vocabulary, which stores only scores.

A pair is merged when both halves and the whole are pieces; the best whole goes first. Source:
generate_merges in transformers/tokenization_utils_base.py (5.24).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from attncli._shapes import Float, Int
from attncli.cache import file_key, read_entry, write_entry

Array = np.ndarray

_PURPOSE = "merges/2"


def merges_of(
    path: Path, pieces: Sequence[str], scores: Float[Array, " piece"]
) -> list[tuple[str, str]]:
    """Return all merges, best first.

    They are kept for the next run, because those of a quarter of a million pieces take a second.

    Args:
        path: the file the pieces are from.
        pieces: the vocabulary by id.
        scores: the higher, the earlier a piece is formed.
    """
    key = file_key(path, _PURPOSE, str(len(pieces)))
    kept = read_entry(key)
    pairs = None if kept is None else _pairs(kept, len(pieces))
    if pairs is None:
        pairs = derive(pieces, scores)
        write_entry(key, pairs.tobytes())
    names = np.array(pieces, object)
    return list(zip(names[pairs[:, 0]].tolist(), names[pairs[:, 1]].tolist(), strict=True))


def derive(pieces: Sequence[str], scores: Float[Array, " piece"]) -> Int[Array, "merge two"]:
    """Return the ids of both halves of every merge, best first."""
    ids = {piece: i for i, piece in enumerate(pieces)}
    found: list[tuple[int, int, int, int, int]] = []
    for i, piece in enumerate(pieces):
        if ids[piece] != i:
            continue
        for cut in range(1, len(piece)):
            left = ids.get(piece[:cut])
            if left is not None:
                right = ids.get(piece[cut:])
                if right is not None:
                    found.append((i, cut, len(piece) - cut, left, right))
    table = np.array(found, np.int64).reshape(-1, 5)
    # highest score, then longest left half, then longest right half, then first piece
    order = np.lexsort((-table[:, 2], -table[:, 1], -scores[table[:, 0]]))
    return table[order, 3:].astype(np.int32)


def _pairs(kept: bytes, n_pieces: int) -> Array | None:
    """Return kept pairs if they fit the vocabulary."""
    if len(kept) % 8:
        return None
    pairs = np.frombuffer(kept, np.int32).reshape(-1, 2)
    fits = pairs.size == 0 or (pairs.min() >= 0 and pairs.max() < n_pieces)
    return pairs if fits else None
