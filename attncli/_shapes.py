"""Shape annotations that cost nothing at run time.

`Float[Array, "query key"]` documents a shape. With ATTNCLI_SHAPES=1 in the environment the real
jaxtyping names stand here, and the test suite can check every call; otherwise a stub is used.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or os.environ.get("ATTNCLI_SHAPES"):
    from jaxtyping import Bool as Bool
    from jaxtyping import Float as Float
    from jaxtyping import Int as Int
    from jaxtyping import Shaped as Shaped
else:

    class _Stub:
        def __class_getitem__(cls, item: Any) -> Any:
            return item[0]

    Bool = Float = Int = Shaped = _Stub
