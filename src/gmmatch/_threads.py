"""Threads of this package, and those of the libraries it calls.

The compiled loops release the interpreter's lock, so plain threads are enough.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

from gmmatch.errors import InvalidInputError

Item = TypeVar("Item")
Result = TypeVar("Result")

_this_thread = threading.local()
_libraries: dict[str, Any] = {}

# Up to this many numbers, a second thread of BLAS costs more than it brings.
_SMALL_PRODUCT = 1 << 20


if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801 (it takes the place of the other)
        """A property that is computed once for an object.

        Before Python 3.12 all objects share a lock, and a process that forks while another thread holds it leaves it
        locked in the child forever. Without a lock, two threads may compute the same value, and either is kept.
        """

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = vars(instance)[self.attrname] = self.func(instance)
            return value


def run_parallel(function: Callable[[Item], Result], items: Sequence[Item], n_jobs: int) -> list[Result]:
    """Return the results of a function for all items, in order; up to ``n_jobs`` threads run it.

    Python raises KeyboardInterrupt in the main thread alone: the others end when they next :func:`check_interrupt`.

    Examples
    --------
    >>> run_parallel(abs, [-1, 2, -3], n_jobs=2)
    [1, 2, 3]
    """
    if n_jobs == 1 or len(items) < 2:
        return [function(item) for item in items]
    interrupted = threading.Event()
    options: Any = {"initializer": setattr, "initargs": (_this_thread, "interrupted", interrupted)}
    with ThreadPoolExecutor(min(n_jobs, len(items)), **options) as threads:
        try:
            return list(threads.map(function, items))
        except BaseException:
            interrupted.set()
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def check_interrupt() -> None:
    """Raise KeyboardInterrupt in a thread of :func:`run_parallel` whose caller was interrupted."""
    interrupted = getattr(_this_thread, "interrupted", None)
    if interrupted is not None and interrupted.is_set():
        raise KeyboardInterrupt


def resolve_jobs(n_jobs: int | None) -> int:
    """Return the number of threads that ``n_jobs`` asks for: every core by default, else in joblib's convention.

    Examples
    --------
    >>> resolve_jobs(None) == available_cores(), resolve_jobs(3)
    (True, 3)
    """
    if n_jobs is None:
        return available_cores()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise InvalidInputError(f"n_jobs={n_jobs!r}: give a number of threads, or -1 for every core.")
    if n_jobs > 0:
        return int(n_jobs)
    return max(1, available_cores() + 1 + int(n_jobs))


def available_cores() -> int:
    """Return how many cores this process may use (containers and ``taskset`` counted in)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def release_freed_memory() -> None:
    """Give freed memory back to the system: glibc keeps up to 64 MB for each thread that has worked.

    Examples
    --------
    >>> release_freed_memory()
    """
    if sys.platform == "linux":
        import ctypes  # which --help does without

        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries have none
        if trim is not None:
            trim(0)


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep matrix products, and scikit-learn's loops, to a thread of their own while this lasts.

    Blocks of rows are spread over threads already. More threads within a block would compete with them
    for the same cores, and make sums depend on how many there are.

    Examples
    --------
    >>> with one_blas_thread():
    ...     pass
    """
    # Looking for the libraries takes milliseconds, so it is done again only after more was imported.
    if _libraries.get("modules") != len(sys.modules):
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

        _libraries["controller"] = ThreadpoolController()
        _libraries["modules"] = len(sys.modules)
    limits: AbstractContextManager[Any] = _libraries["controller"].limit(limits=1)
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
