"""The user's cache folder: small results that are slow to make again.

Nothing depends on it: an entry that cannot be read is made again, one that cannot be written is
not kept. Entries appear whole (written aside, then renamed), so runs at the same time never see
half of one.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path


def user_cache() -> Path:
    """Return the folder where programs of this user keep what can be made again.

    $XDG_CACHE_HOME, or ~/.cache (macOS: ~/Library/Caches, Windows: %LOCALAPPDATA%).
    """
    given = os.environ.get("XDG_CACHE_HOME")
    if given:
        return Path(given).expanduser()
    home = Path(os.path.expanduser("~"))
    if sys.platform == "darwin":
        return home / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    return home / ".cache"


def read_cached(kind: str, key: str, limit: int) -> bytes | None:
    """Return an entry; None when there is none, it cannot be read, or it is larger than `limit`."""
    try:
        with _entry(kind, key).open("rb") as file:
            data = file.read(limit + 1)
    except OSError:
        return None
    return data if len(data) <= limit else None


def write_cached(kind: str, key: str, data: bytes) -> bool:
    """Keep an entry; False when the folder cannot be written, which is no problem."""
    import tempfile

    path = _entry(kind, key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(aside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(aside)
            raise
    except OSError:
        return False
    return True


def _entry(kind: str, key: str) -> Path:
    return user_cache() / "attn" / kind / key
