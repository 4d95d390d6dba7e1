"""Real checkpoints: folders under .models/ at the root of the repository, which git ignores.

.models/minilm    sentence-transformers/all-MiniLM-L6-v2: config.json, tokenizer.json,
                  model.safetensors (float32, 90.9 MB)
.models/mpnet     sentence-transformers/all-mpnet-base-v2: the same files (float32, 438 MB)
"""

from __future__ import annotations

from pathlib import Path

import pytest

MODELS = Path(__file__).parents[1] / ".models"
SENTENCE = "The student did not answer the question because it was too difficult"

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
