"""Small GGUF files, written byte by byte, and random blocks of every type."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attncli.checkpoints.gguf_types import BLOCKS, TYPE_NAMES

Array = np.ndarray

NUMBERS = {name: number for number, name in TYPE_NAMES.items()}
# where the float16 scales of a block stand; bytes elsewhere may be anything
_SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82],
    "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ2_XXS": [0], "IQ2_XS": [0],
    "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0], "IQ4_NL": [0], "IQ4_XS": [0],
    "TQ1_0": [52], "TQ2_0": [64],
}  # fmt: skip


def random_blocks(
    rng: np.random.Generator, kind: str, rows: int, columns: int, size: float = 0.02
) -> Array:
    """Return bytes [row, bytes of a row] of random blocks with scales of about `size`."""
    items, n_bytes = BLOCKS[kind]
    blocks = rng.integers(0, 256, (rows * columns // items, n_bytes), dtype=np.uint8)
    for start in _SCALES.get(kind, []):
        scales = rng.normal(0, size, len(blocks)).astype("<f2")
        blocks[:, start : start + 2] = scales.view(np.uint8).reshape(-1, 2)
    if kind == "IQ1_M":  # a float16 spread over the upper halves of four 16-bit words
        bits = np.abs(rng.normal(0, size, len(blocks))).astype("<f2").view(np.uint16)
        for word in range(4):
            part = ((bits >> (4 * word)) & 15).astype(np.uint8) << 4
            blocks[:, 49 + 2 * word] = (blocks[:, 49 + 2 * word] & 15) | part
    if kind == "MXFP4":  # an exponent: keep it near one
        blocks[:, 0] = rng.integers(118, 128, len(blocks))
    return blocks.reshape(rows, -1)


def text(value: str | bytes) -> bytes:
    """Return a GGUF string."""
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def scalar(value: Any) -> tuple[int, bytes]:
    """Return type number and bytes of a metadata value."""
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, int):
        return 4, struct.pack("<I", value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, text(value)
    if isinstance(value, np.ndarray):
        kinds = {"float32": 6, "int32": 5, "bool": 7, "uint8": 0, "int8": 1, "uint32": 4}
        head = struct.pack("<IQ", kinds[value.dtype.name], len(value))
        return 9, head + value.tobytes()
    items = [text(item) for item in value]
    return 9, struct.pack("<IQ", 8, len(items)) + b"".join(items)


Tensor = Array | tuple[str, tuple[int, ...], bytes]
"""An array of float32 or float16, or (type, numpy shape, bytes)."""


def gguf_bytes(
    metadata: Mapping[str, Any], tensors: Mapping[str, Tensor], *, version: int = 3
) -> bytes:
    """Return a whole GGUF file."""
    alignment = metadata.get("general.alignment", 32)
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, value in metadata.items():
        kind, data = scalar(value)
        head += text(key) + struct.pack("<I", kind) + data
    body = b""
    for name, tensor in tensors.items():
        kind, shape, data = describe(tensor)
        body += b"\0" * (-len(body) % alignment)
        head += text(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += struct.pack("<IQ", NUMBERS[kind], len(body))
        body += data
    return head + b"\0" * (-len(head) % alignment) + body


def describe(tensor: Tensor) -> tuple[str, tuple[int, ...], bytes]:
    """Return type, numpy shape and bytes of a tensor."""
    if isinstance(tensor, tuple):
        return tensor
    kind = {"float32": "F32", "float16": "F16"}[tensor.dtype.name]
    return kind, tensor.shape, tensor.tobytes()


def write_gguf(path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Path:
    """Write a GGUF file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gguf_bytes(metadata, tensors))
    return path


def quantised(rng: np.random.Generator, kind: str, shape: Sequence[int]) -> Tensor:
    """Return a tensor of random blocks."""
    rows = int(np.prod(shape[:-1]))
    return kind, tuple(shape), random_blocks(rng, kind, rows, shape[-1]).tobytes()
