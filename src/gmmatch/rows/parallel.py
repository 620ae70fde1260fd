"""Threads over chunks of rows.

The compiled loops release the interpreter's lock, so plain threads are enough; and because chunk
borders depend on the data's shape alone and partial results are combined in chunk order, a result is
the same to the last bit whatever the number of threads.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from gmmatch.errors import InvalidInputError

Result = TypeVar("Result")

_pools: dict[int, ThreadPoolExecutor] = {}
_this_thread = threading.local()
_libraries: dict[str, Any] = {}

# Up to this many numbers, a second thread of BLAS costs more than it brings.
_SMALL_PRODUCT = 1 << 20

# A forked child inherits the pools but not their threads, and would wait for them forever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)


def resolve_jobs(n_jobs: int | None) -> int:
    """Return the number of threads that ``n_jobs`` asks for, in joblib's convention.

    Examples
    --------
    >>> resolve_jobs(None), resolve_jobs(3)
    (1, 3)
    """
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__") or n_jobs == 0:
        raise InvalidInputError(f"n_jobs={n_jobs!r}: give a number of threads, or -1 for every core.")
    if n_jobs > 0:
        return int(n_jobs)
    return max(1, available_cores() + 1 + int(n_jobs))


def available_cores() -> int:
    """Return how many cores this process may use (containers and ``taskset`` counted in)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_in_order(work: Callable[[int], Result], count: int, threads: int) -> list[Result]:
    """Return ``[work(0), ..., work(count - 1)]``, computed by ``threads`` threads, the caller's among them.

    Whoever is free takes the next piece, so that a thread which the system wakes late keeps nobody waiting.

    Called from within itself, the inner call is done by the thread that makes it: waiting there for
    another thread of the same pool could wait forever, and every core is busy anyway.

    If one fails, its error is raised once no other thread is at work any more: the caller may then take
    away what they were writing to.

    Examples
    --------
    >>> map_in_order(lambda number: number * number, 4, threads=2)
    [0, 1, 4, 9]
    """
    if threads <= 1 or count <= 1 or getattr(_this_thread, "belongs_to_pool", False):
        return [work(number) for number in range(count)]
    pool = _pools.get(threads)
    if pool is None:
        pool = _pools[threads] = ThreadPoolExecutor(
            threads - 1, thread_name_prefix="gmmatch", initializer=_mark_thread, initargs=(True,)
        )
    results: list[Any] = [None] * count
    errors: dict[int, BaseException] = {}
    numbers = iter(range(count))

    def take_turns() -> None:
        for number in numbers:
            try:
                results[number] = work(number)
            except BaseException as error:
                errors[number] = error
                deque(numbers, maxlen=0)  # nobody begins another piece

    helpers = [pool.submit(take_turns) for _ in range(min(threads, count) - 1)]
    _mark_thread(True)
    try:
        take_turns()
    finally:
        _mark_thread(False)
        deque(numbers, maxlen=0)
        wait([helper for helper in helpers if not helper.cancel()])
    try:
        if errors:
            raise errors[min(errors)]
    finally:
        errors.clear()  # or an error would hold its own traceback, and all that it refers to, in a circle
    return results


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep matrix products, and scikit-learn's loops, to a thread of their own while this lasts.

    Blocks of rows are spread over threads already. More threads within a block would compete with them
    for the same cores, and make sums depend on how many there are.

    Examples
    --------
    >>> with one_blas_thread():
    ...     pass
    """
    return blas_threads(1)


def blas_threads(count: int) -> AbstractContextManager[Any]:
    """Let matrix products have so many threads while this lasts.

    Examples
    --------
    >>> with blas_threads(2):
    ...     pass
    """
    # Looking for the libraries takes milliseconds, so it is done again only after more was imported.
    if _libraries.get("modules") != len(sys.modules):
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

        _libraries["controller"] = ThreadpoolController()
        _libraries["modules"] = len(sys.modules)
    limits: AbstractContextManager[Any] = _libraries["controller"].limit(limits=count)
    return limits


def blas_threads_for(numbers: int) -> AbstractContextManager[Any]:
    """Keep products of matrices of so many numbers to one thread if they are small.

    Threads of BLAS wait for work by spinning: over small matrices they take the cores from everything else, and the
    products come no sooner.

    Examples
    --------
    >>> with blas_threads_for(1_797 * 64):
    ...     pass
    """
    return one_blas_thread() if numbers <= _SMALL_PRODUCT else nullcontext()


def _mark_thread(belongs_to_pool: bool) -> None:
    _this_thread.belongs_to_pool = belongs_to_pool
