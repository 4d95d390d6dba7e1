"""The second half of the walk: from scores to weights, values, and a new vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attncli.analyses.explain_score import Walk, cosine_of
from attncli.analyses.explanation import Listing, Number, Step, Vector
from attncli.analyses.units import renormalise
from attncli.model.spec import NORM_SLOTS
from attncli.results import Column, Label

Array = np.ndarray


def softmax_step(walk: Walk, labels: Sequence[Label], top: int) -> Step:
    """Scores of all keys become weights."""
    scores, weights = walk.row.scores[walk.head], walk.row.weights[walk.head]
    largest = float(scores.max())
    largest = largest if walk.sink is None else max(largest, walk.sink)
    raised = np.exp(scores.astype(np.float64) - largest)
    order = _order(weights, walk.key, top)
    seen = np.isfinite(scores)
    rows = [
        (
            int(j),
            labels[j],
            float(scores[j]) if seen[j] else None,
            float(raised[j]),
            float(weights[j]),
        )
        for j in order
    ]
    left = order[top:]
    rest = _rest(len(rows), top, [None, None, raised[left].sum(), weights[left].sum()])
    total = float(raised.sum())
    numbers = [Number("largest", "largest score", largest), Number("sum", "Σ exp", total)]
    if walk.sink is not None:
        share = float(np.exp(walk.sink - largest))
        total += share
        numbers[1] = Number("sum", "Σ exp, the sink's in", total)
        numbers += [
            Number("sink_score", "score of the learned sink", walk.sink),
            Number("sink_exp", "its exp", share),
            Number("sink_weight", "its weight, which no key gets", share / total),
        ]
    numbers.append(Number("weight", f"weight on “{walk.names[1]}”", float(weights[walk.key])))
    return Step(
        "softmax",
        "all keys compete",
        "Every key the query can see has a score. Their exponentials, divided by the sum, are the "
        "weights: fractions that add up to 1"
        + (" with the sink's." if walk.sink is not None else "."),
        "weight_j = exp(score_j - max) / Σ exp(score - max)",
        numbers=tuple(numbers),
        listing=Listing(
            "keys",
            [
                Column("", "text"),
                Column("key", "label"),
                Column("score", "number"),
                Column("exp(score - max)", "number", digits=3, priority=60),
                Column("weight", "fraction"),
            ],
            ("key", "text", "score", "exp", "weight"),
            rows,
            min(top, len(rows)),
            rest,
        ),
    )


def mix_step(walk: Walk, labels: Sequence[Label], top: int) -> Step:
    """The weighted sum of values."""
    weights, v = walk.row.weights[walk.head], walk.row.v[walk.kv_head]
    lengths = np.sqrt(np.einsum("kd,kd->k", v, v))
    added = weights * lengths
    order = _order(added, walk.key, top)
    rows = [
        (int(j), labels[j], float(weights[j]), float(lengths[j]), float(added[j])) for j in order
    ]
    rest = _rest(len(rows), top, [None, weights[order[top:]].sum(), None, None])
    return Step(
        "mix",
        "take up what the keys hand over",
        "Each value is multiplied by its weight and all are added. A key with a large weight and a "
        "small value hands over little, as special tokens often do.",
        "mix = Σ_j weight_j v_j",
        (
            Vector("weighted_value", f"weight × v of “{walk.names[1]}”", _weighted(walk)),
            Vector("mix", "mix, the sum over all keys", walk.row.mixes()[walk.head]),
        ),
        listing=Listing(
            "values",
            [
                Column("", "text"),
                Column("key", "label"),
                Column("weight", "fraction"),
                Column("length of v", "number", priority=60),
                Column("weight × length", "number"),
            ],
            ("key", "text", "weight", "value_length", "weighted_length"),
            rows,
            min(top, len(rows)),
            rest,
        ),
    )


def output_step(walk: Walk, labels: Sequence[Label], top: int) -> Step:
    """Through W_O, back to the width of the model; the head beside the others."""
    outputs, whole = walk.row.outputs(), walk.trace.output
    own = outputs[walk.head]
    others = outputs.sum(axis=0) - own
    bias = whole - outputs.sum(axis=0)
    size = max(float(whole.astype(np.float64) @ whole), 1e-30)

    def share(part: Array) -> float:
        return float(part.astype(np.float64) @ whole) / size

    lengths = walk.row.lengths(walk.head)
    shares = renormalise(lengths[None])[0]
    order = _order(shares, walk.key, top)
    rows = [(int(j), labels[j], float(lengths[j]), float(shares[j])) for j in order]
    rest = _rest(len(rows), top, [None, None, shares[order[top:]].sum()])
    has_o = walk.row.o is not None
    return Step(
        "output",
        "back to the width of the model",
        (
            "The mix of the head goes through its part of the output matrix"
            if has_o
            else "The mixes of the heads stand side by side; this model has no output matrix"
        )
        + ", and all heads are added. A share below 0 works against the others.",
        "out_h = mix W_O,h    attention = Σ_h out_h + b_O" if has_o else "attention = [mix_0 …]",
        (
            Vector("head_output", f"output of head {walk.head}", own),
            Vector("attention", "attention output, all heads", whole),
            Vector("output_bias", "its bias", bias),
        ),
        (
            Number("share", f"share of head {walk.head} in it", share(own)),
            Number("share_others", "share of the other heads", share(others)),
            Number("share_bias", "share of the bias", share(bias)),
        ),
        Listing(
            "contributions",
            [
                Column("", "text"),
                Column("key", "label"),
                Column("length added", "number", priority=60),
                Column("contribution", "fraction"),
            ],
            ("key", "text", "length", "contribution"),
            rows,
            min(top, len(rows)),
            rest,
        ),
    )


def block_step(walk: Walk) -> Step:
    """What the rest of the block makes of it, and how far the token moved."""
    steps, before = walk.trace.steps, walk.before
    after = steps["resid_post"][walk.query]
    mid = steps["cross_mid" if walk.kind == "cross" else "resid_mid"][walk.query]
    vectors = [
        Vector("x", "x, what entered", before),
        Vector("attention", "attention output", walk.trace.output),
    ]
    slot = "attn_out"
    if walk.kind == "attn" and (walk.has(f"{slot}.weight") or slot in walk.stack.plain_norms):
        vectors.append(Vector("attention_normed", "… normalised", steps[slot][walk.query]))
    if not walk.stack.parallel:
        vectors.append(Vector("middle", "x and attention together", mid))
    if _crosses(walk):
        crossed = steps["cross_mid"][walk.query]
        vectors.append(Vector("after_cross", "after reading the source", crossed))
    if "ffn_out" in steps:
        fed = steps["ffn_out"][walk.query]
        vectors.append(Vector("feed_forward", "what feed-forward adds", fed))
    if "conv" in steps:
        vectors.append(Vector("convolution", "what neighbours add", steps["conv"][walk.query]))
    vectors.append(Vector("out", "what leaves the block", after))
    state, moved = walk.state_0, cosine_of(before, after)
    at_first, at_last = cosine_of(before, state), cosine_of(after, state)
    numbers = (
        Number("cosine_before_after", "cosine of what entered to what leaves", moved),
        Number("cosine_embedding_before", "cosine to the embedding, before", at_first),
        Number("cosine_embedding_after", "cosine to the embedding, after", at_last),
    )
    return Step(
        "block",
        "a new vector",
        _rest_in_words(walk),
        _rest_as_formula(walk),
        tuple(vectors),
        numbers,
    )


def _crosses(walk: Walk) -> bool:
    """Tell whether the block reads the source text after the attention that is explained."""
    return walk.kind == "attn" and "cross_mid" in walk.trace.steps


def _rest_in_words(walk: Walk) -> str:
    text = "What attention gives is added to what entered"
    text += ", then what the token reads in the source text" if _crosses(walk) else ""
    if "ffn_out" in walk.trace.steps:
        text += ", and each token goes through the feed-forward part on its own"
    else:
        text += "; this model has no feed-forward part"
    text += ", beside a look at its neighbours" if "conv" in walk.trace.steps else ""
    return f"{text}. The cosines say how far the token has moved."


def _rest_as_formula(walk: Walk) -> str:
    """Return how the block goes on; norms are there where the layer has their weights."""
    stack, fed = walk.stack, "ffn_out" in walk.trace.steps
    factor = "" if stack.residual_scale == 1.0 else f"{stack.residual_scale:g} · "
    cross = " + cross-attention" if _crosses(walk) else ""
    if stack.parallel:
        formula = f"out = x + {factor}attention + {factor}feed-forward(x)"
    elif fed:
        own = "" if walk.kind == "cross" else factor
        formula = f"m = x + {own}attention{cross}    out = m + {factor}feed-forward(m)"
    else:
        formula = f"out = x + {factor}attention{cross}"
    formula += " + convolution" if "conv" in walk.trace.steps else ""
    slots = [slot for slot in NORM_SLOTS if slot not in ("attn_in", "cross_in")]
    normed = any(walk.has(f"{slot}.weight") or slot in stack.plain_norms for slot in slots)
    return formula + ("    (norms not written out)" if normed else "")


def _weighted(walk: Walk) -> Array:
    weighted: Array = walk.row.weights[walk.head, walk.key] * walk.row.v[walk.kv_head, walk.key]
    return weighted


def _order(values: Array, key: int, top: int) -> Array:
    """Return all keys, largest first; the chosen one is among the first `top`."""
    order = np.argsort(-values, kind="stable")
    place = int(np.flatnonzero(order == key)[0])
    if place >= top:
        order = np.concatenate([order[: top - 1], [key], np.delete(order, place)[top - 1 :]])
    return order


def _rest(n: int, top: int, sums: Sequence[Any]) -> list[Any] | None:
    """Return a row that stands for the keys that are not shown."""
    if n <= top:
        return None
    cells = [None if value is None else float(value) for value in sums]
    # the first of the columns with numbers says nothing of several keys
    return ["", Label(f"{n - top} more"), *cells[1:]]
