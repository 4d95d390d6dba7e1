"""The architectures attn knows, as data.

A file can only be opened when a family of its `model_type` is registered. What a file cannot say
is what llama.cpp takes for granted, and is a constant of the entry.
"""

from __future__ import annotations

from attncli.model.gguf.decoders import DECODERS
from attncli.model.gguf.others import OTHERS

ARCHITECTURES = {**DECODERS, **OTHERS}
"""`general.architecture` to what attn makes of it."""
