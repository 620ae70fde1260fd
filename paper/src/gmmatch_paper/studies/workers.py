"""Processes that measure cells: side by side, restarted when one dies, gone when the parent is gone."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from typing import Any, TypeAlias

from gmmatch.errors import GMMatchWarning
from gmmatch_paper.parallel import resolve_jobs
from gmmatch_paper.studies.records import plain
from gmmatch_paper.studies.study import Measured, Part
from gmmatch_paper.studies.timing import use_one_thread


@dataclass(frozen=True)
class Task:
    """One cell to measure."""

    part: Part
    fixed: Mapping[str, Any]
    cell: dict[str, Any]
    key: str


@dataclass(frozen=True)
class Failure:
    """Why a cell could not be measured.

    Examples
    --------
    >>> Failure.of(ValueError("too few rows")).text
    'ValueError: too few rows'
    """

    text: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Return the first line of an error, short enough for a table."""
        lines = str(error).strip().splitlines()
        return cls(f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__)


Outcome: TypeAlias = "Measured | Failure"


class Workers:
    """Processes that measure cells side by side; started at the first use, kept for the next study.

    Examples
    --------
    >>> with Workers(1) as workers:
    ...     workers.pool is None
    True
    """

    def __init__(self, n_jobs: int | None = -1) -> None:
        self.jobs = resolve_jobs(n_jobs)
        self._pool: ProcessPoolExecutor | None = None

    @property
    def pool(self) -> Executor | None:
        """The pool, or None when one process does everything."""
        if self.jobs > 1 and self._pool is None:
            # A fresh interpreter each: a fork would inherit the locks of running threads.
            self._pool = ProcessPoolExecutor(
                self.jobs, mp_context=get_context("spawn"), initializer=_start_worker
            )
        return self._pool

    def restart(self) -> None:
        """Give up a pool of which a process died; the next use starts another."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def measure_tasks(
    tasks: list[Task],
    workers: Workers | None,
    *,
    keep_going: bool = False,
    enough: Callable[[], bool] | None = None,
) -> Iterator[tuple[Task, Outcome]]:
    """Yield every task with what it measured, as they finish.

    Parameters
    ----------
    tasks
        The cells. Those that measure time come last, alone, in this process.
    workers
        What measures in parallel; this process alone without it.
    keep_going
        Whether an error becomes a :class:`Failure` instead of ending everything.
    enough
        Asked before every cell; once it says so, no other is begun.
    """
    stop = enough or (lambda: False)
    together = [task for task in tasks if not task.part.timed]
    if workers is not None and workers.jobs > 1 and len(together) > 1:
        yield from _in_parallel(together, workers, keep_going, stop)
    else:
        yield from _one_by_one(together, keep_going, stop)
    # The other processes have nothing to do by now, so that the clock measures one thing only.
    yield from _one_by_one([task for task in tasks if task.part.timed], keep_going, stop)


def _one_by_one(
    tasks: list[Task], keep_going: bool, enough: Callable[[], bool]
) -> Iterator[tuple[Task, Outcome]]:
    for task in tasks:
        if enough():
            return
        try:
            outcome: Outcome = measure_cell(task.part.measure, task.fixed, task.cell)
        except Exception as error:
            if not keep_going:
                raise
            outcome = Failure.of(error)
        yield task, outcome


def _in_parallel(
    tasks: list[Task], workers: Workers, keep_going: bool, enough: Callable[[], bool]
) -> Iterator[tuple[Task, Outcome]]:
    queue, suspects = deque(tasks), deque[Task]()
    waiting: dict[Future[Measured], Task] = {}
    try:
        while queue or suspects or waiting:
            if enough():
                queue.clear()
                suspects.clear()
                if not waiting:
                    return
            # A cell that was running when a process died runs again alone, to tell which one it was.
            if suspects and not waiting:
                _submit(suspects, 1, waiting, workers)
            elif not suspects:
                _submit(queue, 2 * workers.jobs, waiting, workers)
            alone = len(waiting) == 1
            ready, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ready:
                task = waiting.pop(future)
                try:
                    outcome: Outcome = future.result()
                except BrokenExecutor as error:
                    if not keep_going:
                        raise
                    workers.restart()
                    if alone:
                        yield task, Failure(f"its process died ({error})")
                    else:
                        suspects.extend([task, *waiting.values()])
                        waiting.clear()
                    break
                except Exception as error:
                    if not keep_going:
                        raise
                    outcome = Failure.of(error)
                yield task, outcome
    finally:
        for future in waiting:
            future.cancel()


def _submit(source: deque[Task], most: int, waiting: dict[Future[Measured], Task], workers: Workers) -> None:
    """Hand tasks to the pool until so many wait, or until it turns out that a process died."""
    while source and len(waiting) < most:
        task, pool = source[0], workers.pool
        assert pool is not None
        try:
            future = pool.submit(measure_cell, task.part.measure, dict(task.fixed), task.cell)
        except BrokenExecutor:
            if waiting:
                return  # those that wait say so themselves
            workers.restart()
            continue
        waiting[future] = source.popleft()


def measure_cell(
    measure: Callable[..., Measured], fixed: Mapping[str, Any], cell: Mapping[str, Any]
) -> Measured:
    """Measure one cell and add how long it took."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        # Studies go where the warnings are about: far rows, and medians stopped early on purpose.
        warnings.simplefilter("ignore", GMMatchWarning)
        measured = measure(**fixed, **cell)
    return dict(plain({**measured, "seconds": round(time.perf_counter() - began, 3)}))


def _start_worker() -> None:
    """Prepare a process of the pool: one thread each, gone when the parent is gone."""
    os.environ["OMP_NUM_THREADS"] = "1"  # for libraries that are loaded later, such as torch's
    use_one_thread()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then lets the cells finish
    parent = parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)  # the parent was killed and cannot end this process itself

    threading.Thread(target=follow, daemon=True).start()
