"""Folders whose weights another program has quantised are refused by the name of the method.

Their tensors hold packed bytes under the usual names, or numbers without the scales that belong to
them: read as they stand they would give wrong results.
"""

from __future__ import annotations

from typing import Any

from attncli.errors import ModelProblem
from attncli.model.config import ConfigReader

KEYS = ("quantization_config", "compression_config")


def refuse_quantised(config: ConfigReader) -> None:
    """Stop at a configuration of quantised weights, before anything about tensors is said.

    Raises:
        ModelProblem: names the method and what to use instead.
    """
    for path in ((), ("text_config",)):
        for key in KEYS:
            settings = config.look(*path, key)
            if settings:
                raise ModelProblem(
                    f"{config.path}: the weights are quantised with {_method(settings)} ({key}), "
                    "which attn does not read. Use the model it was made from, in float16, "
                    "bfloat16 or float32, or a GGUF file of it."
                )


def _method(settings: Any) -> str:
    """Return the name of the method, with its kind where bitsandbytes has several."""
    if not isinstance(settings, dict):
        return "an unknown method"
    method = str(settings.get("quant_method") or "an unknown method")[:40]
    kind = settings.get("bnb_4bit_quant_type") if settings.get("load_in_4bit") else None
    bits = settings.get("bits")
    if kind:
        return f"{method} {str(kind)[:20]}"
    return f"{method}, {bits} bits" if isinstance(bits, int) else method
