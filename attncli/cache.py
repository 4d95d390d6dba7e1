"""Files that may vanish at any time: what was slow to work out, under the user's cache folder.

Entries are written whole or not at all, so that runs side by side never see half of one, and
checked when read; a folder that cannot be written only costs time.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

_DIGEST = 32


def cache_folder() -> Path | None:
    """Return $XDG_CACHE_HOME/attn or what the platform uses instead; None without a home."""
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(chosen):
        return Path(chosen) / "attn"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "attn"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "attn" / "cache"
    return home / ".cache" / "attn"


def file_key(path: Path, *purpose: str) -> str:
    """Return the name of what was worked out from a file: another one once the file changes."""
    status = path.stat()
    parts = (str(path.resolve()), str(status.st_size), str(status.st_mtime_ns), *purpose)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:40]


def read_entry(key: str) -> bytes | None:
    """Return what was kept, or None: nothing, not readable, or damaged."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        data = (folder / key).read_bytes()
    except OSError:
        return None
    content = data[_DIGEST:]
    return content if hashlib.sha256(content).digest() == data[:_DIGEST] else None


def write_entry(key: str, content: bytes) -> None:
    """Keep something, if the folder takes it."""
    folder = cache_folder()
    if folder is None:
        return
    # a full disk, a folder of somebody else, a home without one: next time will be slow again
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(name, folder / key)
        except OSError:
            with suppress(OSError):
                os.unlink(name)
            raise
