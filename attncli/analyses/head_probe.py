"""Induction, duplicate and previous-token scores on random tokens that repeat.

Each sequence is a block of R different random tokens, twice, within the special tokens that the
model's tokenizer puts around a text. induction: mean over i in the second block of α_i,i-R+1, the
place after the earlier occurrence; duplicate: mean of α_i,i-R; previous: mean of α_i,i-1 over both
blocks. Source: Elhage et al. 2021; Olsson et al. 2022 (prefix-matching score).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attncli._shapes import Int
from attncli.analyses.head_measures import Values
from attncli.analyses.sides import ids_job
from attncli.errors import InputProblem
from attncli.model.forward import Job
from attncli.model.load import Model
from attncli.model.observe import AttentionBlock, Observer
from attncli.selection import Heads
from attncli.tokenize import Encoded

Array = np.ndarray

SEQUENCES = 4
BLOCK = 50
"""Tokens of a block, where the model takes as many."""
LEAST = 4


@dataclass(frozen=True, slots=True)
class Probe:
    """The sequences of one probe, and what heads did with them."""

    seed: int
    block: int
    """Different tokens of each sequence; it holds them twice."""
    sequences: tuple[tuple[int, ...], ...]
    """Token ids, special tokens included."""
    observers: tuple[Repeats, ...]

    def jobs(self, model: Model) -> list[Job]:
        """Return the runs."""
        return [
            ids_job(model.spec, ids, [0] * len(ids), [observer])
            for ids, observer in zip(self.sequences, self.observers, strict=True)
        ]

    def values(self) -> Values:
        """Return the scores, means over the sequences, [layer, head]."""
        return {
            f"probe_{name}": np.mean([o.means()[name] for o in self.observers], axis=0)
            for name in ("previous", "duplicate", "induction")
        }


class Repeats(Observer):
    """Sums three diagonals of every head."""

    def __init__(self, selected: Heads, start: int, block: int) -> None:
        """Take where the first block starts and how long each is."""
        self.selected = selected
        self.attention_layers = frozenset(selected.layers)
        self._start, self._block = start, block
        shape = (len(selected.layers), len(selected.heads))
        self._sums = {name: np.zeros(shape) for name in ("previous", "duplicate", "induction")}

    def on_attention(self, block: AttentionBlock) -> None:
        """Add one block of rows."""
        at = self.selected.layers.index(block.layer)
        second, end = self._start + self._block, self._start + 2 * self._block
        for name, first, back in (
            ("previous", self._start + 1, 1),
            ("duplicate", second, self._block),
            ("induction", second, self._block - 1),
        ):
            rows = np.arange(max(first, block.queries.start), min(end, block.queries.stop))
            rows = rows[rows - back >= block.keys.start]
            keys = rows - back - block.keys.start
            heads = np.array(self.selected.heads)[:, None]
            found = block.weights[heads, rows - block.queries.start, keys]
            self._sums[name][at] += found.sum(axis=1, dtype=np.float64)

    def means(self) -> dict[str, Array]:
        """Return the means over the rows of each score."""
        rows = {"previous": 2 * self._block - 1}
        return {name: sums / rows.get(name, self._block) for name, sums in self._sums.items()}


def make_probe(model: Model, encoded: Encoded, selected: Heads, seed: int) -> Probe:
    """Draw the sequences.

    Args:
        model: whose vocabulary and length they must fit.
        encoded: any text, for the special tokens around it.
        selected: layers and heads.
        seed: same seed, same tokens.

    Raises:
        InputProblem: the model takes too few tokens, or has too few.
    """
    before, after = special_ends(encoded)
    room = model.spec.n_positions
    ids = ordinary_ids(model)
    block = min(BLOCK, len(ids))
    if room is not None:
        block = min(block, (room - len(before) - len(after)) // 2)
    if block < LEAST:
        raise InputProblem(
            f"--probe: {model.name} has {len(ids)} ordinary tokens and takes "
            f"{room or 'any number of'} at once; a block of at least {LEAST} different tokens, "
            "twice, is needed."
        )
    random = np.random.Generator(np.random.PCG64(seed))
    sequences = []
    for _ in range(SEQUENCES):
        drawn = random.choice(ids, block, replace=False).tolist()
        sequences.append((*before, *drawn, *drawn, *after))
    observers = tuple(Repeats(selected, len(before), block) for _ in sequences)
    return Probe(seed, block, tuple(sequences), observers)


def special_ends(encoded: Encoded) -> tuple[list[int], list[int]]:
    """Return the ids of the special tokens that stand before and after a text."""
    ordinary = [token.index for token in encoded.tokens if not token.added] or [0]
    return encoded.ids[: ordinary[0]], encoded.ids[ordinary[-1] + 1 :]


def ordinary_ids(model: Model) -> Int[Array, " token"]:
    """Return the ids that a probe may draw: in the vocabulary and the table, and not special."""
    n = min(model.spec.vocab_size, model.tokenizer.vocab_size)
    return np.array([i for i in range(n) if model.tokenizer.is_ordinary(i)], np.int64)
