"""Blocks of quantised numbers to float32, bit for bit as the gguf package does it.

The types that most files use have their own code here, two to ten times as fast; the others go
through `gguf.quants.dequantize`, which is imported only then. In every kernel, `blocks` is
[block, bytes], `out` is [block, values], both of one chunk that stays in cache.

Source: dequantize_row_* in ggml-quants.c; the layouts in ggml-common.h.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attncli.checkpoints.gguf_types import BLOCKS

Array = np.ndarray

CHUNK_VALUES = 1 << 16
"""Values unpacked at a time."""
_LOW = np.uint64(0x0F0F0F0F0F0F0F0F)
_FOUR = np.uint64(4)


class NotFiniteError(ValueError):
    """A scale or a value is NaN or infinite."""


def dequantise(kind: str, data: Array, out: Array) -> None:
    """Unpack whole rows of blocks.

    Args:
        kind: type of the blocks, such as Q4_K.
        data: bytes [row, bytes of a row].
        out: float32 [row, values of a row], contiguous.

    Raises:
        NotFiniteError: NaN or infinity in the scales or the result.
    """
    kernel = _KERNELS.get(kind)
    if kernel is None:
        _by_package(kind, data, out)
        return
    items, n_bytes = BLOCKS[kind]
    blocks, values = data.reshape(-1, n_bytes), out.reshape(-1, items)
    step = CHUNK_VALUES // items
    for start in range(0, len(blocks), step):
        kernel(blocks[start : start + step], values[start : start + step])


def _by_package(kind: str, data: Array, out: Array) -> None:
    # importing gguf costs a few hundredths of a second
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    step = max(1, CHUNK_VALUES // max(1, out.shape[-1]))
    for start in range(0, len(data), step):
        rows = slice(start, start + step)
        with np.errstate(all="ignore"):  # what is not finite is refused below
            out[rows] = dequantize(data[rows], GGMLQuantizationType[kind])
        if not np.isfinite(out[rows]).all():
            raise NotFiniteError


def _halves(blocks: Array, start: int, count: int = 1) -> Array:
    """Return `count` float16 numbers of every block as float32 [block, count]."""
    halves = blocks[:, start : start + 2 * count].copy().view("<f2").astype(np.float32)
    if not np.isfinite(halves).all():
        raise NotFiniteError
    return halves


def _nibbles(blocks: Array, start: int, count: int) -> tuple[Array, Array]:
    """Return the low and the high half of `count` bytes of every block, [block, count] each."""
    words = np.ascontiguousarray(blocks[:, start : start + count]).view(np.uint64)
    return (words & _LOW).view(np.uint8), ((words >> _FOUR) & _LOW).view(np.uint8)


def _q8_0(blocks: Array, out: Array) -> None:
    out[...] = blocks[:, 2:].view(np.int8)
    out *= _halves(blocks, 0)


def _q4_0(blocks: Array, out: Array) -> None:
    out[:, :16], out[:, 16:] = _nibbles(blocks, 2, 16)
    out -= np.float32(8)
    out *= _halves(blocks, 0)


def _q4_1(blocks: Array, out: Array) -> None:
    scale = _halves(blocks, 0, 2)
    out[:, :16], out[:, 16:] = _nibbles(blocks, 4, 16)
    out *= scale[:, :1]
    out += scale[:, 1:]


def _five_bits(blocks: Array, start: int, out: Array) -> None:
    """Numbers 0 to 31: a fifth bit for each of 32 in four bytes, then their low halves."""
    low, high = _nibbles(blocks, start + 4, 16)
    fifth = np.unpackbits(blocks[:, start : start + 4], axis=1, bitorder="little") << np.uint8(4)
    np.copyto(out[:, :16], low | fifth[:, :16])
    np.copyto(out[:, 16:], high | fifth[:, 16:])


def _q5_0(blocks: Array, out: Array) -> None:
    _five_bits(blocks, 2, out)
    out -= np.float32(16)
    out *= _halves(blocks, 0)


def _q5_1(blocks: Array, out: Array) -> None:
    scale = _halves(blocks, 0, 2)
    _five_bits(blocks, 4, out)
    out *= scale[:, :1]
    out += scale[:, 1:]


def _k_scales(blocks: Array) -> tuple[Array, Array]:
    """Return scale and minimum [block, 8, 1] of the eight parts of a Q4_K or Q5_K block.

    Twelve bytes hold eight 6-bit scales and eight 6-bit minimums.
    """
    factor = _halves(blocks, 0, 2)
    first, second, third = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scale = np.concatenate([first & 63, (third & 15) | ((first >> 2) & 48)], axis=1)
    least = np.concatenate([second & 63, (third >> 4) | ((second >> 2) & 48)], axis=1)
    return (factor[:, :1] * scale)[..., None], (factor[:, 1:] * least)[..., None]


def _q4_k(blocks: Array, out: Array) -> None:
    scale, least = _k_scales(blocks)
    low, high = _nibbles(blocks, 16, 128)
    parts = out.reshape(-1, 8, 32)
    parts[:, 0::2], parts[:, 1::2] = low.reshape(-1, 4, 32), high.reshape(-1, 4, 32)
    parts *= scale
    parts -= least


def _q5_k(blocks: Array, out: Array) -> None:
    scale, least = _k_scales(blocks)
    low, high = _nibbles(blocks, 48, 128)
    parts = out.reshape(-1, 8, 32)
    # part j of the block takes bit j of each of 32 bytes as its fifth bit
    bits = np.unpackbits(blocks[:, 16:48, None], axis=2, bitorder="little").transpose(0, 2, 1)
    fifth = np.ascontiguousarray(bits) << np.uint8(4)
    np.copyto(parts[:, 0::2], low.reshape(-1, 4, 32) | fifth[:, 0::2])
    np.copyto(parts[:, 1::2], high.reshape(-1, 4, 32) | fifth[:, 1::2])
    parts *= scale
    parts -= least


def _q6_k(blocks: Array, out: Array) -> None:
    scale = _halves(blocks, 208) * blocks[:, 192:208].view(np.int8)
    low, high = (half.reshape(-1, 2, 64) for half in _nibbles(blocks, 0, 128))
    upper = np.ascontiguousarray(blocks[:, 128:192]).reshape(-1, 2, 32)
    # two halves of 128 numbers, each four runs of 32 whose upper bits share 32 bytes
    runs = out.reshape(-1, 2, 4, 32)
    np.copyto(runs[:, :, 0], low[..., :32] | ((upper & 3) << 4))
    np.copyto(runs[:, :, 1], low[..., 32:] | ((upper & 12) << 2))
    np.copyto(runs[:, :, 2], high[..., :32] | (upper & 48))
    np.copyto(runs[:, :, 3], high[..., 32:] | ((upper & 192) >> 2))
    out -= np.float32(32)
    parts = out.reshape(-1, 16, 16)
    parts *= scale[..., None]


_KERNELS: dict[str, Callable[[Array, Array], None]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
}
OWN = frozenset(_KERNELS)
"""Types that need no other package."""
