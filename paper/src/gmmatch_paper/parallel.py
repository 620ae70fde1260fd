"""Cores, processes and threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from gmmatch.errors import InvalidInputError

Result = TypeVar("Result")


def available_cores() -> int:
    """Return how many cores this process may use (containers and ``taskset`` counted in)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def resolve_jobs(n_jobs: int | None) -> int:
    """Return the number of processes that ``n_jobs`` asks for, in joblib's convention.

    Examples
    --------
    >>> resolve_jobs(None), resolve_jobs(3)
    (1, 3)
    """
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__") or n_jobs == 0:
        raise InvalidInputError(f"n_jobs={n_jobs!r}: give a number of processes, or -1 for every core.")
    return int(n_jobs) if n_jobs > 0 else max(1, available_cores() + 1 + int(n_jobs))


def map_in_threads(work: Callable[[int], Result], numbers: Iterable[int]) -> list[Result]:
    """Return ``work`` of all numbers, computed by a thread for each core.

    Examples
    --------
    >>> map_in_threads(lambda number: number * number, range(4))
    [0, 1, 4, 9]
    """
    with ThreadPoolExecutor(available_cores()) as pool:
        return list(pool.map(work, numbers))
