"""Runs the texts of a comparison and keeps of them no more than it needs.

Of each followed word one vector a state is kept, of all other tokens nothing; so the memory grows
with the places of the word (states × d_model × 4 bytes each: 11 kB on the bundled model), and a run
holds BATCH_TOKENS tokens at a time, however many texts there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attncli._shapes import Float
from attncli.analyses.baseline import Baseline
from attncli.analyses.comparison_parts import Occurrence
from attncli.analyses.measures import Measuring, start_measuring
from attncli.analyses.reduction import Reduction, States
from attncli.analyses.sides import reading_job
from attncli.model.forward import Job
from attncli.model.load import Model
from attncli.model.observe import Observer
from attncli.selection import By, Heads
from attncli.tokenize import Encoded

Array = np.ndarray

BATCH_TOKENS = 2_048
"""Tokens that run together; a longer text runs alone."""


class WordStates(Observer):
    """Keeps the states of chosen words of one text: of each the mean over its pieces."""

    def __init__(
        self,
        kept: Float[Array, "word state d_model"],
        places: Sequence[int],
        pieces: Sequence[tuple[int, ...]],
    ) -> None:
        """Take the memory to fill.

        Args:
            kept: one row a word, of all texts.
            places: rows of the words of this text.
            pieces: tokens of each of them.
        """
        self.states = frozenset(range(kept.shape[1]))
        self._kept, self._words = kept, list(zip(places, pieces, strict=True))

    def on_state(self, index: int, state: Array) -> None:
        """Keep the words' vectors of one state."""
        for place, tokens in self._words:
            self._kept[place, index] = state[list(tokens)].mean(axis=0)


@dataclass(frozen=True, slots=True)
class Reader:
    """What one occurrence reads, once the runs are over."""

    reduction: Reduction
    measuring: Measuring | None = None
    """Rollout or value-zeroing, where one of them is asked for."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a comparison keeps of its runs."""

    vectors: Float[Array, "occurrence state d_model"]
    anchors: Float[Array, "anchor state d_model"]
    readers: Sequence[Reader]
    """What each occurrence reads; empty when nobody asked."""
    whole: Sequence[Float[Array, "state _ d_model"]]
    """All states of every text; empty when nobody asked."""
    baseline: Baseline


def gather(
    model: Model,
    texts: Sequence[Encoded],
    occurrences: Sequence[Occurrence],
    anchors: Sequence[tuple[Encoded, tuple[int, ...]]],
    *,
    reading: Heads | None,
    by: By,
    whole: bool,
) -> Gathered:
    """Run texts, anchors and the sample of the baseline, a batch at a time.

    A text that holds none of the occurrences does not run.

    Args:
        model: what to run.
        texts: encoded texts.
        occurrences: places of the followed words.
        anchors: encoded, each with the tokens that are the anchor.
        reading: heads whose attention from the occurrences is kept; None for none.
        by: measure that is kept of it beside weight and contribution.
        whole: keep all states of every token of all texts.
    """
    n_layers, d_model = model.spec.reader.n_layers, model.spec.reader.d_model
    vectors = np.zeros((len(occurrences), n_layers + 1, d_model), np.float32)
    beside = np.zeros((len(anchors), n_layers + 1, d_model), np.float32)
    readers = [_reader(model, texts, o, reading, by) for o in occurrences] if reading else []
    states = [States(n_layers) for _ in texts] if whole else []
    places: dict[int, list[int]] = {at: [] for at in range(len(texts))}
    for number, occurrence in enumerate(occurrences):
        places[occurrence.text].append(number)
    jobs = []
    for at, numbers in places.items():
        observers: list[Observer] = [*states[at : at + 1]]
        if numbers:
            pieces = [occurrences[number].tokens for number in numbers]
            observers.append(WordStates(vectors, numbers, pieces))
        for reader in (readers[number] for number in numbers if readers):
            observers.append(reader.reduction)
            observers += [] if reader.measuring is None else [reader.measuring.observer]
        if observers:
            jobs.append(reading_job(model.spec, texts[at], observers))
    for number, (text, tokens) in enumerate(anchors):
        observer = WordStates(beside, [number], [tokens])
        jobs.append(reading_job(model.spec, text, [observer]))
    baseline = Baseline(model)
    for batch in batches([*jobs, *baseline.jobs()]):
        model.run(batch)
    return Gathered(vectors, beside, readers, [s.stacked() for s in states], baseline)


def batches(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Cut a list of runs into parts of at most BATCH_TOKENS tokens, or of one text."""
    batch: list[Job] = []
    n = 0
    for job in jobs:
        length = len(job.ids) + len(job.source)
        if batch and n + length > BATCH_TOKENS:
            yield batch
            batch, n = [], 0
        batch.append(job)
        n += length
    if batch:
        yield batch


def _reader(
    model: Model, texts: Sequence[Encoded], occurrence: Occurrence, heads: Heads, by: By
) -> Reader:
    rows = np.array(sorted(occurrence.tokens), dtype=np.int64)
    n = len(texts[occurrence.text].tokens)
    measuring = start_measuring(by, model, model.spec.reader, heads, rows, n)
    return Reader(Reduction(heads, rows, n), measuring)
