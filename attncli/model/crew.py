"""Threads that share the rows of a layer, each with memory of its own.

numpy lets go of the interpreter while it computes, so threads that each take their own rows through
a layer, with products that use one thread, run side by side. Elementwise work, which a threaded
matrix product leaves to one core, is shared too.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Array = np.ndarray
Task = TypeVar("Task")

LEAST_ROWS = 96
"""Fewer rows go through a layer in one thread: sharing them costs more than it brings."""


class Scratch(threading.local):
    """Memory of one thread that is used again and again: fresh pages cost time."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._held: dict[str, Array] = {}

    def array(self, name: str, *shape: int) -> Array:
        """Return uninitialised float32 memory; what stood under this name before is gone."""
        size = 1
        for length in shape:
            size *= length
        held = self._held.get(name)
        if held is None or held.size < size:
            held = self._held[name] = np.empty(size, np.float32)
        return held[:size].reshape(shape)


class Crew:
    """Does the tasks of a run, in one thread or several."""

    def __init__(self, n_threads: int = 1) -> None:
        """Take the number of threads; only more than one are started."""
        self.n_threads = n_threads
        self.scratch = Scratch()
        self.lock = threading.Lock()
        """Held while observers look: they see one block at a time."""
        self._pool: ThreadPoolExecutor | None = None
        if n_threads > 1:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(n_threads)

    def each(self, work: Callable[[Task], None], tasks: Sequence[Task]) -> None:
        """Do all tasks, in any order; an error of one ends the run."""
        if self._pool is None or len(tasks) == 1:
            for task in tasks:
                work(task)
            return
        for done in [self._pool.submit(work, task) for task in tasks]:
            done.result()

    def close(self) -> None:
        """Let the threads go."""
        if self._pool is not None:
            self._pool.shutdown()


@contextmanager
def crew_for(n_rows: int) -> Iterator[Crew]:
    """Return a crew as large as the rows and the machine deserve."""
    n_threads = min(cores(), n_rows // (LEAST_ROWS // 2)) if n_rows >= LEAST_ROWS else 1
    if n_threads < 2:
        yield Crew()
        return
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        crew = Crew(n_threads)
        try:
            yield crew
        finally:
            crew.close()


def cores() -> int:
    """Return the processors this process may use; ATTN_THREADS sets another number."""
    given = os.environ.get("ATTN_THREADS", "")
    if given.isascii() and given.isdigit() and int(given):
        return min(int(given), 256)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
