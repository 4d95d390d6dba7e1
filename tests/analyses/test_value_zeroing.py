"""Value-zeroing: against the arithmetic written out in float64, and by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attncli.analyses.value_zeroing import ValueZeroing, turn
from attncli.errors import UsageProblem
from attncli.model import attention
from attncli.model.forward import Job, run
from attncli.model.load import load
from attncli.model.observe import Block, Observer
from attncli.model.params import Params
from attncli.model.spec import ModelSpec
from attncli.selection import Heads
from tests import naive
from tests.parity.cases import CASES
from tests.parity.comparison import read_golden
from tests.toys import tiny_bert, toy, write_folder

Array = np.ndarray
IDS = [1, 3, 4, 5, 3, 9, 2]


def zeroed(
    spec: ModelSpec, params: Params, selected: Heads, rows: list[int], ids: list[int] = IDS
) -> Array:
    observer = ValueZeroing(selected, np.array(rows), len(ids))
    run(spec, params, [Job(ids, [0] * len(ids), [observer])])
    return observer.shares


def written_out(spec: ModelSpec, params: Params, selected: Heads, ids: list[int] = IDS) -> Array:
    """Take each value away in turn and run the rest of the block, in float64."""
    steps, n = naive.forward(spec, params, ids), len(ids)
    total = np.zeros((n, n))
    for layer in selected.layers:
        turned = np.zeros((n, n))
        for key in range(n):
            taken = sum(
                steps.weights[layer][h, :, key, None] * steps.head_vectors[layer][h, key]
                for h in selected.heads
            )
            out = naive.rest_of_block(
                spec.stack,
                params,
                layer,
                steps.resid[layer],
                steps.attention_out[layer] - taken,
            )
            whole = steps.block_out[layer]
            cosine = (out * whole).sum(1)
            cosine /= np.linalg.norm(out, axis=1) * np.linalg.norm(whole, axis=1)
            turned[:, key] = 1 - cosine
        total += turned / turned.sum(1, keepdims=True) / len(selected.layers)
    return total


@pytest.fixture
def bert(tmp_path: Path) -> tuple[ModelSpec, Params]:
    model = load(str(write_folder(tmp_path / "m", *tiny_bert())))
    return model.spec, model.params


@pytest.mark.parametrize("selected", [Heads((0, 1), (0, 1, 2)), Heads((1,), (2,))], ids=str)
def test_equals_the_block_run_again_in_float64(bert, selected: Heads) -> None:
    expected = written_out(*bert, selected)
    np.testing.assert_allclose(zeroed(*bert, selected, list(range(7))), expected, atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("block_scores", [1, 50, 10**6])
def test_chosen_rows_in_blocks_of_any_size(
    causal: bool, block_scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, params = toy(causal=causal)
    monkeypatch.setattr(attention, "BLOCK_SCORES", block_scores)
    found = zeroed(spec, params, Heads((0, 1), (0, 2)), [1, 4, 6])
    expected = written_out(spec, params, Heads((0, 1), (0, 2)))[[1, 4, 6]]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-5)


def test_turn_keeps_its_digits_where_vectors_hardly_differ() -> None:
    a = np.array([[1, 0], [1, 0], [3, 4], [0, 0]], np.float32)
    b = np.array([[1, 1e-6], [0, 2], [6, 8], [1, 0]], np.float32)
    np.testing.assert_allclose(turn(a, b), [5e-13, 1, 0, 0], rtol=1e-6)


def test_too_many_pairs_are_refused_with_the_way_around() -> None:
    with pytest.raises(UsageProblem, match=r"400 × 400 pairs .* choose rows with --query"):
        ValueZeroing(Heads((0,), (0,)), np.arange(400), 400)


class Blocks(Observer):
    """Runs every block again with what the heads really put out."""

    def __init__(self, n_layers: int, kind: str) -> None:
        self.block_layers = frozenset(range(n_layers))
        self.kind = kind
        self.differences: list[float] = []

    def on_block(self, block: Block) -> None:
        rows = np.array([2, 0, 2, 1]) % len(block.out)
        again = block.again(rows, block.mixed[rows])
        self.differences.append(float(np.abs(again - block.out[rows]).max()))


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_block_run_again_unchanged_is_the_block(name: str) -> None:
    golden = read_golden(name)
    spec, params = golden.model()
    kinds = ("self", "cross") if golden.source else ("self",)
    watching = [Blocks(spec.stack.n_layers, kind) for kind in kinds]
    beside = Blocks(spec.stack.n_layers, "self")
    ids = golden.ids
    jobs = [
        # a text above moves the rows of the one that is watched
        Job(ids[:4], [0] * 4, [beside], source=golden.source[:3]),
        Job(ids, [0] * len(ids), watching, source=golden.source),
    ]
    run(spec, params, jobs)
    for observer in (*watching, beside):
        assert len(observer.differences) == spec.stack.n_layers
        assert max(observer.differences) <= 1e-5


@pytest.mark.reference
@pytest.mark.filterwarnings("default")
def test_equals_transformers_with_a_value_zeroed(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config, tensors = tiny_bert()
    folder = write_folder(tmp_path / "m", config, tensors)
    model = load(str(folder))
    theirs = transformers.AutoModel.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32, add_pooling_layer=False
    ).eval()
    layer = theirs.encoder.layer[1]
    turned = np.zeros((len(IDS), len(IDS)))
    with torch.no_grad():
        x = theirs(torch.tensor([IDS]), output_hidden_states=True).hidden_states[1]
        whole = layer(x)[0].reshape(len(IDS), -1).double()
        for key in range(len(IDS)):

            def zero(module, inputs, output, key=key):
                output[:, key] = 0
                return output

            hook = layer.attention.self.value.register_forward_hook(zero)
            out = layer(x)[0].reshape(len(IDS), -1).double()
            hook.remove()
            turned[:, key] = 1 - torch.nn.functional.cosine_similarity(out, whole).numpy()
    expected = turned / turned.sum(1, keepdims=True)
    found = zeroed(model.spec, model.params, Heads((1,), (0, 1, 2)), list(range(len(IDS))))
    np.testing.assert_allclose(found, expected, atol=2e-5)
