"""Freeze the logits of transformers to golden_heads/*.npz for a suite without torch.

python -m tests.parity.make_golden_heads [PART OF A NAME ...]
"""

from __future__ import annotations

import sys

from tests.parity import reference_heads
from tests.parity.heads import HEADS

if __name__ == "__main__":
    for case in HEADS:
        if not sys.argv[1:] or any(part in case.name for part in sys.argv[1:]):
            reference_heads.freeze(case)
