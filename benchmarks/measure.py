"""Processes measured from outside, and numbers with their spread."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Run:
    """One finished process."""

    seconds: float
    """Wall time."""
    mebibytes: float
    """Peak memory."""
    output: str


def measure(command: Sequence[str | Path]) -> Run:
    """Run a process to its end.

    Raises:
        RuntimeError: it failed.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        began = time.perf_counter()
        process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env=environment(),
            cwd=ROOT,
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        for stream in (output, errors):
            stream.seek(0)
        text, problems = output.read().decode(), errors.read().decode()
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {problems[-2000:]}")
    return Run(seconds, usage.ru_maxrss / 1024, text)


def environment() -> dict[str, str]:
    """Return the environment of measured processes: no chosen model, no network."""
    kept = {name: value for name, value in os.environ.items() if name != "ATTN_MODEL"}
    return {**kept, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def spread(values: Sequence[float], digits: int) -> str:
    """Write the median with the smallest and the largest."""
    low, middle, high = min(values), statistics.median(values), max(values)
    if len(values) == 1:
        return f"{middle:.{digits}f}"
    return f"{middle:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def machine() -> str:
    """Describe what was measured on."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1] for line in info.read_text().splitlines() if "model name" in line
        ]
        cpu = names[0].strip() if names else cpu
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} cores of {cpu}, {platform.system()}, Python {platform.python_version()}"
