"""The forward pass against the naive one, for every feature that a family may ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli.checkpoints.arrays import ArrayStore
from attncli.model import attention, ffn
from attncli.model.forward import Job, run
from attncli.model.load import Model, load
from attncli.model.observe import Observer
from attncli.model.params import Params, Source
from attncli.model.spec import NORM_SLOTS, LayerSpec, ModelSpec, StackSpec
from tests import naive
from tests.toys import Recorder, record, toy

IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def invented(
    *,
    slots: tuple[str, ...] = ("attn_in", "ffn_in"),
    gate: bool = False,
    bias: bool = False,
    windows: tuple[int | None, ...] = (None, None),
    offset: int | None = None,
    **stack: Any,
) -> tuple[ModelSpec, Params]:
    """Return a model that no family has: any norm slots, gates, windows, grouped heads."""
    sizes = {"n_heads": 4, "n_kv_heads": 4, "causal": False, **stack}
    d, d_ff, dim = 12, 10, 3
    shapes: dict[str, tuple[int, ...]] = {"embed.token": (10, d), "final_norm.weight": (d,)}
    if offset is not None:
        shapes["embed.position"] = (20, d)
    for i in range(len(windows)):
        widths = {
            "attn.q": (d, sizes["n_heads"] * dim),
            "attn.k": (d, sizes["n_kv_heads"] * dim),
            "attn.v": (d, sizes["n_kv_heads"] * dim),
            "attn.o": (sizes["n_heads"] * dim, d),
            "ffn.up": (d, d_ff),
            "ffn.down": (d_ff, d),
            **({"ffn.gate": (d, d_ff)} if gate else {}),
        }
        for role, shape in widths.items():
            shapes[f"{i}.{role}.weight"] = shape
            if bias:
                shapes[f"{i}.{role}.bias"] = shape[1:]
        for slot in slots:
            shapes[f"{i}.{slot}.weight"] = (d,)
    rng = np.random.default_rng(7)
    arrays = {n: rng.normal(0.2, 0.4, shape).astype(np.float32) for n, shape in shapes.items()}
    spec = ModelSpec(
        family="invented",
        stack=StackSpec(
            layers=tuple(LayerSpec(window) for window in windows),
            d_model=d,
            head_dim=dim,
            d_ff=d_ff,
            **{"scale": 0.7, "eps": 1e-3, **sizes},
        ),
        vocab_size=10,
        position_offset=offset or 0,
    )
    sources = {name: Source(name, array.shape) for name, array in arrays.items()}
    return spec, Params(ArrayStore(Path("invented"), arrays), sources)


FEATURES: dict[str, dict[str, Any]] = {
    "norms before": {},
    "norms after": {"slots": ("attn_residual", "ffn_residual")},
    "every norm slot": {"slots": NORM_SLOTS},
    "no norms": {"slots": ()},
    "root mean square": {"norm": "rms"},
    "gate": {"gate": True, "activation": "silu"},
    "biases": {"bias": True},
    "causal": {"causal": True},
    "grouped heads": {"n_kv_heads": 2},
    "one key head, causal": {"n_kv_heads": 1, "causal": True},
    "window to both sides": {"windows": (2, None)},
    "causal window": {"windows": (None, 3), "causal": True},
    "window of one": {"windows": (1, 1), "causal": True},
    "position offset": {"offset": 2},
}


def assert_equal(found: Recorder, expected: naive.Steps) -> None:
    """Compare weights, scores and states of every layer."""
    for layer, weights in enumerate(expected.weights):
        scores = expected.scores[layer]
        np.testing.assert_allclose(found.weights[layer], weights, atol=2e-5)
        np.testing.assert_allclose(found.scores[layer], scores, atol=1e-5 * _largest(scores))
        assert (found.weights[layer][weights == 0] == 0).all()
    resid = np.stack(expected.resid)
    np.testing.assert_allclose(found.resid, resid, atol=1e-5 * _largest(resid))


def _largest(values: np.ndarray) -> float:
    return float(np.abs(values[np.isfinite(values)]).max())


@pytest.mark.parametrize("rows", [1, 3, 100])
@pytest.mark.parametrize("name", FEATURES)
def test_feature_equals_the_naive_computation_in_blocks_of_any_size(
    name: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, params = invented(**FEATURES[name])
    monkeypatch.setattr(attention, "BLOCK_SCORES", rows * 4 * len(IDS))
    monkeypatch.setattr(ffn, "FFN_ROWS", rows)
    found = record(spec, params, IDS)
    assert found.blocks == 2 * -(-len(IDS) // rows)
    assert_equal(found, naive.forward(spec, params, IDS))


def test_bundled_model_equals_the_naive_computation(minilm: Model) -> None:
    ids = minilm.encode("We were stuck in a traffic jam").ids
    assert_equal(
        record(minilm.spec, minilm.params, ids), naive.forward(minilm.spec, minilm.params, ids)
    )


def test_toy_without_output_projection_puts_heads_side_by_side() -> None:
    model = load("random:d_model=8,heads=2,layers=2,output=false,ffn=false")
    ids = [5, 6, 7]
    found = record(model.spec, model.params, ids)
    assert_equal(found, naive.forward(model.spec, model.params, ids))
    values = found.values[1]
    expected = naive.forward(model.spec, model.params, ids).head_vectors[1]
    for head in range(2):
        np.testing.assert_allclose(
            values.of(head), expected[head][:, head * 4 : head * 4 + 4], atol=1e-5
        )
    gram = np.einsum("hkd,gkd->khg", expected, expected)
    np.testing.assert_allclose(values.gram((0, 1)), gram, atol=1e-4)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_value_vectors_follow_the_key_head_of_each_query_head(kv_heads: int) -> None:
    spec, params = invented(n_kv_heads=kv_heads)
    found = record(spec, params, IDS)
    for layer, vectors in enumerate(naive.forward(spec, params, IDS).head_vectors):
        values, heads = found.values[layer], (3, 0, 2)
        for head in range(4):
            np.testing.assert_allclose(values.of(head), vectors[head], atol=1e-4)
        chosen = vectors[list(heads)]
        gram = np.einsum("hkd,gkd->khg", chosen, chosen)
        np.testing.assert_allclose(values.gram(heads), gram, atol=1e-3, rtol=1e-4)


def test_several_texts_run_together_equal_each_alone(minilm: Model) -> None:
    texts = ["I like jam", "the", "We were stuck in a traffic jam for hours", "I like jam"]
    ids = [minilm.encode(text).ids for text in texts]
    together = [Recorder(minilm.spec, len(one)) for one in ids]
    jobs = [Job(one, [0] * len(one), [r]) for one, r in zip(ids, together, strict=True)]
    run(minilm.spec, minilm.params, jobs)
    for one, found in zip(ids, together, strict=True):
        alone = record(minilm.spec, minilm.params, one)
        np.testing.assert_allclose(found.weights, alone.weights, atol=2e-6)
        np.testing.assert_allclose(found.resid, alone.resid, atol=1e-5)


def test_parameters_that_are_kept_give_the_same_run(minilm: Model) -> None:
    ids = minilm.encode("I like jam").ids
    keeping = Params(minilm.params.store, minilm.params.sources, keep=True)
    first, again = (record(minilm.spec, keeping, ids) for _ in range(2))
    expected = record(minilm.spec, minilm.params, ids)
    for found in (first, again):
        np.testing.assert_array_equal(found.resid, expected.resid)


def test_second_segment_uses_its_own_type_embedding(minilm: Model) -> None:
    ids = minilm.encode("I like jam").ids
    found = []
    for types in ([0] * 5, [0, 0, 0, 1, 1]):
        recorder = Recorder(minilm.spec, 5)
        run(minilm.spec, minilm.params, [Job(ids, types, [recorder])])
        found.append(recorder.resid[0])
    changed = np.abs(found[0] - found[1]).max(axis=1) > 1e-3
    assert changed.tolist() == [False, False, False, True, True]


class Watching(ArrayStore):
    """Remembers which tensors were read."""

    def __init__(self, inner: ArrayStore) -> None:
        super().__init__(inner.path, inner._arrays)
        self.seen: set[str] = set()

    def read(self, name: str, out: Any = None) -> np.ndarray:
        self.seen.add(name)
        return super().read(name)


ATTENTION = {f"layers.0.{name}" for name in ("w_q", "w_k", "w_v", "w_o")}
BLOCK = ATTENTION | {"layers.0.w_up", "layers.0.w_down"}


@pytest.mark.parametrize(
    ("layers", "states", "needed"),
    [
        ((), (0,), set()),
        ((0,), (), ATTENTION),
        ((), (1,), BLOCK),
        ((0,), (1,), BLOCK),
        ((1,), (), BLOCK | {name.replace("0", "1") for name in ATTENTION}),
    ],
)
def test_nothing_beyond_what_observers_want_is_read(
    layers: tuple[int, ...], states: tuple[int, ...], needed: set[str]
) -> None:
    spec, params = toy(layers=3)
    store = Watching(params.store)
    observer = Observer()
    observer.attention_layers, observer.states = frozenset(layers), frozenset(states)
    run(spec, Params(store, params.sources), [Job(IDS, [0] * len(IDS), [observer])])
    assert store.seen == needed


def test_attention_is_the_same_whether_states_are_wanted_or_not() -> None:
    spec, params = toy(layers=3)
    with_states, without = Recorder(spec, len(IDS)), Recorder(spec, len(IDS))
    without.states = frozenset()
    for recorder in (with_states, without):
        run(spec, params, [Job(IDS, [0] * len(IDS), [recorder])])
    np.testing.assert_array_equal(without.weights, with_states.weights)


def test_scores_are_shown_only_when_somebody_wants_them(minilm: Model) -> None:
    shown = []

    class Quiet(Observer):
        attention_layers = frozenset({0})

        def on_attention(self, block: attention.AttentionBlock) -> None:
            shown.append(block.scores)

    run(minilm.spec, minilm.params, [Job([101, 102], [0, 0], [Quiet()])])
    assert shown == [None]
