"""A model small enough to compute on paper: every token reads all tokens alike, values are x.

State 1 of a token is its embedding plus the mean of the embeddings it sees.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from attncli.checkpoints.safetensors import write_safetensors
from attncli.model.initialise import word_tokenizer
from attncli.model.load import Model, load


def by_hand(folder: Path, words: Mapping[str, tuple[float, ...]], *, causal: bool = False) -> Model:
    """Return such a model over these words and their embeddings."""
    embedding = np.array(list(words.values()), np.float32)
    vocab_size, d_model = embedding.shape
    config = {
        "model_type": "attn-toy",
        "vocab_size": vocab_size,
        "d_model": d_model,
        "n_heads": 1,
        "n_layers": 1,
        "causal": causal,
    }
    tensors = {
        "embedding": embedding,
        "w_q": np.zeros((d_model, d_model), np.float32),
        "w_k": np.eye(d_model, dtype=np.float32),
        "w_v": np.eye(d_model, dtype=np.float32),
    }
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(word_tokenizer(list(words)))
    write_safetensors(folder / "model.safetensors", tensors, {})
    return load(str(folder))


FOOD = {"[UNK]": (0.0, 0.0), "jam": (1.0, 0.0), "toast": (0.0, 1.0), "rye": (0.0, -1.0)}
