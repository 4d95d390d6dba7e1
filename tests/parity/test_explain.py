"""The walk of `attn explain`: each number follows from those before it, in every family.

Read from the JSON record alone, in float64, with parameters read anew; the ends of the walk are
compared with what transformers computed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli.analyses.explain import explain_row
from attncli.model import attention
from attncli.model.load import Model
from attncli.model.locate.place import Place
from attncli.model.params import Params
from attncli.model.rope import rope_frequencies
from attncli.model.spec import RopeSpec, StackSpec
from attncli.model.stack import ENCODER
from attncli.selection import Heads
from attncli.tokenize import Encoded, TextTokenizer, Token
from attncli.words import split_words
from tests.parity.cases import CASES
from tests.parity.comparison import Golden, read_golden
from tests.toys import word_tokenizer

Array = np.ndarray
TOLERANCE = 1e-5
ANY = TextTokenizer(word_tokenizer())
"""Texts come as ids; no tokenizer is asked."""


def close(found: Any, expected: Any, what: str, size: float = 0.0) -> None:
    """Fail where two numbers or vectors differ by more than the tolerance of their size."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    size = max(1.0, size, float(np.abs(expected).max(initial=0)))
    error = float(np.abs(found - expected).max(initial=0)) / size
    assert error <= TOLERANCE, f"{what}: off by {error:.2g} of its size"


def encoded(ids: list[int], types: list[int] | None = None) -> Encoded:
    """Return a text with a word for each id."""
    text = " ".join(f"w{i}" for i in ids)
    words = split_words(text)
    tokens = [
        Token(at, i, f"w{i}", f"w{i}", word.start, word.end, False, at, 0, kind)
        for at, (i, word, kind) in enumerate(zip(ids, words, types or [0] * len(ids), strict=True))
    ]
    return Encoded(text, tuple(tokens), tuple(words))


class Walker:
    """Follows one record."""

    def __init__(self, record: dict[str, Any], golden: Golden, params: Params, stack: StackSpec):
        self.record, self.golden, self.params, self.stack = record, golden, params, stack
        self.steps = {step["name"]: step for step in record["steps"]}
        self.chosen = record["selection"]
        kind = self.chosen["attention"]
        self.kind = "cross" if kind == "cross" else "attn"
        self.prefix = ENCODER if kind == "encoder" else ""
        self.layer = f"{self.prefix}{self.chosen['layer']}."

    def vector(self, step: str, name: str) -> Array:
        (found,) = [v for v in self.steps[step]["vectors"] if v["name"] == name]
        values = np.array(found["values"])
        close(found["length"], np.sqrt((values**2).sum()), f"length of {step} {name}")
        return values

    def has(self, step: str, name: str) -> bool:
        return step in self.steps and name in [v["name"] for v in self.steps[step]["vectors"]]

    def number(self, step: str, name: str) -> float:
        return self.steps[step]["numbers"][name]

    def column(self, step: str, field: str) -> Array:
        rows = self.steps[step]["list"]["rows"]
        values = [-np.inf if row[field] is None else row[field] for row in rows]
        return np.array(values)

    def by_key(self, step: str, field: str) -> Array:
        values = np.zeros(len(self.steps[step]["list"]["rows"]))
        values[self.column(step, "key").astype(int)] = self.column(step, field)
        return values

    def param(self, name: str) -> Array | None:
        found = self.params.get(name)
        return None if found is None else found.astype(np.float64)

    def affine(self, name: str, x: Array) -> Array:
        y = x @ self.param(f"{name}.weight")
        bias = self.param(f"{name}.bias")
        return y if bias is None else y + bias

    def norm(self, slot: str, x: Array) -> Array:
        weight = self.param(f"{slot}.weight")
        if weight is None and slot.rsplit(".", 1)[-1] not in self.stack.plain_norms:
            return x
        weight = 1.0 if weight is None else weight + self.stack.norm_offset
        centred = x - x.mean(-1, keepdims=True) if self.stack.norm == "layer" else x
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + self.stack.eps) * weight
        bias = self.param(f"{slot}.bias")
        return scaled if bias is None else scaled + bias

    def walk(self) -> None:
        self.embedding()
        self.projection()
        self.score()
        self.weights()
        self.output()
        self.block()

    def embedding(self) -> None:
        spec, query = self.golden.model()[0], self.chosen["query"]
        side = self.record["target"] or self.record
        token = side["tokens"][query]["id"]
        x = self.vector("embedding", "token")
        close(x, self.params.rows(f"{self.prefix}embed.token", [token])[0], "token row")
        if spec.embed_scale != 1.0:
            close(self.vector("embedding", "scaled"), x * spec.embed_scale, "scaled token row")
            x = self.vector("embedding", "scaled")
        if self.has("embedding", "token_proj"):
            close(self.vector("embedding", "token_proj"), self.affine("token_proj", x), "widened")
            x = self.vector("embedding", "token_proj")
        added = [n for n in ("position", "type") if self.has("embedding", n)]
        total = x + sum(self.vector("embedding", name) for name in added)
        if added:
            close(self.vector("embedding", "sum"), total, "sum of the rows")
        end = self.norm(f"{self.prefix}embed_norm", total)
        if f"{self.prefix}embed_proj.weight" in self.params:
            end = self.affine(f"{self.prefix}embed_proj", end)
        close(self.vector("embedding", "state_0"), end, "state 0")
        entering = self.vector("residual", "x")
        if self.chosen["layer"] == 0 and self.kind == "attn":
            close(entering, end, "what enters the first layer")
        cosine = entering @ end / (np.linalg.norm(entering) * np.linalg.norm(end))
        close(self.number("residual", "cosine_to_embedding"), cosine, "cosine to the embedding")

    def projection(self) -> None:
        x, slot = self.vector("residual", "x"), f"{self.layer}{self.kind}_in"
        y = self.norm(slot, x)
        if "norm" in self.steps:
            close(self.vector("norm", "y"), y, "normalised")
        entering = self.vector("project", "query_input")
        close(entering, y, "what the query is projected from")
        sides = (("q", entering, "head"), ("k", self.vector("project", "key_input"), "kv_head"))
        for role, source, which in sides:
            whole = self.affine(f"{self.layer}{self.kind}.{role}", source)
            if self.stack.qkv_clip is not None:
                whole = np.clip(whole, -self.stack.qkv_clip, self.stack.qkv_clip)
            head = self.chosen[which]
            close(self.vector("project", role), self.part(whole, head), role, np.abs(whole).max())
            last = self.vector("project", role)
            if self.has("project", f"{role}_norm"):
                normed = self.qk_norm(f"{self.layer}{self.kind}.{role}_norm", whole)
                close(self.vector("project", f"{role}_norm"), self.part(normed, head), "q/k norm")
                last = self.vector("project", f"{role}_norm")
            rope = self.stack.layers[self.chosen["layer"]].rope
            if rope is not None and self.kind == "attn":
                position = self.chosen["query" if role == "q" else "key"]
                turned = turn(
                    last, rope, position, len((self.record["target"] or self.record)["tokens"])
                )
                close(self.vector("project", f"{role}_rotated"), turned, f"{role}, turned")
        whole = self.affine(f"{self.layer}{self.kind}.v", self.vector("project", "key_input"))
        if self.stack.qkv_clip is not None:
            whole = np.clip(whole, -self.stack.qkv_clip, self.stack.qkv_clip)
        close(self.vector("project", "v"), self.part(whole, self.chosen["kv_head"]), "value")

    def part(self, whole: Array, head: int) -> Array:
        return whole[head * self.stack.head_dim : (head + 1) * self.stack.head_dim]

    def qk_norm(self, slot: str, x: Array) -> Array:
        weight = self.param(f"{slot}.weight")
        if weight.shape == x.shape:
            return self.norm(slot, x)
        heads = x.reshape(-1, self.stack.head_dim)
        return self.norm(slot, heads).reshape(-1)

    def last(self, role: str) -> Array:
        names = [n for n in (f"{role}_rotated", f"{role}_norm", role) if self.has("project", n)]
        return self.vector("project", names[0])

    def score(self) -> None:
        q, k = self.last("q"), self.last("k")
        order = self.column("product", "dimension").astype(int)
        assert sorted(order) == list(range(self.stack.head_dim))
        products = self.column("product", "product")
        close(products, (q * k)[order], "products")
        assert (np.diff(np.abs(products)) <= 1e-6).all()
        close(self.column("product", "running"), np.cumsum(products), "running sum")
        close(self.number("product", "qk"), q @ k, "q·k")
        value = q @ k * self.number("score", "scale")
        own = self.stack.layers[self.chosen["layer"]].scale
        close(self.number("score", "scale"), self.stack.scale if own is None else own, "scale")
        close(self.number("score", "scaled"), value, "scaled")
        if self.stack.softcap is not None:
            value = self.stack.softcap * np.tanh(value / self.stack.softcap)
            close(self.number("score", "capped"), value, "capped")
        value += self.steps["score"]["numbers"].get("position_bias", 0.0)
        if self.number("score", "score") is not None:
            close(self.number("score", "score"), value, "score", np.abs(q) @ np.abs(k))
        assert (self.golden_score() is None) == (self.number("score", "score") is None)
        if self.golden_score() is not None:
            close(self.number("score", "score"), self.golden_score(), "score of transformers", 10)

    def reference(self) -> Any:
        return {"encoder": self.golden.encoder, "cross": self.golden.cross}.get(
            self.chosen["attention"], self.golden
        )

    def golden_score(self) -> float | None:
        c = self.chosen
        score = float(self.reference().scores[c["layer"], c["head"], c["query"], c["key"]])
        return None if np.isneginf(score) else score

    def weights(self) -> None:
        scores = self.by_key("softmax", "score")
        shown = self.number("score", "score")
        assert scores[self.chosen["key"]] == (-np.inf if shown is None else shown)
        raised = np.exp(scores - self.number("softmax", "largest"))
        close(self.by_key("softmax", "exp"), raised, "exp")
        total = raised.sum()
        sinks = self.param(f"{self.layer}{self.kind}.sinks")
        if sinks is not None:
            sink = np.exp(sinks[self.chosen["head"]] - self.number("softmax", "largest"))
            close(self.number("softmax", "sink_exp"), sink, "the sink's exp")
            total += sink
            close(self.number("softmax", "sink_weight"), sink / total, "the sink's weight")
        close(self.number("softmax", "sum"), total, "sum of exp")
        weights = self.by_key("softmax", "weight")
        close(weights, raised / total, "weights")
        close(self.by_key("mix", "weight"), weights, "weights of the mix")
        c = self.chosen
        expected = self.reference().weights[c["layer"], c["head"], c["query"]]
        close(weights, expected, "weights of transformers")
        key = self.chosen["key"]
        weighted = weights[key] * self.vector("project", "v")
        close(self.vector("mix", "weighted_value"), weighted, "weight × v")
        close(self.by_key("mix", "weighted_length")[key], np.linalg.norm(weighted), "its length")

    def output(self) -> None:
        mix, head = self.vector("mix", "mix"), self.chosen["head"]
        o = self.param(f"{self.layer}{self.kind}.o.weight")
        part = o.reshape(self.stack.n_heads, self.stack.head_dim, -1)[head]
        own = self.vector("output", "head_output")
        close(own, mix @ part, "head output")
        bias = self.param(f"{self.layer}{self.kind}.o.bias")
        shown = self.vector("output", "output_bias")
        whole = self.vector("output", "attention")
        close(shown, 0 if bias is None else bias, "bias", np.abs(whole).max())
        close(self.number("output", "share"), own @ whole / (whole @ whole), "share of the head")
        shares = [self.number("output", n) for n in ("share", "share_others", "share_bias")]
        close(sum(shares), 1, "shares together")
        key = self.chosen["key"]
        added = np.linalg.norm(self.vector("mix", "weighted_value") @ part)
        lengths = self.by_key("output", "length")
        close(lengths[key], added, "length that the key adds")
        close(self.by_key("output", "contribution"), lengths / lengths.sum(), "contributions")

    def block(self) -> None:
        x, a = self.vector("block", "x"), self.vector("block", "attention")
        close(x, self.vector("residual", "x"), "what entered")
        close(a, self.vector("output", "attention"), "attention output")
        if self.has("block", "attention_normed"):
            normed = self.norm(f"{self.layer}attn_out", a)
            close(self.vector("block", "attention_normed"), normed, "attention, normalised")
        if not self.stack.parallel:
            residual = "cross_residual" if self.kind == "cross" else "attn_residual"
            a = a if self.kind == "cross" else self.norm(f"{self.layer}attn_out", a)
            scale = 1.0 if self.kind == "cross" else self.stack.residual_scale
            middle = self.norm(f"{self.layer}{residual}", x + scale * a)
            close(self.vector("block", "middle"), middle, "x and attention together")
        out, c = self.vector("block", "out"), self.chosen
        close(out, self.rest(x, a), "what leaves the block")
        reference = self.golden if c["attention"] == "cross" else self.reference()
        last = c["layer"] + 1 == self.stack.n_layers
        state = self.norm(f"{self.prefix}final_norm", out) if last else out
        close(state, reference.resid[c["layer"] + 1, c["query"]], "state of transformers")
        if self.kind == "attn":
            close(x, reference.resid[c["layer"], c["query"]], "earlier state of transformers")
        for name, a, b in (
            ("cosine_before_after", x, out),
            ("cosine_embedding_before", x, self.vector("embedding", "state_0")),
            ("cosine_embedding_after", out, self.vector("embedding", "state_0")),
        ):
            cosine = a @ b / (np.linalg.norm(a) * np.linalg.norm(b))
            close(self.number("block", name), cosine, name)

    def rest(self, x: Array, a: Array) -> Array:
        """Return the output of the block from its parts."""
        names, scale = self.has, self.stack.residual_scale
        fed = self.vector("block", "feed_forward") if names("block", "feed_forward") else 0.0
        if self.stack.parallel:
            out = x + scale * self.norm(f"{self.layer}attn_out", a) + scale * fed
        else:
            name = "after_cross" if names("block", "after_cross") else "middle"
            out = self.vector("block", name)
            if names("block", "feed_forward"):
                out = self.norm(f"{self.layer}ffn_residual", out + scale * fed)
        if names("block", "convolution"):
            out = out + self.vector("block", "convolution")
            out = self.norm(f"{self.layer}conv_residual", out)
        return out


def turn(x: Array, rope: RopeSpec, position: int, n: int) -> Array:
    """Turn pairs as complex numbers."""
    frequencies, factor = rope_frequencies(rope, n)
    turned, half = x.copy(), rope.dim // 2
    first, second = (slice(0, rope.dim, 2), slice(1, rope.dim, 2))
    if not rope.adjacent:
        first, second = slice(0, half), slice(half, rope.dim)
    angle = (np.float32(position) * frequencies).astype(np.float64)
    spun = (x[first] + 1j * x[second]) * np.exp(1j * angle) * factor
    turned[first], turned[second] = spun.real, spun.imag
    return turned


def explained(golden: Golden, attention: str, **choice: Any) -> Walker:
    spec, params = golden.model()
    model = Model("golden", spec, params, ANY, Place("golden", "folder", Path("golden")), False)
    source = encoded(golden.source or golden.ids, None if golden.source else golden.types)
    target = encoded(golden.ids) if attention in ("cross", "self") and golden.source else None
    stack = spec.reader if attention == "encoder" else spec.stack
    heads = Heads((choice["layer"],), (choice["head"],))
    found = explain_row(
        model,
        source,
        heads,
        str(choice["query"]),
        key=str(choice["key"]),
        target=target,
        attention=attention,
    )
    return Walker(found.record(), golden, params, stack)


WALKS = [
    (case.name, attention)
    for case in CASES
    for attention in (("encoder", "self", "cross") if case.source else ("self",))
]


@pytest.mark.parametrize(("name", "attention"), WALKS, ids=["-".join(walk) for walk in WALKS])
def test_every_number_follows_from_those_before_it(name: str, attention: str) -> None:
    golden = read_golden(name)
    spec, _ = golden.model()
    stack = spec.reader if attention == "encoder" else spec.stack
    n_queries = len(golden.source if attention == "encoder" else golden.ids)
    n_keys = len(golden.source if attention in ("encoder", "cross") else golden.ids)
    query, last = n_queries - 1 - (n_queries > 3), stack.n_layers - 1
    head = stack.n_heads - 1
    explained(golden, attention, layer=0, head=0, query=min(1, query), key=0).walk()
    explained(golden, attention, layer=last, head=head, query=query, key=min(1, n_keys - 1)).walk()


def first_cases() -> list[tuple[str, str]]:
    """Return one walk for each family and kind of attention."""
    kind = {case.name: case.model_type for case in CASES}
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for walk in WALKS:
        found.setdefault((kind[walk[0]], walk[1]), walk)
    return list(found.values())


@pytest.mark.parametrize(("name", "attention"), first_cases(), ids=str)
def test_keys_add_up_to_the_mix_and_heads_to_the_output(name: str, attention: str) -> None:
    golden = read_golden(name)
    spec, _ = golden.model()
    stack = spec.reader if attention == "encoder" else spec.stack
    n_keys = len(golden.source if attention in ("encoder", "cross") else golden.ids)
    n_queries = len(golden.source if attention == "encoder" else golden.ids)
    query, last, head = min(3, n_queries - 1), stack.n_layers - 1, stack.n_heads - 1
    walks = [
        explained(golden, attention, layer=last, head=head, query=query, key=key)
        for key in range(n_keys)
    ]
    parts = sum(walker.vector("mix", "weighted_value") for walker in walks)
    close(walks[0].vector("mix", "mix"), parts, "sum of weighted values")
    by_head = [
        explained(golden, attention, layer=last, head=h, query=query, key=0)
        for h in range(stack.n_heads)
    ]
    total = sum(walker.vector("output", "head_output") for walker in by_head)
    total = total + by_head[0].vector("output", "output_bias")
    close(by_head[0].vector("output", "attention"), total, "sum of heads")
    close(
        sum(w.number("output", "share") for w in by_head)
        + by_head[0].number("output", "share_bias"),
        1,
        "shares of all heads",
    )


def spoil_vector(step: str, name: str) -> Any:
    def spoil(walker: Walker) -> None:
        (vector,) = [v for v in walker.steps[step]["vectors"] if v["name"] == name]
        vector["values"][0] += 0.01

    return spoil


def spoil_number(step: str, name: str) -> Any:
    def spoil(walker: Walker) -> None:
        walker.steps[step]["numbers"][name] += 0.01

    return spoil


SPOILED = {
    "the position row": spoil_vector("embedding", "position"),
    "the residual stream": spoil_vector("residual", "x"),
    "the norm": spoil_vector("norm", "y"),
    "the query": spoil_vector("project", "q"),
    "the value": spoil_vector("project", "v"),
    "q·k": spoil_number("product", "qk"),
    "the scale": spoil_number("score", "scale"),
    "the score": spoil_number("score", "score"),
    "the sum": spoil_number("softmax", "sum"),
    "the mix": spoil_vector("mix", "mix"),
    "the head's output": spoil_vector("output", "head_output"),
    "a share": spoil_number("output", "share_others"),
    "what feed-forward adds": spoil_vector("block", "feed_forward"),
    "the new vector": spoil_vector("block", "out"),
    "a cosine": spoil_number("block", "cosine_before_after"),
}


@pytest.mark.parametrize("what", SPOILED)
def test_walk_notices_a_wrong_number(what: str) -> None:
    walker = explained(read_golden("gpt2"), "self", layer=0, head=1, query=4, key=2)
    walker.walk()
    SPOILED[what](walker)
    with pytest.raises(AssertionError):
        walker.walk()


def told(name: str, attention: str = "self") -> dict[str, Any]:
    return explained(read_golden(name), attention, layer=0, head=0, query=1, key=0).steps


def test_position_of_a_key_far_out_of_sight_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    golden, choice = read_golden("bloom-3-heads"), {"layer": 1, "head": 1, "query": 2, "key": 8}
    together = explained(golden, "self", **choice).steps["score"]["numbers"]
    # one query at a time: its block ends with the last key that it sees
    monkeypatch.setattr(attention, "BLOCK_SCORES", 1)
    alone = explained(golden, "self", **choice).steps["score"]["numbers"]
    assert together["position_bias"] != 0
    assert alone == together


@pytest.mark.parametrize(
    ("name", "kind", "step", "formula"),
    [
        ("bert", "self", "project", "q = x W_Q + b_Q    k = x W_K + b_K    v = x W_V + b_V"),
        ("llama", "self", "project", "q = y W_Q    k = y W_K    v = y W_V"),
        ("t5", "cross", "project", "q = y W_Q    k = source W_K    v = source W_V"),
        ("gpt2", "self", "norm", "y = (x - mean) / √variance · weight + bias"),
        ("gemma", "self", "norm", "y = x / √mean(x²) · (weight + 1)"),
        ("olmo", "self", "norm", "y = (x - mean) / √variance"),
        ("bert", "self", "block", "m = x + attention    out = m + feed-forward(m)"),
        ("granite", "self", "block", "m = x + 0.6 · attention    out = m + 0.6 · feed-forward(m)"),
        ("falcon-7b", "self", "block", "out = x + attention + feed-forward(x)"),
        ("t5", "self", "block", "m = x + attention + cross-attention    out = m + feed"),
        ("deberta-v2-conv", "self", "block", "out = m + feed-forward(m) + convolution"),
    ],
)
def test_formula_is_that_of_the_model(name: str, kind: str, step: str, formula: str) -> None:
    found = told(name, kind)[step]["formula"]
    assert formula in found
    if name == "olmo":
        assert found == formula


def test_model_that_does_not_scale_is_not_said_to() -> None:
    assert "without a scale" in told("t5")["score"]["sentence"]
    assert "is scaled" in told("bert")["score"]["sentence"]
