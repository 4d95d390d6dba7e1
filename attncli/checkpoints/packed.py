"""8-bit packing: groups of 32 numbers along a row share one float16 scale.

value = int8 · scale, with scale = max|group| / 127. A packed tensor NAME is stored as an I8
tensor NAME of the same shape and an F16 tensor NAME + ".scale" with one entry per group; the
file's metadata says `attn.packed: q8/32`. Memory: 8.5 bits a number.

Source: the scheme of ggml's Q8_0 blocks (block_q8_0 in ggml-common.h), laid out as two tensors.
"""

from __future__ import annotations

import numpy as np

from attncli._shapes import Float

Array = np.ndarray

GROUP = 32
SCALE_SUFFIX = ".scale"
METADATA = {"attn.packed": f"q8/{GROUP}"}


def can_pack(shape: tuple[int, ...]) -> bool:
    """Only matrices whose rows divide into whole groups are packed; norms and biases stay."""
    return len(shape) == 2 and shape[-1] % GROUP == 0


def pack(values: Float[Array, "row column"]) -> tuple[Array, Array]:
    """Return (int8 values, float16 scales [row, group]) of a float32 matrix.

    The scale is rounded to float16 before the division, so that the error of a value is at
    most half a step (and exactly 0 for a group of zeros).
    """
    grouped = values.astype(np.float32).reshape(len(values), -1, GROUP)
    scales = (np.abs(grouped).max(axis=-1) / np.float32(127)).astype(np.float16)
    wide = scales.astype(np.float32)[..., None]
    steps = np.divide(grouped, wide, out=np.zeros_like(grouped), where=wide > 0)
    # float16 may round the scale down, which would push the largest value past 127
    packed = np.clip(np.rint(steps), -127, 127).astype(np.int8)
    return packed.reshape(values.shape), scales


def unpack(
    packed: Array, scales: Array, out: Float[Array, "row column"] | None = None
) -> Float[Array, "row column"]:
    """Return the float32 matrix of int8 values [row, column] and float16 scales [row, group]."""
    if out is None:
        out = np.empty(packed.shape, np.float32)
    np.copyto(out, packed)
    grouped = out.reshape(len(packed), -1, GROUP)
    grouped *= scales.astype(np.float32)[..., None]
    return out
