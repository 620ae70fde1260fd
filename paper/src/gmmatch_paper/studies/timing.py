"""How long one thread on one core takes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def use_one_thread() -> Any:
    """Keep matrix products of this process in one thread from now on, or within a ``with`` block."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    return threadpool_limits(1)


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this thread on a single core and matrix products in one thread."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    if cores is not None:
        os.sched_setaffinity(0, {max(cores)})
    try:
        with use_one_thread():
            yield
    finally:
        if cores is not None:
            os.sched_setaffinity(0, cores)


def timed(work: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Return the least seconds that ``work`` took, on one core, and what it returned.

    Seconds are those that this thread had the processor: the wall-clock time of an idle machine, and
    hardly more on a busy one. The least of several repeats was disturbed least.
    """
    times = []
    value = None
    with one_core():
        for _ in range(repeats):
            began = time.thread_time()
            value = work()
            times.append(time.thread_time() - began)
    return min(times), value
