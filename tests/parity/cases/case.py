"""One row of the parity table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    """One model that transformers and attn both compute."""

    name: str
    model_type: str
    config: dict[str, Any] = field(hash=False)
    ids: tuple[int, ...] = (1, 7, 12, 33, 7, 39, 20, 5, 28, 2)
    source: tuple[int, ...] = ()
    """What the encoder of an encoder-decoder reads; `ids` are then the decoder's."""
    unwritten: str = ""
    """Pattern of tensors that a model computes itself: neither randomised nor in the file."""
    types: tuple[int, ...] = ()
    """Token types, one an id; empty for 0 throughout."""
