"""explain: the whole computation of one row of attention, with the numbers of the user's text."""

from __future__ import annotations

import numpy as np

from attncli.analyses.explain_choice import Choice, choose
from attncli.analyses.explain_result import (
    block_step,
    mix_step,
    output_step,
    softmax_step,
)
from attncli.analyses.explain_score import (
    Walk,
    embed_step,
    norm_step,
    product_step,
    project_step,
    residual_step,
    score_step,
)
from attncli.analyses.explanation import Explanation
from attncli.analyses.sides import Sides, choose_attention, stack_of
from attncli.analyses.trace import Row, Trace
from attncli.display import labels
from attncli.errors import UsageProblem
from attncli.model.load import Model
from attncli.model.observe import Observer
from attncli.model.params import LayerParams, Workspace
from attncli.model.position import bias_for
from attncli.model.spec import StackSpec
from attncli.model.stack import ENCODER
from attncli.results import RANDOM_NOTE, Label
from attncli.selection import Attention, Heads
from attncli.tokenize import Encoded

Array = np.ndarray


def explain_row(
    model: Model,
    encoded: Encoded,
    heads: Heads,
    query: str,
    *,
    key: str | None = None,
    target: Encoded | None = None,
    attention: Attention | None = None,
    top: int = 5,
    brief: bool = False,
    line: int | None = None,
) -> Explanation:
    """Follow one query through one head.

    Args:
        model: what to run.
        encoded: the text as `model.encode` gives it.
        heads: layers and heads to choose from; one is shown.
        query: word or token index of the row.
        key: likewise of the key that is followed; None for the one that adds most.
        target: what the decoder of an encoder-decoder reads.
        attention: which attention of an encoder-decoder; None for what suits the texts.
        top: keys that tables list.
        brief: leave sentences and formulae out of tables.
        line: line of a batch the text came from.

    Raises:
        UsageProblem: a word that is not in its text, an attention the model has not, an engine
            that does not show the steps.
    """
    if model.engine != "numpy":
        raise UsageProblem(
            f"explain: --engine {model.engine} does not show the steps of its arithmetic; leave "
            "--engine out."
        )
    attention = choose_attention(model, attention, has_target=target is not None)
    sides, stack = Sides(attention, encoded, target), stack_of(model.spec, attention)
    chosen = choose(model, sides, stack, heads, query, key)
    trace = Trace(chosen.layer, chosen.query)
    source = SourceState(0 if model.spec.encoder is None else model.spec.encoder.n_layers)
    observers: list[Observer] = [trace, source] if sides.is_cross else [trace]
    model.run([sides.job(model.spec, observers)])
    assert trace.row is not None
    shown = [labels(side.tokens) for side in (sides.queries, sides.keys)]
    kind = "cross" if sides.is_cross else "attn"
    prefix = ENCODER if attention == "encoder" else ""
    sinks = model.params.get(f"{prefix}{chosen.layer}.{kind}.sinks")
    layer = Workspace(model.params, prefix).layer(chosen.layer)
    if kind == "attn" and not trace.row.reach.start <= chosen.key < trace.row.reach.stop:
        _add_bias(model, stack, prefix, layer, trace.row, chosen)
    walk = Walk(
        trace=trace,
        row=trace.row,
        stack=stack,
        layer=chosen.layer,
        head=chosen.head,
        query=chosen.query,
        key=chosen.key,
        names=(shown[0][chosen.query], shown[1][chosen.key]),
        key_input=source.state[chosen.key]
        if sides.is_cross
        else trace.steps["attn_in"][chosen.key],
        kind=kind,
        has=layer.__contains__,
        sink=None if sinks is None else float(sinks[chosen.head]),
    )
    keys = [
        Label(label, token.special, token.index)
        for label, token in zip(shown[1], sides.keys.tokens, strict=True)
    ]
    steps = [
        embed_step(walk),
        residual_step(walk),
        norm_step(walk),
        project_step(walk),
        product_step(walk),
        score_step(walk),
        softmax_step(walk, keys, top),
        mix_step(walk, keys, top),
        output_step(walk, keys, top),
        block_step(walk),
    ]
    return Explanation(
        card=model.card(decoder=target is not None),
        sides=sides,
        layer=chosen.layer,
        head=chosen.head,
        kv_head=walk.kv_head,
        query=chosen.query,
        key=chosen.key,
        steps=tuple(step for step in steps if step is not None),
        brief=brief,
        notes=_notes(model, sides, chosen, walk),
        line=line,
    )


def _add_bias(
    model: Model, stack: StackSpec, prefix: str, layer: LayerParams, row: Row, chosen: Choice
) -> None:
    """Set what position would add for a key that is so far out of sight that none computed it."""
    n = row.k.shape[1]
    bias = bias_for(stack, model.params, prefix, layer, n, n)
    if bias is not None:
        query, key = (slice(at, at + 1) for at in (chosen.query, chosen.key))
        row.bias[:, chosen.key] = bias(query, key, row.q[:, None], row.k)[:, 0, 0]


class SourceState(Observer):
    """Keeps the encoder's output, which cross-attention reads."""

    stack = "encoder"

    def __init__(self, last: int) -> None:
        """Say which state is the last."""
        self.states = frozenset({last})
        self.state = np.zeros((0, 0), np.float32)

    def on_state(self, index: int, state: Array) -> None:
        """Keep it."""
        self.state = state.copy()


def _notes(model: Model, sides: Sides, chosen: Choice, walk: Walk) -> tuple[str, ...]:
    notes = [RANDOM_NOTE] if model.random else []
    notes += sides.source.notes
    notes += chosen.notes
    query, key = walk.names
    if walk.masked and walk.stack.causal and chosen.key > chosen.query:
        notes.append(
            f"“{key}” stands after “{query}”: a causal model has not read it yet, so this row "
            "cannot depend on it"
        )
    elif walk.masked:
        notes.append(
            f"“{key}” is out of reach of “{query}”: this layer sees "
            f"{walk.stack.layers[walk.layer].window} tokens"
        )
    return tuple(notes)
