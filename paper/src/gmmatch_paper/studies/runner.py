"""Running studies: cell by cell, over the cores, from where the last run stopped."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs, parallel_config  # type: ignore[import-untyped]

from gmmatch.errors import GMMatchError, GMMatchWarning, InvalidInputError, first_line
from gmmatch_paper.studies.records import (
    SCHEMA,
    Journal,
    as_results,
    cell_key,
    part_code,
    plain,
    provenance,
    read_record,
    write_results,
)
from gmmatch_paper.studies.results import Results
from gmmatch_paper.studies.study import Measured, Part, SizeName, Study

Progress = Callable[[int, int], None]
"""Called with how many cells are done and how many there are."""


@dataclass(frozen=True)
class Task:
    """One cell to measure."""

    part: Part
    fixed: Mapping[str, Any]
    cell: dict[str, Any]
    key: str


def resolve_jobs(jobs: int) -> int:
    """Return the number of processes that ``--jobs`` asks for: -1 is one for every core, -2 one fewer."""
    if jobs == 0:
        raise InvalidInputError("n_jobs=0: give a number of processes, or -1 for every core.")
    return int(effective_n_jobs(jobs))


@dataclass(frozen=True)
class LongRun:
    """How a study is run whose cells take minutes: nothing that was measured is ever thrown away.

    A cell that fails is recorded with its error, measured again by the next run, and does not stop the
    others. Cells of earlier runs with other options stay in the results.

    Parameters
    ----------
    command : str
        What was typed, without the folders of this machine.
    seconds : float, optional
        Begin no further cell after so long; the results then hold what is done.
    notes : mapping
        What else to record of this run, such as the device.
    """

    command: str
    seconds: float | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)


def run_study(
    study: Study,
    *,
    output: str | os.PathLike[str],
    size: SizeName = "quick",
    seeds: int | None = None,
    jobs: int = 1,
    fresh: bool = False,
    progress: Progress | None = None,
    long_run: LongRun | None = None,
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
    jobs : int
        Processes that measure side by side. Cells that measure time always run alone.
    fresh : bool
        Forget what was measured before.
    progress : function, optional
        Told how many cells are done.
    long_run : LongRun, optional
        Keep going after failures, and keep the cells of other runs.

    Returns
    -------
    Results
    """
    if size not in ("quick", "full"):
        raise InvalidInputError(f'size={size!r}: expected "quick" or "full".')
    if seeds is not None and (isinstance(seeds, bool) or seeds < 1):
        raise InvalidInputError(f"seeds={seeds!r}: expected a number of repetitions, 1 or more.")
    target = Path(output, f"{study.name}.json")
    journal = Journal(target.with_suffix(".partial.jsonl"))
    if fresh:
        journal.remove()
    earlier = None if fresh else _earlier_record(target)
    finished, interrupted = _finished_cells(earlier), journal.read()
    found = {**finished, **interrupted}
    tasks = _tasks(study, size, seeds)
    done = {task.key: found[task.key] for task in tasks if task.key in found}
    missing = [task for task in tasks if task.key not in done]
    failed: dict[str, Measured] = {}
    began, tell = time.monotonic(), progress or (lambda done, total: None)
    tell(len(done), len(tasks))
    for task, outcome in _measure(missing, jobs, long_run):
        if isinstance(outcome, str):
            failed[task.key] = {"error": outcome, "seconds": 0.0}
        else:
            journal.append(task.key, outcome)
            done[task.key] = outcome
        tell(len(done) + len(failed), len(tasks))
    outcomes = {**found, **done, **failed}
    if long_run is not None:
        tasks = [task for task in tasks if task.key in outcomes] + _others(study, found, tasks)
    record = _record(study, size, seeds, tasks, outcomes, jobs)
    if long_run is not None:
        runs = [] if earlier is None else earlier["provenance"].get("runs", [])
        measured = sum(task.key in done for task in missing)
        # Cells of a run that was killed are listed with the one that goes on.
        resumed = len(interrupted.keys() - finished.keys())
        if measured or resumed:
            seconds = round(time.monotonic() - began, 1)
            run = {"command": long_run.command, "cells": measured, "failed": len(failed), "seconds": seconds}
            runs = [*runs, {**run, "resumed": resumed, "jobs": jobs, **long_run.notes}]
        record["provenance"] |= {"command": long_run.command, "runs": runs}
    write_results(target, record)
    journal.remove()
    return as_results(record)


def _tasks(study: Study, size: SizeName, seeds: int | None) -> list[Task]:
    tasks = []
    for part in study.parts:
        fixed, code = part.grid(size).fixed, part_code(part)
        for cell in part.cells(size, seeds):
            tasks.append(Task(part, fixed, cell, cell_key(part.name, code, fixed, cell)))
    return tasks


def _others(study: Study, found: Mapping[str, Measured], tasks: list[Task]) -> list[Task]:
    """Return cells of earlier runs that this one does not have, if the same code measured them."""
    mine = {task.key for task in tasks}
    parts = {(part.name, part_code(part)): part for part in study.parts}
    others = []
    for key in (key for key in found if key not in mine):
        name, code, fixed, cell = json.loads(key)
        if (name, code) in parts:
            others.append(Task(parts[name, code], fixed, cell, key))
    return others


def _earlier_record(target: Path) -> dict[str, Any] | None:
    try:
        return read_record(target)
    except GMMatchError:
        return None


def _measure(tasks: list[Task], jobs: int, long_run: LongRun | None) -> Iterator[tuple[Task, Measured | str]]:
    """Yield every task with what it measured, or why it failed; those that measure time last and in this process."""
    end = time.monotonic() + (np.inf if long_run is None or long_run.seconds is None else long_run.seconds)
    for timed in (False, True):
        chosen = [task for task in tasks if task.part.timed == timed]
        calls = (
            delayed(_measure_cell)(
                number, task.part.measure, {**task.fixed, **task.cell}, long_run is not None
            )
            for number, task in enumerate(chosen)
            if time.monotonic() < end
        )
        count = 1 if timed else max(1, min(jobs, len(chosen)))
        with parallel_config("loky", n_jobs=count, inner_max_num_threads=1 if count > 1 else None):
            measure = Parallel(return_as="generator_unordered", batch_size=1)
            try:
                for number, outcome in measure(calls):
                    yield chosen[number], outcome
            except BrokenExecutor as error:
                raise GMMatchError(
                    "A process died; perhaps memory ran out. Run the command again with fewer --jobs: it resumes."
                ) from error


def _measure_cell(
    number: int, measure: Callable[..., Measured], cell: Mapping[str, Any], keep_going: bool
) -> tuple[int, Measured | str]:
    """Return a cell's number, and what it measured with how long that took, or why it failed."""
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():
            # Studies go where the warnings are about: far rows, and medians stopped early on purpose.
            warnings.simplefilter("ignore", GMMatchWarning)
            measured = measure(**cell)
    except Exception as error:
        if not keep_going:
            raise
        return number, f"{type(error).__name__}: {first_line(error)[:300]}".removesuffix(": ")
    return number, dict(plain({**measured, "seconds": round(time.perf_counter() - began, 3)}))


def _finished_cells(record: Mapping[str, Any] | None) -> dict[str, Measured]:
    found = {}
    for name, part in (record or {"parts": {}})["parts"].items():
        for row in part["cells"]:
            cell = {parameter: row[parameter] for parameter in part["parameters"]}
            if "error" not in row:
                measured = {item: value for item, value in row.items() if item not in cell}
                found[cell_key(name, part["code"], part["fixed"], cell)] = measured
    return found


def _record(
    study: Study,
    size: SizeName,
    seeds: int | None,
    tasks: list[Task],
    done: Mapping[str, Measured],
    jobs: int,
) -> dict[str, Any]:
    parts: dict[str, dict[str, Any]] = {}
    for part in study.parts:
        mine = [task for task in tasks if task.part is part]
        parts[part.name] = {
            "code": part_code(part),
            "timed": part.timed,
            "fixed": plain(part.grid(size).fixed),
            "parameters": [*part.grid(size).vary, "seed"],
            "seconds": round(sum(done[task.key]["seconds"] for task in mine), 1),
            "cells": [{**plain(task.cell), **done[task.key]} for task in mine],
        }
    command = f"gmmatch reproduce {study.name} --{size}" + (f" --seeds {seeds}" if seeds else "")
    counts = {
        part.name: seeds if seeds is not None and part.seeded else part.grid(size).seeds
        for part in study.parts
    }
    return {
        "schema": SCHEMA,
        "study": study.name,
        "paper": list(study.paper),
        "size": size,
        "provenance": provenance(command, jobs, counts),
        "parts": parts,
    }
