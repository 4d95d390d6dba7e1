"""Every layer of a model against transformers, where torch and transformers are installed."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from attncli.analyses.reduction import HeadMatrices, States
from attncli.analyses.verification import Check
from attncli.model.forward import Job, run
from attncli.model.load import Model
from attncli.model.spec import AlibiSpec
from attncli.selection import Heads
from attncli.tokenize import Encoded

Array = np.ndarray

TOLERANCE = 1e-4
"""On real checkpoints float32 sums in another order differ more than on tiny ones."""


def compare_with_transformers(model: Model, encoded: Encoded) -> tuple[list[Check], str]:
    """Return checks of weights and states, and a line that says what was compared with.

    Only models that transformers can read from the same files are compared: folders, the bundled
    model (its numbers are written out as float32 first) and GGUF files. No remote code is run.
    """
    if model.place.kind in ("random", "npz") or model.spec.family == "toy attention":
        return [], "not compared with transformers: it does not know this kind of model"
    bias = model.spec.stack.position_bias
    if isinstance(bias, AlibiSpec) and bias.bfloat16:
        return [], "not compared with transformers: its eager mode adds this position bias twice"
    if model.spec.encoder is not None:
        return [], "not compared with transformers: encoder-decoders are not yet"
    missing = [m for m in ("torch", "transformers") if importlib.util.find_spec(m) is None]
    if missing:
        return [], f"not compared with transformers: {' and '.join(missing)} not installed"
    import transformers

    try:
        with tempfile.TemporaryDirectory() as folder:
            weights, states = _run_reference(_load(model, Path(folder)), encoded.ids)
    except Exception as problem:  # whatever it lacks or cannot read is no fault of the model
        return [], f"not compared with transformers: {' '.join(str(problem).split())[:200]}"
    stack = model.spec.stack
    everything = Heads(tuple(range(stack.n_layers)), tuple(range(stack.n_heads)))
    matrices, kept = (
        HeadMatrices(everything, len(encoded.ids), len(encoded.ids)),
        States(stack.n_layers),
    )
    run(model.spec, model.params, [Job(encoded.ids, [0] * len(encoded.ids), [matrices, kept])])
    size = max(1.0, float(np.abs(states).max()))
    checks = [
        Check(
            "weights",
            "weights = transformers, every layer",
            float(np.abs(matrices.weights - weights).max()),
            TOLERANCE,
        ),
        Check(
            "states",
            "residual stream = transformers",
            float(np.abs(kept.stacked() - states).max()) / size,
            TOLERANCE,
        ),
    ]
    return checks, f"compared with transformers {transformers.__version__}, eager, float32"


def _load(model: Model, folder: Path) -> Any:
    """Load the same numbers in transformers."""
    import torch
    from transformers import AutoModel

    settings: dict[str, Any] = {"attn_implementation": "eager", "dtype": torch.float32}
    path = model.place.path
    if path.suffix == ".gguf":
        return AutoModel.from_pretrained(path.parent, gguf_file=path.name, **settings).eval()
    if model.dtype == "Q8":
        from attncli.model.pack import pack_model

        pack_model(path, folder / "float32", "f32")
        path = folder / "float32"
    return AutoModel.from_pretrained(path, **settings).eval()


def _run_reference(theirs: Any, ids: list[int]) -> tuple[Array, Array]:
    """Return weights [layer, head, query, key] and states [state, token, d_model]."""
    import torch

    with torch.no_grad():
        out = theirs(
            input_ids=torch.tensor([ids]), output_attentions=True, output_hidden_states=True
        )
    weights = np.stack([layer[0].float().numpy() for layer in out.attentions])
    states = np.stack([state[0].float().numpy() for state in out.hidden_states])
    return weights, states
