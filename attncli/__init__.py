"""attn: what does this token attend to, by which computation, and what does that do to its meaning?

Python use: `load`, then `inspect`, `compare`, `explain`, `heads`, `predict` and `tokens` return the
results that the commands print. Importing this package is cheap; numpy comes with the first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "AttnError",
    "__version__",
    "compare",
    "explain",
    "heads",
    "inspect",
    "load",
    "predict",
    "tokens",
]

if TYPE_CHECKING:
    from attncli.api import compare as compare
    from attncli.api import explain as explain
    from attncli.api import heads as heads
    from attncli.api import inspect as inspect
    from attncli.api import load as load
    from attncli.api import predict as predict
    from attncli.api import tokens as tokens
    from attncli.errors import AttnError as AttnError


def __getattr__(name: str) -> Any:
    if name == "AttnError":
        from attncli.errors import AttnError

        return AttnError
    if name in __all__:
        from attncli import api

        return getattr(api, name)
    raise AttributeError(f"module 'attncli' has no attribute {name!r}")
