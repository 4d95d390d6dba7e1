"""Freeze what transformers computes to golden/*.npz, so that the default suite needs no torch.

    python -m tests.parity.make_golden [PART OF A NAME ...]

The files of real checkpoints are written only when these are under .models/ (tests/real.py).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer, PreTrainedModel

from tests.parity import reference
from tests.parity.cases import CASES
from tests.real import MODELS, MPNET_HEADS, PAIR, SENTENCE

GOLDEN = Path(__file__).parent / "golden"


def freeze_case(case: reference.Case) -> None:
    """Write parameters, config, ids and expected numbers of one tiny case."""
    model = reference.build(case)
    result = reference.run(model, case.ids, case.source, case.types)
    config = {"model_type": case.model_type, **case.config}
    parameters = {
        f"param:{name}": values
        for name, values in reference.parameters(model, case.unwritten).items()
        if "pooler" not in name
    }
    parts: dict[str, np.ndarray] = {"types": np.array(case.types)} if case.types else {}
    for part in ("encoder", "cross"):
        if (numbers := getattr(result, part)) is not None:
            parts["source"] = np.array(case.source)
            for name in ("weights", "scores", "resid"):
                parts[f"{part}_{name}"] = getattr(numbers, name)
    np.savez_compressed(
        GOLDEN / f"{case.name}.npz",
        config=np.array(json.dumps(config)),
        ids=np.array(case.ids),
        weights=result.weights,
        scores=result.scores,
        resid=result.resid,
        **parts,
        **parameters,
    )


def freeze_minilm(folder: Path) -> None:
    """Write what the float32 original makes of one sentence."""
    ids, result = _run_real(folder)
    np.savez_compressed(GOLDEN / "minilm.npz", ids=ids, weights=result.weights, resid=result.resid)


def freeze_minilm_pair(folder: Path) -> None:
    """Write what its tokenizer and the float32 original make of a pair; some dimensions."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(*PAIR)
    model = _load_real(folder)
    result = reference.run(model, inputs["input_ids"], types=inputs["token_type_ids"])
    np.savez_compressed(
        GOLDEN / "minilm-pair.npz",
        ids=inputs["input_ids"],
        types=inputs["token_type_ids"],
        weights=result.weights,
        resid=result.resid[..., :64],
    )


def freeze_mpnet(folder: Path) -> None:
    """Write a few heads, and the first dimensions of every state."""
    ids, result = _run_real(folder)
    layers, heads = zip(*MPNET_HEADS, strict=True)
    np.savez_compressed(
        GOLDEN / "real-mpnet.npz",
        ids=ids,
        weights=result.weights[list(layers), list(heads)],
        scores=result.scores[list(layers), list(heads)],
        resid=result.resid[..., :16],
    )


def _load_real(folder: Path) -> PreTrainedModel:
    return AutoModel.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32
    ).eval()


def _run_real(folder: Path) -> tuple[np.ndarray, reference.Reference]:
    """Return the ids of the sentence, and what transformers makes of them."""
    from tokenizers import Tokenizer

    model = _load_real(folder)
    encoding = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(SENTENCE)
    ids = [i for i, seen in zip(encoding.ids, encoding.attention_mask, strict=True) if seen]
    return np.array(ids), reference.run(model, ids)


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    wanted = sys.argv[1:]
    for case in CASES:
        if not wanted or any(name in case.name for name in wanted):
            freeze_case(case)
    if not wanted and (MODELS / "minilm").is_dir():
        freeze_minilm(MODELS / "minilm")
    if (MODELS / "minilm").is_dir():
        freeze_minilm_pair(MODELS / "minilm")
    if (MODELS / "mpnet").is_dir():
        freeze_mpnet(MODELS / "mpnet")
