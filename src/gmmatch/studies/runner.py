"""Running studies: cell by cell, over the cores, from where the last run stopped."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

from gmmatch.errors import GMMatchWarning, InvalidInputError
from gmmatch.parallel import resolve_jobs
from gmmatch.studies.records import (
    SCHEMA,
    Journal,
    as_results,
    cell_key,
    code_fingerprint,
    plain,
    provenance,
    read_record,
    write_results,
)
from gmmatch.studies.results import Results
from gmmatch.studies.study import Measured, Part, SizeName, Study
from gmmatch.studies.timing import use_one_thread

Progress = Callable[[int, int], None]
"""Called with how many cells are done and how many there are."""


@dataclass(frozen=True)
class _Task:
    part: Part
    fixed: Mapping[str, Any]
    cell: dict[str, Any]
    key: str


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

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def run_study(
    study: Study,
    *,
    output: str | os.PathLike[str],
    size: SizeName = "quick",
    seeds: int | None = None,
    workers: Workers | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> Results:
    """Measure what is not measured yet, and write ``NAME.json`` with everything.

    Parameters
    ----------
    study : Study
    output : path
        Folder for the results. Cells found there, of a finished or an interrupted run with the same
        parameters and the same code, are not measured again.
    size : "quick" or "full"
        Seconds, or the paper's sizes.
    seeds : int, optional
        Repetitions, where the study's own number does not suit.
    workers : Workers, optional
        What measures in parallel; one process without it. Cells that measure time always run alone.
    fresh : bool
        Forget what was measured before.
    progress : function, optional
        Told how many cells are done.

    Returns
    -------
    Results
    """
    if size not in ("quick", "full"):
        raise InvalidInputError(f'size={size!r}: expected "quick" or "full".')
    if seeds is not None and (isinstance(seeds, bool) or seeds < 1):
        raise InvalidInputError(f"seeds={seeds!r}: expected a number of repetitions, 1 or more.")
    folder = Path(output)
    target = folder / f"{study.name}.json"
    journal = Journal(folder / f"{study.name}.partial.jsonl")
    tasks = _tasks(study, size, seeds)
    done: dict[str, Measured] = {}
    if fresh:
        journal.remove()
    else:
        done = {**_finished_cells(target), **journal.read()}
    done = {task.key: done[task.key] for task in tasks if task.key in done}
    _measure([task for task in tasks if task.key not in done], done, journal, workers, progress)
    record = _record(study, size, seeds, tasks, done, workers)
    write_results(target, record)
    journal.remove()
    return as_results(record)


def _tasks(study: Study, size: SizeName, seeds: int | None) -> list[_Task]:
    tasks = []
    for part in study.parts:
        fixed, code = part.grid(size).fixed, code_fingerprint(part.measure)
        for cell in part.cells(size, seeds):
            tasks.append(_Task(part, fixed, cell, cell_key(part.name, code, fixed, cell)))
    return tasks


def _measure(
    missing: list[_Task],
    done: dict[str, Measured],
    journal: Journal,
    workers: Workers | None,
    progress: Progress | None,
) -> None:
    total = len(done) + len(missing)

    def finish(task: _Task, measured: Measured) -> None:
        journal.append(task.key, measured)
        done[task.key] = measured
        if progress is not None:
            progress(len(done), total)

    if progress is not None:
        progress(len(done), total)
    together = [task for task in missing if not task.part.timed]
    pool = workers.pool if workers is not None and len(together) > 1 else None
    for task, measured in _in_parallel(together, pool) if pool is not None else _one_by_one(together):
        finish(task, measured)
    # The other processes have nothing to do by now, so that the clock measures one thing only.
    for task, measured in _one_by_one([task for task in missing if task.part.timed]):
        finish(task, measured)


def _one_by_one(tasks: list[_Task]) -> Iterator[tuple[_Task, Measured]]:
    for task in tasks:
        yield task, _measure_cell(task.part.measure, task.fixed, task.cell)


def _in_parallel(tasks: list[_Task], pool: Executor) -> Iterator[tuple[_Task, Measured]]:
    waiting: dict[Future[Measured], _Task] = {
        pool.submit(_measure_cell, task.part.measure, dict(task.fixed), task.cell): task for task in tasks
    }
    try:
        while waiting:
            ready, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in ready:
                yield waiting.pop(future), future.result()
    finally:
        for future in waiting:
            future.cancel()


def _measure_cell(
    measure: Callable[..., Measured], fixed: Mapping[str, Any], cell: Mapping[str, Any]
) -> Measured:
    began = time.perf_counter()
    with warnings.catch_warnings():
        # Studies go where the warnings are about: far rows, and medians stopped early on purpose.
        warnings.simplefilter("ignore", GMMatchWarning)
        measured = measure(**fixed, **cell)
    return dict(plain({**measured, "seconds": round(time.perf_counter() - began, 3)}))


def _finished_cells(target: Path) -> dict[str, Measured]:
    if not target.exists():
        return {}
    try:
        record = read_record(target)
    except InvalidInputError:
        return {}
    found = {}
    version = record["provenance"]["gmmatch"]
    for name, part in record["parts"].items():
        for row in part["cells"]:
            cell = {parameter: row[parameter] for parameter in part["parameters"]}
            measured = {field: value for field, value in row.items() if field not in cell}
            found[cell_key(name, part["code"], part["fixed"], cell, version)] = measured
    return found


def _record(
    study: Study,
    size: SizeName,
    seeds: int | None,
    tasks: list[_Task],
    done: Mapping[str, Measured],
    workers: Workers | None,
) -> dict[str, Any]:
    parts: dict[str, dict[str, Any]] = {}
    for part in study.parts:
        mine = [task for task in tasks if task.part is part]
        parts[part.name] = {
            "code": code_fingerprint(part.measure),
            "timed": part.timed,
            "fixed": plain(part.grid(size).fixed),
            "parameters": [*part.grid(size).vary, "seed"],
            "seconds": round(sum(done[task.key]["seconds"] for task in mine), 1),
            "cells": [{**plain(task.cell), **done[task.key]} for task in mine],
        }
    command = f"gmmatch reproduce {study.name} --{size}" + (f" --seeds {seeds}" if seeds else "")
    jobs = workers.jobs if workers is not None else 1
    counts = {
        part.name: seeds if seeds is not None and part.seeded else part.grid(size).seeds
        for part in study.parts
    }
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "study": study.name,
        "paper": list(study.paper),
        "size": size,
        "provenance": provenance(command, jobs, counts),
        "claims": [],
        "parts": parts,
    }
    results = as_results(record)
    for claim in study.claims:
        verdict = claim.check(results)
        record["claims"].append(
            {
                "source": claim.source,
                "statement": claim.statement,
                "agrees": bool(verdict.agrees),
                "measured": verdict.measured,
            }
        )
    return record


def _start_worker() -> None:
    """Prepare a process of the pool: one thread each, gone when the parent is gone."""
    use_one_thread()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then lets the cells finish
    parent = parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)  # the parent was killed and cannot end this process itself

    threading.Thread(target=follow, daemon=True).start()
