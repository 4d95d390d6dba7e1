"""What a GGUF file says about itself before its vocabulary: enough for a list of models.

Reads a few kilobytes, whatever the size of the file, and believes no length it finds. Whoever
computes with a file reads its header in full and checks it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from attncli.errors import ModelProblem

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q"}
_SCALARS |= {12: "d"}
_STRING, _ARRAY = 8, 9
_MAX_PAIRS = 200
_MAX_TEXT = 1 << 16
_MAX_ITEMS = 4096
_FILE_TYPES = (
    "F32", "F16", "Q4_0", "Q4_1", "", "", "", "Q8_0", "Q5_0", "Q5_1", "Q2_K", "Q3_K_S", "Q3_K_M",
    "Q3_K_L", "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K", "IQ2_XXS", "IQ2_XS", "Q2_K_S",
    "IQ3_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ3_M", "IQ2_S", "IQ2_M", "IQ4_XS", "IQ1_M",
    "BF16", "", "", "", "TQ1_0", "TQ2_0", "MXFP4",
)  # fmt: skip
"""Names of `general.file_type`, by its number."""


@dataclass(frozen=True, slots=True)
class GgufPeek:
    """What a file says about itself; what it does not say is empty or None."""

    architecture: str
    layers: int | None
    heads: int | None
    """None also where layers differ."""
    storage: str
    """Type of most tensors, such as Q4_K_M."""


def peek_gguf(path: Path) -> GgufPeek:
    """Read the first metadata of a GGUF file.

    Raises:
        ModelProblem: it cannot be read, or is no GGUF file.
    """
    try:
        with path.open("rb") as file:
            values = _metadata(path, file)
    except OSError as problem:
        raise ModelProblem(f"{path}: cannot be read ({problem.strerror}).") from None
    architecture = values.get("general.architecture")
    name = architecture if isinstance(architecture, str) else ""
    kind = values.get("general.file_type")
    known = isinstance(kind, int) and 0 <= kind < len(_FILE_TYPES)
    return GgufPeek(
        architecture=name,
        layers=_count(values.get(f"{name}.block_count")),
        heads=_count(values.get(f"{name}.attention.head_count")),
        storage=_FILE_TYPES[kind] if known and isinstance(kind, int) else "",
    )


def _metadata(path: Path, file: BinaryIO) -> dict[str, Any]:
    head = file.read(24)
    if head[:4] != b"GGUF":
        raise ModelProblem(f"{path}: not a GGUF file, it begins with {head[:4]!r}.")
    if len(head) < 24:
        raise ModelProblem(f"{path}: cut short, its header is not whole. Download it again.")
    values: dict[str, Any] = {}
    try:
        for _ in range(min(struct.unpack_from("<Q", head, 16)[0], _MAX_PAIRS)):
            key = _text(file)
            if key.startswith("tokenizer."):
                break
            values[key] = _value(file, _number(file, "I"))
    except _Enough:
        pass
    return values


class _Enough(Exception):
    """The rest is too long or cannot be read: what was found so far must do."""


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _text(file)
    if kind == _ARRAY:
        item, count = _number(file, "I"), _number(file, "Q")
        if item not in _SCALARS or count > _MAX_ITEMS:
            raise _Enough
        found = {_number(file, _SCALARS[item]) for _ in range(count)}
        return found.pop() if len(found) == 1 else None
    if kind not in _SCALARS:
        raise _Enough
    return _number(file, _SCALARS[kind])


def _number(file: BinaryIO, code: str) -> Any:
    data = file.read(struct.calcsize("<" + code))
    if len(data) < struct.calcsize("<" + code):
        raise _Enough
    return struct.unpack("<" + code, data)[0]


def _text(file: BinaryIO) -> str:
    length = _number(file, "Q")
    if length > _MAX_TEXT:
        raise _Enough
    return file.read(length).decode("utf-8", "replace")


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < 1_000_000 else None
