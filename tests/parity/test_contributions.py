"""What heads carry from key to query adds up to the attention output, in every family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attncli.analyses.reduction import contribution_lengths
from attncli.model.forward import Job, run
from attncli.model.observe import AttentionBlock, Observer
from attncli.model.params import Params
from attncli.model.spec import StackSpec
from attncli.model.stack import ENCODER
from tests.parity.cases import CASES
from tests.parity.comparison import TOLERANCE, read_golden

Array = np.ndarray


class Carried(Observer):
    """Adds up weight times value, head by head, and keeps what attention really gave."""

    def __init__(self, sizes: StackSpec, **where: Any) -> None:
        self.sizes = sizes
        self.attention_layers = self.output_layers = frozenset(range(sizes.n_layers))
        for name, value in where.items():
            setattr(self, name, value)
        self.sums: dict[int, Array] = {}
        self.output: dict[int, Array] = {}
        self.gram_errors: list[float] = []

    def on_attention(self, block: AttentionBlock) -> None:
        heads = tuple(range(self.sizes.n_heads))
        vectors = np.stack([block.values.of(head)[block.keys] for head in heads])
        if block.values.o is None:
            # without W_O the heads stand side by side
            wide = np.zeros((*vectors.shape[:2], len(heads) * vectors.shape[2]), np.float32)
            for head in heads:
                own = slice(head * vectors.shape[2], (head + 1) * vectors.shape[2])
                wide[head, :, own] = vectors[head]
            vectors = wide
        carried = np.einsum("hqk,hkd->qkd", block.weights, vectors)
        lengths = contribution_lengths(block.weights, block.values.gram(heads)[block.keys])
        expected = np.sqrt((carried.astype(np.float64) ** 2).sum(-1))
        self.gram_errors.append(float(np.abs(lengths - expected).max() / expected.max()))
        self.sums.setdefault(block.layer, np.zeros((0, carried.shape[2])))
        self.sums[block.layer] = np.concatenate([self.sums[block.layer], carried.sum(1)])

    def on_output(self, layer: int, output: Array) -> None:
        self.output[layer] = output.copy()

    def errors(self, params: Params) -> list[float]:
        """Return, per layer, how far the sum is from the output, in units of the largest."""
        prefix = ENCODER if self.stack == "encoder" else ""
        kind = "cross" if self.kind == "cross" else "attn"
        found = []
        for layer, output in self.output.items():
            bias = params.get(f"{prefix}{layer}.{kind}.o.bias")
            total = self.sums[layer] + (0 if bias is None else bias)
            found.append(float(np.abs(total - output).max() / np.abs(output).max()))
        return found


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_contributions_add_up_to_the_attention_output(name: str) -> None:
    golden = read_golden(name)
    spec, params = golden.model()
    watching = [Carried(spec.stack)]
    if spec.encoder is not None:
        watching += [
            Carried(spec.encoder, stack="encoder"),
            Carried(spec.stack, kind="cross"),
        ]
    ids = golden.ids
    run(spec, params, [Job(ids, [0] * len(ids), watching, source=golden.source)])
    for observer in watching:
        errors = observer.errors(params)
        assert len(errors) == observer.sizes.n_layers
        assert max(errors) <= TOLERANCE
        assert max(observer.gram_errors) <= TOLERANCE
