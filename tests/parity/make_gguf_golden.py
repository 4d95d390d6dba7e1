"""Freeze what transformers makes of the real GGUF checkpoints to golden/gguf/*.npz.

    python -m tests.parity.make_gguf_golden smollm2 gemma3

Needs torch, transformers, gguf, and the files under .models (see tests/real.py). One head a layer
and a few states keep the files small.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from transformers import AutoModel, AutoTokenizer

from tests.parity import reference
from tests.parity.comparison import GOLDEN
from tests.real import MODELS, SENTENCE
from tests.texts import PAGE


def freeze(name: str) -> None:
    """Write tokens of the page, and weights and states of one sentence."""
    tokenizer = AutoTokenizer.from_pretrained(MODELS, gguf_file=f"{name}.gguf")
    if name == "smollm2":
        # transformers passes over the rule the file names (smollm): one digit, one piece
        rule = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
        tokenizer.backend_tokenizer.pre_tokenizer = rule
    pages = [tokenizer(text)["input_ids"] for text in PAGE]
    ids = tokenizer(SENTENCE)["input_ids"]
    model = AutoModel.from_pretrained(
        MODELS, gguf_file=f"{name}.gguf", attn_implementation="eager", dtype=torch.float32
    ).eval()
    result = reference.run(model, ids)
    layers, heads = result.weights.shape[:2]
    picked = [(layer, layer % heads) for layer in range(layers)]
    if name == "smollm2":
        picked += [(22, 2), (22, 6), (12, 4), (22, 8)]
    states = [0, 1, layers // 2, layers]
    (GOLDEN / "gguf").mkdir(exist_ok=True)
    np.savez_compressed(
        GOLDEN / "gguf" / f"{name}.npz",
        page=np.concatenate(pages).astype(np.int32),
        page_lengths=np.array([len(page) for page in pages]),
        ids=np.array(ids),
        heads=np.array(picked),
        weights=np.stack([result.weights[pick] for pick in picked]),
        states=np.array(states),
        resid=result.resid[states, -1],
    )


if __name__ == "__main__":
    for name in sys.argv[1:]:
        freeze(name)
