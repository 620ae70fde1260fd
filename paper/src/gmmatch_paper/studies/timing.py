"""How long one thread on one core takes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any


def timed(work: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Return the least seconds that ``work`` took, on one core, and what it returned.

    Seconds are those that this thread had the processor: the wall-clock time of an idle machine, and
    hardly more on a busy one. The least of several repeats was disturbed least.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    if cores is not None:
        os.sched_setaffinity(0, {max(cores)})
    try:
        times, value = [], None
        with threadpool_limits(1):
            for _ in range(repeats):
                began = time.thread_time()
                value = work()
                times.append(time.thread_time() - began)
    finally:
        if cores is not None:
            os.sched_setaffinity(0, cores)
    return min(times), value
