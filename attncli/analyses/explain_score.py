"""The first half of the walk: from the embedding table to the score of one query and one key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attncli._shapes import Float
from attncli.analyses.explanation import Listing, Number, Step, Vector
from attncli.analyses.reduction import cosine
from attncli.analyses.trace import Row, Trace
from attncli.model.spec import StackSpec
from attncli.results import Column

Array = np.ndarray

DIMENSIONS = 6
"""Dimensions of q·k that tables show."""


@dataclass(frozen=True, slots=True)
class Walk:
    """What the steps are made of."""

    trace: Trace
    row: Row
    stack: StackSpec
    layer: int
    head: int
    query: int
    key: int
    names: tuple[str, str]
    """Query and key, as people read them."""
    key_input: Float[Array, " d_model"]
    """What key and value of the key's token are projected from."""
    kind: str
    """attn or cross."""
    has: Callable[[str], bool]
    """Tells whether the layer has a parameter, such as attn.q.bias."""
    sink: float | None
    """Score of the head's learned sink."""

    @property
    def kv_head(self) -> int:
        """Key/value head that the head reads."""
        return self.head // self.row.group

    @property
    def before(self) -> Float[Array, " d_model"]:
        """Residual stream of the query as it enters this attention."""
        name = "resid_mid" if self.kind == "cross" else "resid_pre"
        return self.trace.steps[name][self.query]

    @property
    def state_0(self) -> Float[Array, " d_model"]:
        """The query's embedding, as it enters the first layer."""
        return embedding(self.trace.embedding)["state_0"]

    @property
    def scale(self) -> float:
        """Factor on q·k."""
        own = self.stack.layers[self.layer].scale
        return self.stack.scale if own is None else own

    @property
    def masked(self) -> bool:
        """True when the query cannot see the key."""
        return bool(np.isneginf(self.row.scores[self.head, self.key]))

    @property
    def score(self) -> float | None:
        """The score, None where it is masked."""
        return None if self.masked else float(self.row.scores[self.head, self.key])

    def head_part(self, role: str) -> Float[Array, " head_dim"]:
        """Return the head's part of a projection: q of the query, k or v of the key."""
        values = self.trace.steps[f"{self.kind}.{role}"]
        at, head = (self.query, self.head) if role[0] == "q" else (self.key, self.kv_head)
        dim = self.stack.head_dim
        return values[at, head * dim : (head + 1) * dim]


def embedding(steps: dict[str, Array]) -> dict[str, Array]:
    """Return the parts of the embedding by name, with their sum and what enters the first layer."""
    found = dict(steps)
    base = next(steps[n] for n in ("token_proj", "scaled", "token") if n in steps)
    added = [steps[name] for name in ("position", "type") if name in steps]
    total = base
    for part in added:
        total = total + part
    if added:
        found["sum"] = total
    last = [found.pop(name) for name in ("embed_norm", "embed_proj") if name in steps]
    if len(last) > 1:
        found["embed_norm"] = last[0]
    found["state_0"] = last[-1] if last else total
    return found


EMBEDDED = {
    "token": "row of the token table",
    "scaled": "… times the model's factor",
    "token_proj": "… widened by a matrix",
    "position": "row of the position table",
    "type": "row of the segment table",
    "sum": "their sum",
    "embed_norm": "the sum, normalised",
    "state_0": "the embedding x₀",
}


def embed_step(walk: Walk) -> Step:
    """Token, position and segment rows become the embedding."""
    parts = embedding(walk.trace.embedding)
    order = [name for name in EMBEDDED if name in parts]
    names = [name for name in order if name in ("position", "type")]
    formula = "x₀ = " + " + ".join(["token row", *(f"{name} row" for name in names)])
    formula += ", normalised" if "embed_norm" in walk.trace.embedding else ""
    formula += ", widened by a matrix" if "embed_proj" in walk.trace.embedding else ""
    return Step(
        "embedding",
        "look the token up",
        f"“{walk.names[0]}” becomes a vector: its row of the embedding table"
        + (", plus rows that say where it stands" if "position" in parts else "")
        + ". So far the other words of the text play no part.",
        formula,
        tuple(Vector(name, EMBEDDED[name], parts[name]) for name in order),
    )


def residual_step(walk: Walk) -> Step:
    """What the layers below made of the token."""
    x = walk.before
    below = f"{walk.layer} layer" + ("s" if walk.layer != 1 else "")
    what = f"After {below} below" if walk.layer else "No layer stands below"
    what += ", and this layer's self-attention," if walk.kind == "cross" else ""
    if walk.layer or walk.kind == "cross":
        sentence = f"{what} the vector has taken up other words: this is what enters."
    else:
        sentence = f"{what}: the embedding itself enters."
    return Step(
        "residual",
        f"what enters layer {walk.layer}",
        sentence,
        f"x = state of “{walk.names[0]}” after layer {walk.layer - 1}" if walk.layer else "x = x₀",
        (Vector("x", "residual stream x", x),),
        (
            Number(
                "cosine_to_embedding", "cosine of x to the embedding", cosine_of(x, walk.state_0)
            ),
        ),
    )


def norm_step(walk: Walk) -> Step | None:
    """The norm in front of the attention, where there is one."""
    name = "cross_in" if walk.kind == "cross" else "attn_in"
    x, y = walk.before, walk.trace.steps[name][walk.query]
    if np.array_equal(x, y):
        return None
    rms = walk.stack.norm == "rms"
    formula = "y = x / √mean(x²)" if rms else "y = (x - mean) / √variance"
    if walk.has(f"{name}.weight"):
        offset = walk.stack.norm_offset
        formula += f" · (weight + {offset:g})" if offset else " · weight"
    formula += " + bias" if walk.has(f"{name}.bias") else ""
    return Step(
        "norm",
        "normalise",
        "The vector is brought to a standard size, so that long and short ones are read alike.",
        formula,
        (Vector("y", "y", y),),
    )


def project_step(walk: Walk) -> Step:
    """Query, key and value, turned by their positions where the model does that."""
    name = "cross_in" if walk.kind == "cross" else "attn_in"
    entering = walk.trace.steps[name][walk.query]
    query, key = walk.names
    vectors = [Vector("query_input", f"what is read of “{query}”", entering)]
    vectors += [Vector("key_input", f"what is read of “{key}”", walk.key_input)]
    steps = walk.trace.steps
    for role, text in (("q", query), ("k", key)):
        vectors.append(Vector(role, f"{role} of “{text}”", walk.head_part(role)))
        if f"{walk.kind}.{role}_norm" in steps and not np.array_equal(
            steps[f"{walk.kind}.{role}"], steps[f"{walk.kind}.{role}_norm"]
        ):
            normed = walk.head_part(f"{role}_norm")
            vectors.append(Vector(f"{role}_norm", f"{role}, normalised", normed))
    rotary = walk.stack.layers[walk.layer].rope is not None and walk.kind == "attn"
    q, k = final_q(walk), walk.row.k[walk.kv_head, walk.key]
    if rotary:
        vectors.append(Vector("q_rotated", f"q, turned for position {walk.query}", q))
        vectors.append(Vector("k_rotated", f"k, turned for position {walk.key}", k))
    vectors.append(Vector("v", f"v of “{key}”", walk.head_part("v")))
    shared = walk.row.group > 1
    sentence = (
        f"The query says what “{query}” looks for, the key what “{key}” offers, the value what it "
        "hands over. Each is the vector times a matrix that was learned"
    )
    sentence += f"; key/value head {walk.kv_head} serves {walk.row.group} heads" if shared else ""
    sentence += ". Query and key are then turned by their positions" if rotary else ""
    clip = walk.stack.qkv_clip
    sentence += f"; numbers beyond ±{clip:g} are clipped" if clip is not None else ""
    return Step(
        "project",
        f"query, key and value of head {walk.head}",
        f"{sentence}.",
        f"{_projections(walk)}    (this head's columns)",
        tuple(vectors),
    )


def _projections(walk: Walk) -> str:
    """Return the formulae of q, k and v, with the biases that there are."""
    name = "cross_in" if walk.kind == "cross" else "attn_in"
    read = "y" if walk.has(f"{name}.weight") or name in walk.stack.plain_norms else "x"
    source = "source" if walk.kind == "cross" else read
    return "    ".join(
        f"{role} = {source if role != 'q' else read} W_{role.upper()}"
        + (f" + b_{role.upper()}" if walk.has(f"{walk.kind}.{role}.bias") else "")
        for role in "qkv"
    )


def final_q(walk: Walk) -> Float[Array, " head_dim"]:
    """Return the query as it meets the keys, without the scale."""
    if walk.scale == 0:
        return walk.head_part("q")
    q: Array = walk.row.q[walk.head] / np.float32(walk.scale)
    return q


def product_step(walk: Walk) -> Step:
    """The products of each dimension, largest first."""
    q, k = final_q(walk), walk.row.k[walk.kv_head, walk.key]
    products = q.astype(np.float64) * k
    order = np.argsort(-np.abs(products), kind="stable")
    running = np.cumsum(products[order])
    rows = [
        (int(d), float(q[d]), float(k[d]), float(products[d]), float(total))
        for d, total in zip(order, running, strict=True)
    ]
    left = len(rows) - DIMENSIONS
    rest = None
    if left > 0:
        rest = (f"{left} more", None, None, float(products[order[DIMENSIONS:]].sum()), rows[-1][4])
    return Step(
        "product",
        "do they match? dimension by dimension",
        "Query and key are multiplied number by number; where both are large with the same sign, "
        "that dimension speaks for a match, with opposite signs against it.",
        "q·k = Σ_d q_d k_d",
        numbers=(Number("qk", "q·k, the sum", float(running[-1])),),
        listing=Listing(
            "dimensions",
            [
                Column("dimension"),
                Column("q", "number"),
                Column("k", "number"),
                Column("q × k", "number"),
                Column("sum so far", "number", priority=60),
            ],
            ("dimension", "q", "k", "product", "running"),
            rows,
            DIMENSIONS,
            rest,
        ),
    )


def score_step(walk: Walk) -> Step:
    """From q·k to the score: scale, soft cap, position, mask."""
    q, k = final_q(walk), walk.row.k[walk.kv_head, walk.key]
    product = float(q.astype(np.float64) @ k)
    value = product * walk.scale
    numbers = [
        Number("qk", "q·k", product),
        Number("scale", "scale", float(walk.scale)),
        Number("scaled", "q·k × scale", value),
    ]
    formula = "score = q·k × scale"
    sentence = "The sum is scaled, so that it does not grow with the width of the head"
    if walk.scale == 1:
        sentence = "This model learned to do without a scale: the factor is 1"
    if walk.stack.softcap is not None:
        cap = walk.stack.softcap
        value = float(cap * np.tanh(value / cap))
        numbers += [
            Number("cap", "cap", float(cap)),
            Number("capped", "cap × tanh(… / cap)", value),
        ]
        formula = "score = cap · tanh(q·k × scale / cap)"
        sentence += ", and softly capped"
    if walk.stack.position_bias is not None and walk.kind == "attn":
        bias = float(walk.row.bias[walk.head, walk.key])
        numbers.append(Number("position_bias", "position adds", bias))
        formula += " + position"
        sentence += "; what the distance of the two says is added"
    if walk.masked:
        sentence += ". But the query cannot see this key: it is masked, whatever the two say"
        formula += ", then -∞ by the mask"
    numbers.append(Number("score", "score", walk.score))
    return Step("score", "the score", f"{sentence}.", formula, numbers=tuple(numbers))


def cosine_of(a: Float[Array, " d"], b: Float[Array, " d"]) -> float:
    """Return the cosine of two vectors, -1 to 1."""
    return float(cosine(a[None], b[None])[0])
