"""The output head: states to logits over the vocabulary, in chunks of rows of its table.

A vocabulary of 262,144 tokens and a width of 640 are 671 MB of float32; only some rows are in
memory at a time, and what is kept is the softmax's normaliser, the entropy and the largest logits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attncli._shapes import Float, Int
from attncli.errors import ModelProblem
from attncli.model.ffn import affine
from attncli.model.ops import ACTIVATIONS, layer_norm
from attncli.model.params import Params
from attncli.model.spec import HeadSpec

Array = np.ndarray
CHUNK = 4_000_000
"""Numbers of the table that are in memory together."""


@dataclass(frozen=True, slots=True)
class Scores:
    """What is kept of the logits of some states."""

    ids: Int[Array, "row top"]
    """Tokens with the largest logits, the largest first; of equal ones the lower id."""
    logits: Float[Array, "row top"]
    log_sum: Float[Array, " row"]
    """log Σ exp(logit) over the whole table: probability = exp(logit - log_sum)."""
    entropy: Float[Array, " row"]
    """-Σ p log p over the whole table, in nats."""
    wanted: Float[Array, " row"] | None = None
    """Logit of the token that was asked for."""
    ranks: Int[Array, " row"] | None = None
    """1 for the largest logit, of the token that was asked for."""

    def part(self, rows: slice) -> Scores:
        """Return those of some states."""
        return Scores(
            self.ids[rows],
            self.logits[rows],
            self.log_sum[rows],
            self.entropy[rows],
            None if self.wanted is None else self.wanted[rows],
            None if self.ranks is None else self.ranks[rows],
        )

    @property
    def probabilities(self) -> Float[Array, "row top"]:
        """Softmax over all rows of the table, padded ones included, of the largest logits."""
        return np.exp(self.logits - self.log_sum[:, None])


@dataclass(frozen=True, slots=True)
class Head:
    """An output head that is ready to use."""

    spec: HeadSpec
    params: Params

    @property
    def vocab_size(self) -> int:
        """Rows of the table, which may be more than there are tokens."""
        return self.params.sources["head.token.weight"].shape[0]

    def features(self, states: Float[Array, "row d_model"]) -> Float[Array, "row width"]:
        """Return what meets the table: norm(activation(x W + b)), or parts of it."""
        x = states
        if "head.dense.weight" in self.params:
            x = affine(x, self.params.linear("head.dense"))
        if self.spec.activation is not None:
            x = ACTIVATIONS[self.spec.activation](x)
        if "head.norm.weight" in self.params:
            x = layer_norm(x, *self.params.linear("head.norm"), self.spec.eps)
        return x

    def chunks(
        self, states: Float[Array, "row d_model"]
    ) -> Iterator[tuple[int, Float[Array, "row token"]]]:
        """Yield the first token of each chunk and the chunk's logits.

        Raises:
            ModelProblem: a logit is no finite number.
        """
        x = self.features(states)
        step = max(1, CHUNK // x.shape[1])
        for start in range(0, self.vocab_size, step):
            yield start, self._logits(x, slice(start, min(start + step, self.vocab_size)))

    def _logits(self, x: Float[Array, "row width"], rows: slice) -> Float[Array, "row token"]:
        tensor = self.params.sources["head.token.weight"].tensor
        with np.errstate(over="ignore", invalid="ignore"):  # seen below
            logits: Array = x @ self.params.store.rows(tensor, rows).T
        bias = self.params.get("head.bias")
        if bias is not None:
            logits += bias[rows]
        if self.spec.scale != 1.0:
            logits *= np.float32(self.spec.scale)
        if self.spec.softcap is not None:
            cap = np.float32(self.spec.softcap)
            logits = cap * np.tanh(logits / cap)
        if not np.isfinite(logits).all():
            raise ModelProblem(
                f"{self.params.store.path}: the output head gives values that are no numbers; "
                "its tensors are damaged."
            )
        return logits

    def read(
        self,
        states: Float[Array, "row d_model"],
        top: int,
        wanted: Int[Array, " row"] | None = None,
    ) -> Scores:
        """Return the largest logits of each state and the normaliser of its softmax.

        Args:
            states: the last states, or earlier ones after the final norm.
            top: how many logits to keep; at most the vocabulary.
            wanted: for each state a token whose rank is asked for.

        Raises:
            ModelProblem: a logit is no finite number.
        """
        n, top = len(states), min(top, self.vocab_size)
        ids = np.zeros((n, 0), np.int64)
        largest = np.zeros((n, 0), np.float32)
        peak = np.full(n, -np.inf)
        # Σ exp(z - peak) and Σ z exp(z - peak), of the logits z so far
        total, weighted = np.zeros(n), np.zeros(n)
        reference = None if wanted is None else self._of(states, wanted)
        above = np.zeros(n, np.int64)
        for start, logits in self.chunks(states):
            if reference is not None and wanted is not None:
                tokens = np.arange(start, start + logits.shape[1])
                own = tokens == wanted[:, None]
                larger = logits > reference[:, None]
                equal = (logits == reference[:, None]) & (tokens < wanted[:, None])
                above += ((larger | equal) & ~own).sum(axis=1)
            new_peak = np.maximum(peak, logits.max(axis=1))
            shrink = np.exp(peak - new_peak)
            parts = np.exp(logits - new_peak[:, None])
            total = total * shrink + parts.sum(axis=1)
            weighted = weighted * shrink + np.einsum("rt,rt->r", parts, logits)
            peak = new_peak
            ids, largest = _merge(ids, largest, start, logits, top)
        log_sum = peak + np.log(total)
        entropy = np.maximum(log_sum - weighted / total, 0.0)
        return Scores(
            ids, largest, log_sum, entropy, reference, above + 1 if wanted is not None else None
        )

    def _of(
        self, states: Float[Array, "row d_model"], tokens: Int[Array, " row"]
    ) -> Float[Array, " row"]:
        """Return the logit of one token for each state."""
        found = np.empty(len(states), np.float32)
        x = self.features(states)
        for token in np.unique(tokens).tolist():
            rows = tokens == token
            found[rows] = self._logits(x[rows], slice(token, token + 1))[:, 0]
        return found


def _merge(
    ids: Int[Array, "row kept"],
    logits: Float[Array, "row kept"],
    start: int,
    chunk: Float[Array, "row token"],
    top: int,
) -> tuple[Int[Array, "row top"], Float[Array, "row top"]]:
    """Add a chunk's largest logits to those of the tokens before it."""
    if chunk.shape[1] > top:
        # all that reach the top, so that of equal ones the lower ids are chosen below
        bound = np.partition(chunk, -top, axis=1)[:, -top]
        width = int((chunk >= bound[:, None]).sum(axis=1).max())
        places = (
            np.argsort(-chunk, axis=1, kind="stable")[:, :width]
            if width > top
            else (np.sort(np.argpartition(chunk, -top, axis=1)[:, -top:], axis=1))
        )
    else:
        places = np.broadcast_to(np.arange(chunk.shape[1]), chunk.shape)
    ids = np.concatenate([ids, places + start], axis=1)
    logits = np.concatenate([logits, np.take_along_axis(chunk, places, axis=1)], axis=1)
    order = np.argsort(-logits, axis=1, kind="stable")[:, :top]
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(logits, order, axis=1)


def find_head(params: Params) -> Head | None:
    """Return a model's output head, or None when its checkpoint has none.

    Raises:
        ModelProblem: a part of the head is missing, has another shape, or is used by nobody.
    """
    found = params.find_head()
    return None if found is None else Head(*found)
