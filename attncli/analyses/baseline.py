"""How alike two random words are: without it a cosine says nothing.

Contextual embeddings of many models share a direction, so unrelated words can have a cosine of
.5 or .9. The baseline of a state is the mean cosine over pairs of different words that stand in
different sentences of a fixed sample (its lines are below). Source: Ethayarajh 2019, section
3.2 (uniformly sampled words there; a fixed sample here, so that results repeat).
"""

from __future__ import annotations

import numpy as np

from attncli._shapes import Bool, Float
from attncli.analyses.reduction import States
from attncli.analyses.sides import reading_job
from attncli.errors import InputProblem
from attncli.model.forward import Job
from attncli.model.load import Model
from attncli.tokenize import Encoded

Array = np.ndarray

SAMPLE = (
    "The old bridge crosses a narrow river near the village.",
    "She wrote a short letter to her brother last winter.",
    "Prices of wheat fell after the second harvest.",
    "A yellow cat slept under the kitchen table.",
    "Our train left early because the line was closed.",
    "Doctors measured the pressure of his blood twice.",
    "Children sang loudly while the rain drummed outside.",
    "This program copies every file into an empty folder.",
)
"""Plain sentences on unrelated things."""


class Baseline:
    """Runs along with an analysis and yields the mean cosine of random pairs at each state."""

    def __init__(self, model: Model) -> None:
        """Encode the sample; sentences that the model cannot take are left out."""
        encoded = (_encode(model, line) for line in SAMPLE)
        self._texts = [text for text in encoded if text is not None]
        self._spec = model.spec
        self._observers = [States(model.spec.reader.n_layers) for _ in self._texts]

    def jobs(self) -> list[Job]:
        """Return the jobs to add to a run."""
        return [
            reading_job(self._spec, text, [observer])
            for text, observer in zip(self._texts, self._observers, strict=True)
        ]

    def cosines(
        self, centre: Float[Array, "state d_model"] | None = None
    ) -> Float[Array, " state"] | None:
        """Return the mean cosine over pairs of different words from different sentences.

        None when the vocabulary does not tell the words of the sample apart.

        Args:
            centre: what is subtracted from every vector first, as `mean` gives it.
        """
        vectors, pairs = self._words()
        if not pairs.any():
            return None
        if centre is not None:
            vectors = vectors - centre[:, None]
        lengths = np.sqrt(np.einsum("swd,swd->sw", vectors, vectors))
        vectors = vectors / np.maximum(lengths, np.float32(1e-30))[..., None]
        cosines = vectors @ vectors.transpose(0, 2, 1)
        mean: Array = cosines[:, pairs].mean(axis=1)
        return mean

    def mean(self) -> Float[Array, "state d_model"] | None:
        """Return the mean vector of all words of the sample, at each state.

        The direction that a model's vectors share is most of it; without it cosines spread around
        0. None as for `cosines`.
        """
        vectors, pairs = self._words()
        return vectors.mean(axis=1) if pairs.any() else None

    def _words(self) -> tuple[Float[Array, "state word d_model"], Bool[Array, "word word"]]:
        """Return the vectors of all words, and which pairs are of different words and sentences."""
        states, sentence, names = [], [], []
        for number, (text, observer) in enumerate(zip(self._texts, self._observers, strict=True)):
            stacked = observer.stacked()
            for word, tokens in zip(text.words, text.tokens_by_word(), strict=True):
                if any(char.isalpha() for char in word.text):
                    states.append(word_states(stacked, tokens))
                    sentence.append(number)
                    names.append(" ".join(str(text.ids[token]) for token in tokens))
        if not states:
            return np.zeros((1, 0, 1), np.float32), np.zeros((0, 0), np.bool_)
        where, which = np.array(sentence), np.array(names)
        pairs = (where[:, None] != where) & (which[:, None] != which)
        return np.stack(states, axis=1), pairs


def _encode(model: Model, line: str) -> Encoded | None:
    try:
        return model.encode(line)
    except InputProblem:
        return None


def word_states(stacked: Float[Array, "state token d_model"], tokens: tuple[int, ...]) -> Array:
    """Return the state of a word: the mean over its pieces, [state, d_model]."""
    mean: Array = stacked[:, list(tokens)].mean(axis=1)
    return mean


def top_dimension_share(a: Float[Array, "... d"], b: Float[Array, "... d"]) -> Float[Array, "..."]:
    """Return the largest part of the cosine that a single dimension makes: max a_d b_d / (|a||b|).

    Near the cosine itself, one "rogue" dimension carries it. Source: Timkey and van Schijndel
    2021, section 3.
    """
    lengths = np.sqrt(np.einsum("...d,...d->...", a, a) * np.einsum("...d,...d->...", b, b))
    largest = (a * b).max(axis=-1)
    share: Array = np.divide(largest, lengths, out=np.zeros_like(largest), where=lengths > 0)
    return share
