"""The SHA-256 sum of a weights file, without anybody waiting for it who does not need it.

Blobs of the Hugging Face cache and of Ollama are named by their sum. Other files are read once, in
a thread while the model runs, and the sum is kept in the user's cache under path, size and time
of change.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from pathlib import Path

from attncli.cache import file_key, read_entry, write_entry
from attncli.errors import ModelProblem

_NAMED_BY_SUM = re.compile(r"(?:sha256[-:])?([0-9a-f]{64})")
_SUM = re.compile(r"[0-9a-f]{64}")
_SETTLED = 2.0
"""Seconds; a file changed so recently could change again without a new time of change."""


class Checksum:
    """The sum of one file; computed once, when asked for or ahead of that."""

    def __init__(self, path: Path) -> None:
        """Take the file; nothing is read yet."""
        self._path = path
        self._lock = threading.Lock()
        self._sum: str | None = None

    def start(self) -> None:
        """Compute the sum in a thread that does not keep the process alive."""
        threading.Thread(target=self._quietly, name="sha256", daemon=True).start()

    def result(self) -> str:
        """Return the sum, 64 hexadecimal digits; wait for it if need be.

        Raises:
            ModelProblem: the file cannot be read.
        """
        with self._lock:
            if self._sum is None:
                try:
                    self._sum = sum_of(self._path)
                except OSError as problem:
                    raise ModelProblem(
                        f"{self._path}: cannot be read ({problem.strerror})."
                    ) from None
            return self._sum

    def _quietly(self) -> None:
        try:
            self.result()
        except ModelProblem:
            # whoever asks for the result is told
            return


def sum_of(path: Path) -> str:
    """Return the SHA-256 sum of a file: from its name, from the cache, or from its bytes.

    Raises:
        OSError: the file cannot be read.
    """
    real = path.resolve()
    named = _NAMED_BY_SUM.fullmatch(real.name)
    if named and real.parent.name == "blobs":
        return named[1]
    key = file_key(real, "sha256")
    kept = (read_entry(key) or b"").decode("ascii", "replace")
    if _SUM.fullmatch(kept):
        return kept
    with real.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    settled = time.time() - real.stat().st_mtime > _SETTLED
    if settled and file_key(real, "sha256") == key:
        write_entry(key, digest.encode())
    return digest
