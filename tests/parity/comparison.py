"""How far a run is from the reference: every layer, weights, scores and residual stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from attncli.checkpoints.arrays import ArrayStore
from attncli.model.config import ConfigReader
from attncli.model.params import Params
from attncli.model.resolve import resolve
from attncli.model.spec import ModelSpec
from tests.toys import Recorder, record

Array = np.ndarray

TOLERANCE = 1e-5
"""For weights and residual stream; for scores it is this times the largest |score|."""
GOLDEN = Path(__file__).parent / "golden"


class Expected(Protocol):
    """What a reference gives, live or frozen."""

    weights: Array
    scores: Array
    resid: Array

    @property
    def encoder(self) -> Expected | None:
        """The encoder's numbers, of an encoder-decoder."""

    @property
    def cross(self) -> Expected | None:
        """The decoder's attention to the source."""


@dataclass(slots=True)
class Numbers:
    """Frozen numbers of one kind of attention."""

    weights: Array
    scores: Array
    resid: Array
    encoder: None = None
    cross: None = None


@dataclass(slots=True)
class Golden:
    """One frozen case: a model, its input, and what transformers made of it."""

    config: dict[str, Any]
    tensors: dict[str, Array]
    ids: list[int]
    weights: Array
    scores: Array
    resid: Array
    source: list[int]
    encoder: Numbers | None
    cross: Numbers | None
    types: list[int]

    def model(self) -> tuple[ModelSpec, Params]:
        """Resolve config and tensors the way a checkpoint is resolved."""
        store = ArrayStore(Path("golden"), self.tensors)
        return resolve(ConfigReader(dict(self.config), "golden"), store)


def read_golden(name: str) -> Golden:
    """Read golden/NAME.npz."""
    with np.load(GOLDEN / f"{name}.npz") as arrays:
        parameters = {n[6:]: arrays[n] for n in arrays.files if n.startswith("param:")}
        config, ids = json.loads(str(arrays["config"])), arrays["ids"].tolist()
        source, types = (
            arrays[name].tolist() if name in arrays.files else [] for name in ("source", "types")
        )
        encoder = _numbers(arrays, "encoder_") if source else None
        cross = _numbers(arrays, "cross_") if source else None
        frozen = [arrays[name] for name in ("weights", "scores", "resid")]
    return Golden(config, parameters, ids, *frozen, source, encoder, cross, types)


def _numbers(arrays: Mapping[str, Array], prefix: str) -> Numbers:
    return Numbers(*(arrays[f"{prefix}{name}"] for name in ("weights", "scores", "resid")))


def renamed(golden: Golden, rename: Callable[[str], str]) -> Golden:
    """Return a golden case with other tensor names."""
    golden.tensors = {rename(name): values for name, values in golden.tensors.items()}
    return golden


def differences(expected: Expected, found: Recorder) -> dict[str, list[float]]:
    """Return, per kind, the largest difference of each layer in units of its tolerance.

    Kinds of an encoder-decoder: those of the decoder, "encoder weights", "cross weights", ....
    """
    largest_score = float(np.abs(expected.scores[np.isfinite(expected.scores)]).max())
    kinds = {
        "weights": _per_layer(expected.weights, found.weights, TOLERANCE),
        "scores": _per_layer(expected.scores, found.scores, TOLERANCE * largest_score),
        "resid": _per_layer(expected.resid, found.resid, TOLERANCE),
    }
    for name in ("encoder", "cross"):
        theirs, ours = getattr(expected, name), getattr(found, name)
        assert (theirs is None) == (ours is None)
        if theirs is not None:
            inner = differences(theirs, ours)
            kinds |= {f"{name} {kind}": layers for kind, layers in inner.items() if layers}
    return kinds


def assert_same(name: str, expected: Expected, found: Recorder) -> None:
    """Fail with case, kind and first layer that differs."""
    for kind, layers in differences(expected, found).items():
        for layer, difference in enumerate(layers):
            assert difference <= 1, f"{name}: {kind} of layer {layer}: {difference:.3g} × tolerance"


def run_golden(golden: Golden) -> Recorder:
    """Run a golden case with its own parameters."""
    return record(*golden.model(), golden.ids, golden.source, golden.types)


def _per_layer(expected: Array, found: Array, tolerance: float) -> list[float]:
    assert expected.shape == found.shape
    return [_largest(e, f) / tolerance for e, f in zip(expected, found, strict=True)]


def _largest(expected: Array, found: Array) -> float:
    """Largest difference; infinite where a NaN stands or only one of the two is masked."""
    masked = np.isneginf(expected)
    if not np.array_equal(masked, np.isneginf(found)):
        return float("inf")
    difference = np.abs(expected[~masked] - found[~masked])
    return float(np.nan_to_num(difference, nan=np.inf).max(initial=0.0))
