"""What is compared with transformers: one row a family or variant. A new family adds rows.

A row gives the model_type and what differs from transformers' default configuration. Sizes are
tiny; every parameter is randomised, because a default initialisation hides half the defects.
"""

from __future__ import annotations

from tests.parity.cases.case import Case as Case
from tests.parity.cases.encoders import ENCODERS
from tests.parity.cases.gpt2_like import GPT2_LIKE_CASES
from tests.parity.cases.gpt2_like import TINY_DECODER as TINY_DECODER
from tests.parity.cases.llama_like import LLAMA_CASES, LLAMA_LIKE_CASES
from tests.parity.cases.seq2seq import SEQ2SEQ

CASES: list[Case] = [*ENCODERS, *LLAMA_CASES, *LLAMA_LIKE_CASES, *GPT2_LIKE_CASES, *SEQ2SEQ]
