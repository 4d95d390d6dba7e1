"""The usual reasons why a file under a checkpoint's name holds no weights."""

from __future__ import annotations

from pathlib import Path

from attncli.errors import ModelProblem


def refuse_other_files(path: Path, head: bytes, size: int) -> None:
    """Refuse a file by its first bytes.

    Raises:
        ModelProblem: it is empty, a Git LFS pointer, or a web page.
    """
    if size == 0:
        raise ModelProblem(f"{path}: the file is empty (0 bytes). Download it again.")
    if head.startswith(b"version https://git-lfs"):
        raise ModelProblem(
            f"{path}: a Git LFS pointer of {size} bytes, not the weights. "
            "Run git lfs pull, or download the file."
        )
    if head.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        raise ModelProblem(
            f"{path}: a web page of {size} bytes, not the weights. Download the file itself."
        )
