"""Real checkpoints: folders and files under .models/ in the repository, which git ignores.

.models/minilm    sentence-transformers/all-MiniLM-L6-v2: config.json, tokenizer.json,
                  model.safetensors (float32, 90.9 MB)
.models/mpnet     sentence-transformers/all-mpnet-base-v2: the same files (float32, 438 MB)
.models/smollm2.gguf   SmolLM2-135M-Instruct, Q4_1 and Q8_0
.models/gemma3.gguf    Gemma 3 270M, Q4_K_M
"""

from __future__ import annotations

from pathlib import Path

import pytest

MODELS = Path(__file__).parents[1] / ".models"
SENTENCE = "The student did not answer the question because it was too difficult"
PAIR = (
    "We were stuck in a traffic jam for hours",
    "No jam on my toast 😀, unbelievable: the café had no jam",
)

MPNET_HEADS = ((4, 8), (8, 4), (8, 8), (9, 7))
"""Layer and head of those that link words of the sentence most."""


def checkpoint(name: str) -> Path:
    """Return the folder of a real checkpoint, or skip the test that asked for it."""
    folder = MODELS / name
    missing = [
        file
        for file in ("config.json", "tokenizer.json", "model.safetensors")
        if not (folder / file).is_file()
    ]
    if missing:
        pytest.skip(f"no real checkpoint .models/{name} ({', '.join(missing)} missing)")
    return folder


def gguf_file(name: str) -> Path:
    """Return a real GGUF file, or skip the test that asked for it."""
    path = MODELS / f"{name}.gguf"
    if not path.is_file():
        pytest.skip(f"no real checkpoint .models/{name}.gguf")
    return path
