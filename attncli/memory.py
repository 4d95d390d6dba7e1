"""How much memory there is, and refusing a job before it starts that would need more."""

from __future__ import annotations

import os
from pathlib import Path

from attncli.errors import InputProblem

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def available() -> int | None:
    """Return the bytes that this process can still take, or None where that cannot be told.

    The least of what the system has left and what the limits of a container leave.
    """
    found = [left for left in (_of_system(), _of_container()) if left is not None]
    return min(found, default=None)


def check(needed: int, what: str, way: str) -> None:
    """Refuse a job that needs more memory than there is.

    Args:
        needed: bytes.
        what: needs them, such as "The matrices of 90,000 tokens".
        way: what to do instead.

    Raises:
        InputProblem: says how much is needed, how much there is, and the way around.
    """
    free = available()
    if free is not None and needed > free:
        raise InputProblem(
            f"{what} need {size_in_gb(needed)}, and {size_in_gb(free)} of memory are free; {way}."
        )


def size_in_gb(n_bytes: int) -> str:
    """Write a number of bytes in GB (10⁹ bytes)."""
    return f"{n_bytes / 1e9:,.1f} GB"


def _of_system() -> int | None:
    try:
        for line in _MEMINFO.read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on every system
        return None


def _of_container() -> int | None:
    try:
        limit = (_CGROUP / "memory.max").read_text("ascii").strip()
        used = (_CGROUP / "memory.current").read_text("ascii").strip()
        return None if limit == "max" else max(0, int(limit) - int(used))
    except (OSError, ValueError):
        return None
