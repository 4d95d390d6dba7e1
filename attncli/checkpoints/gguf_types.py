"""The storage types of GGUF tensors: their numbers, names, and the size of their blocks.

Source: enum ggml_type and type_traits in ggml.h and ggml.c; sizes as GGML_QUANT_SIZES of the gguf
package (0.19).
"""

from __future__ import annotations

_TYPES = (
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (9, "Q8_1", 32, 40),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (15, "Q8_K", 256, 292),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (24, "I8", 1, 1),
    (25, "I16", 1, 2),
    (26, "I32", 1, 4),
    (27, "I64", 1, 8),
    (28, "F64", 1, 8),
    (29, "IQ1_M", 256, 56),
    (30, "BF16", 1, 2),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (39, "MXFP4", 32, 17),
)
"""Number, name, values in a block, bytes of a block."""

TYPE_NAMES = {number: name for number, name, _, _ in _TYPES}
BLOCKS = {name: (items, n_bytes) for _, name, items, n_bytes in _TYPES}
PLAIN = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I8": "|i1",
    "I16": "<i2",
    "I32": "<i4",
    "I64": "<i8",
}
"""Types that are numbers and no blocks, as numpy reads them."""
INTERMEDIATE = frozenset({"Q8_1", "Q8_K"})
"""Types of products inside ggml, which no model is stored in."""
QUANTISED = frozenset(BLOCKS) - PLAIN.keys() - INTERMEDIATE
"""Types that attn turns into float32."""
