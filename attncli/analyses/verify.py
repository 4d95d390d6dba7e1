"""verify: run the identities that attention must satisfy on a model of the user's own.

Nothing here knows a family: each identity is computed anew, in float64, from what the forward
pass shows of itself. They catch what a wrong mask, scale, projection or position would do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attncli._shapes import Float
from attncli.analyses.verification import Check, Verification
from attncli.model.forward import Job, run
from attncli.model.load import Model
from attncli.model.observe import AttentionBlock, HeadValues, Observer
from attncli.model.params import Params
from attncli.model.spec import ModelSpec, StackSpec

Array = np.ndarray

TEXT = "The student did not answer the question because it was too difficult."
TOLERANCE = 1e-5
REPEATS = 8
"""Length of the text that is one token over and over."""


class Identities(Observer):
    """Recomputes every number of every layer from those before it, and keeps the worst misses."""

    wants_scores = True

    def __init__(self, stack: StackSpec, n: int, *, which: str) -> None:
        """Watch all layers of one stack over one text of n tokens."""
        self.stack = "encoder" if which == "encoder" else "main"
        self._spec, self._n = stack, n
        self.attention_layers = self.output_layers = frozenset(range(stack.n_layers))
        self._mixed: dict[int, Array] = {}
        self.worst = dict.fromkeys(("scores", "softmax", "rows", "masked", "output"), 0.0)
        self.output_bias: dict[int, Array | None] = {}

    def on_attention(self, block: AttentionBlock) -> None:
        """Check one block."""
        scores = self._scores(block)
        shown = np.asarray(block.scores, np.float64)
        seen = np.isfinite(shown)
        size = max(1.0, float(np.abs(shown[seen]).max()))
        self._note("scores", np.abs(scores - shown)[seen].max() / size)
        top = shown.max(axis=-1, keepdims=True)
        shares = np.exp(shown - top)
        total = shares.sum(axis=-1, keepdims=True)
        weights = np.asarray(block.weights, np.float64)
        sums = weights.sum(axis=-1, keepdims=True)
        # with a learned sink rows sum to less than 1; what is left must be the same for no key
        self._note("softmax", np.abs(weights / sums - shares / total).max())
        self._note("rows", np.abs(sums - 1).max())
        self._note("masked", weights[~seen].max(initial=0.0))
        mixed = self._mixed.setdefault(block.layer, np.zeros((self._n, self._width(block))))
        for head in range(self._spec.n_heads):
            values = np.asarray(_values(block).of(head), np.float64)[block.keys]
            place = self._place(block, head)
            mixed[block.queries, place] += weights[head] @ values

    def on_output(self, layer: int, output: Float[Array, "token d_model"]) -> None:
        """Check the sum over heads and keys against what the layer put out."""
        bias = self.output_bias.get(layer)
        expected = self._mixed.pop(layer) + (0 if bias is None else bias)
        size = max(1.0, float(np.abs(output).max()))
        self._note("output", np.abs(expected - output).max() / size)

    def _scores(self, block: AttentionBlock) -> Array:
        """softcap(q · k) + bias, head by head in float64; q is scaled and rotated already."""
        group = self._spec.n_heads // self._spec.n_kv_heads
        assert block.q is not None, "verify runs attn's own engine"
        assert block.k is not None, "verify runs attn's own engine"
        k = np.repeat(np.asarray(block.k, np.float64), group, axis=0)[:, block.keys]
        scores = np.einsum("hqd,hkd->hqk", np.asarray(block.q, np.float64), k)
        if self._spec.softcap is not None:
            scores = self._spec.softcap * np.tanh(scores / self._spec.softcap)
        return scores if block.bias is None else scores + block.bias

    def _width(self, block: AttentionBlock) -> int:
        o = _values(block).o
        if o is not None:
            return int(o.shape[2])
        return self._spec.n_heads * self._spec.head_dim

    def _place(self, block: AttentionBlock, head: int) -> slice:
        """Without W_O the heads' outputs stand side by side."""
        if _values(block).o is not None:
            return slice(None)
        return slice(head * self._spec.head_dim, (head + 1) * self._spec.head_dim)

    def _note(self, name: str, deviation: float) -> None:
        self.worst[name] = max(self.worst[name], float(deviation))


def _values(block: AttentionBlock) -> HeadValues:
    assert block.values is not None, "verify runs attn's own engine"
    return block.values


class Weights(Observer):
    """Keeps all weights and scores of a short text."""

    wants_scores = True

    def __init__(self, stack: StackSpec, n: int, *, which: str) -> None:
        """Make room for [layer, head, query, key]."""
        self.stack = "encoder" if which == "encoder" else "main"
        self.attention_layers = frozenset(range(stack.n_layers))
        shape = (stack.n_layers, stack.n_heads, n, n)
        self.weights, self.scores = np.zeros(shape), np.full(shape, -np.inf)

    def on_attention(self, block: AttentionBlock) -> None:
        """Copy one block."""
        self.weights[block.layer, :, block.queries, block.keys] = block.weights
        self.scores[block.layer, :, block.queries, block.keys] = block.scores


def verify_model(model: Model, text: str | None = None) -> Verification:
    """Run the identities on a text, and compare with transformers where it is installed.

    Args:
        model: a model of any family; of an encoder-decoder the encoder is verified.
        text: what to run; None for a plain sentence.

    Raises:
        InputProblem: the model cannot take the text.
    """
    from attncli.analyses.reference import compare_with_transformers

    text = TEXT if text is None else text
    encoded = model.encode(text)
    found, reference = compare_with_transformers(model, encoded)
    return Verification(
        card=model.card(),
        text=text,
        n_tokens=len(encoded.ids),
        checks=(*check_identities(model.spec, model.params, encoded.ids), *found),
        reference=reference,
    )


def check_identities(spec: ModelSpec, params: Params, ids: Sequence[int]) -> list[Check]:
    """Run every identity on one text of at least two tokens."""
    subject = _Subject(spec, params)
    identities = Identities(subject.stack, len(ids), which=subject.which)
    for i in range(subject.stack.n_layers):
        identities.output_bias[i] = params.get(f"{subject.prefix}{i}.attn.o.bias")
    subject.run(ids, [identities])
    worst = identities.worst
    sinks = "learned sinks take a share" if subject.has_sinks else ""
    return [
        Check("score", "cap(scale · Σ q k) + bias = score", worst["scores"], TOLERANCE),
        Check("softmax", "exp(score) / Σ exp(score) = weight", worst["softmax"], TOLERANCE),
        Check("rows", "Σ weight = 1", None if sinks else worst["rows"], TOLERANCE, sinks),
        Check("masked keys", "weight = 0", worst["masked"], 0.0),
        Check("heads", "Σ α f(x) + b = attention output", worst["output"], TOLERANCE),
        _causality(subject, ids),
        _distance(subject, ids),
        _company(subject, ids),
    ]


class _Subject:
    """The stack that is verified: the only one, or the encoder of two."""

    def __init__(self, spec: ModelSpec, params: Params) -> None:
        self.spec, self.params = spec, params
        self.which = "main" if spec.encoder is None else "encoder"
        self.stack = spec.encoder or spec.stack
        self.prefix = "" if spec.encoder is None else "encoder."
        self.has_sinks = f"{self.prefix}0.attn.sinks" in params

    def run(self, *texts: Sequence[int] | Sequence[Observer]) -> None:
        """Run texts side by side; ids and observers of each in turn."""
        pairs = zip(texts[::2], texts[1::2], strict=True)
        run(self.spec, self.params, [self._job(ids, observers) for ids, observers in pairs])

    def _job(self, ids: Any, observers: Any) -> Job:
        if self.spec.encoder is not None:
            return Job([], [], observers, source=list(ids))
        return Job(list(ids), [0] * len(ids), observers)

    def weights(self, n: int) -> Weights:
        """Return an observer for a text of n tokens."""
        return Weights(self.stack, n, which=self.which)


def _causality(subject: _Subject, ids: Sequence[int]) -> Check:
    """A later token changes no earlier row."""
    formula = "row i knows tokens 0 … i only"
    if not subject.stack.causal:
        return Check("causality", formula, None, 0.0, "sees both ways")
    other = [*ids[:-1], ids[0] if ids[0] != ids[-1] else ids[-1] - 1 or 1]
    a, b = subject.weights(len(ids)), subject.weights(len(ids))
    subject.run(ids, [a])
    subject.run(other, [b])
    changed = np.abs(a.weights[:, :, :-1] - b.weights[:, :, :-1]).max(initial=0.0)
    return Check("causality", formula, float(changed), 1e-6)


def _distance(subject: _Subject, ids: Sequence[int]) -> Check:
    """One token over and over: scores depend on the distance of two tokens only.

    Source: Gu et al. 2025. Every value is then the same, so every state is, at every layer.
    """
    formula = "one token repeated: score(i, j) = score(i − j)"
    why_not = ""
    if f"{subject.prefix}embed.position" in subject.params or subject.spec.sinusoid:
        why_not = "positions are absolute"
    elif getattr(subject.stack.position_bias, "bfloat16", False):
        why_not = "positions are rounded"
    elif subject.has_sinks:
        why_not = "learned sinks"
    elif f"{subject.prefix}0.conv.weight" in subject.params:
        why_not = "a convolution sees the borders"
    if why_not:
        return Check("distance", formula, None, 0.0, why_not)
    seen = subject.weights(REPEATS)
    subject.run([ids[len(ids) // 2]] * REPEATS, [seen])
    # a bias counted from the first token adds the same to a whole row: compare with the diagonal
    scores = seen.scores - np.diagonal(seen.scores, axis1=2, axis2=3)[..., None]
    size = max(1.0, float(np.abs(scores[np.isfinite(scores)]).max()))
    spread = 0.0
    for offset in range(-(REPEATS - 1), REPEATS):
        diagonal = np.diagonal(scores, offset, axis1=2, axis2=3)
        if np.isfinite(diagonal).all():
            spread = max(spread, float(np.ptp(diagonal, axis=-1).max()))
    return Check("distance", formula, spread / size, 1e-4)


def _company(subject: _Subject, ids: Sequence[int]) -> Check:
    """A text gives the same numbers alone and beside another."""
    alone, beside, other = (subject.weights(len(ids)) for _ in range(3))
    subject.run(ids, [alone])
    subject.run(ids, [beside], ids[::-1], [other])
    changed = float(np.abs(alone.weights - beside.weights).max())
    return Check("company", "a text alone = beside another", changed, TOLERANCE)
