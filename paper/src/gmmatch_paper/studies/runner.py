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
from typing import Any, TypeAlias

from joblib import Parallel, delayed, effective_n_jobs, parallel_config  # type: ignore[import-untyped]

from gmmatch.errors import GMMatchError, GMMatchWarning, InvalidInputError, first_line
from gmmatch_paper.studies.records import (
    SCHEMA,
    Journal,
    as_results,
    cell_key,
    own_version,
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


@dataclass(frozen=True)
class Failure:
    """Why a cell could not be measured."""

    text: str

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Return the first line of an error, short enough for a table."""
        return cls(f"{type(error).__name__}: {first_line(error)[:300]}".removesuffix(": "))


Outcome: TypeAlias = "Measured | Failure"


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
    folder = Path(output)
    target = folder / f"{study.name}.json"
    journal = Journal(folder / f"{study.name}.partial.jsonl")
    tasks = _tasks(study, size, seeds)
    found: dict[str, Measured] = {}
    interrupted: dict[str, Measured] = {}
    if fresh:
        journal.remove()
    else:
        finished, noted = _finished_cells(target), journal.read()
        interrupted = {key: measured for key, measured in noted.items() if key not in finished}
        found = {**finished, **noted}
    done = {task.key: found[task.key] for task in tasks if task.key in found}
    missing = [task for task in tasks if task.key not in done]
    began = time.monotonic()
    failed = _measure(missing, done, journal, jobs, progress, long_run)
    errors = {key: {"error": failure.text, "seconds": 0.0} for key, failure in failed.items()}
    outcomes = {**found, **done, **errors}
    if long_run is not None:
        tasks = [task for task in tasks if task.key in outcomes] + _others(study, found, tasks)
    record = _record(study, size, seeds, tasks, outcomes, jobs)
    if long_run is not None:
        runs = [] if fresh else _earlier_runs(target)
        if interrupted:
            runs.append(_interrupted_run(long_run.command, interrupted))
        measured = sum(task.key in done for task in missing)
        if measured:
            runs.append({
                "command": long_run.command,
                "cells": measured,
                "failed": len(failed),
                "seconds": round(time.monotonic() - began, 1),
                "jobs": record["provenance"]["jobs"],
                **long_run.notes,
            })  # fmt: skip
        record["provenance"] |= {"command": long_run.command, "runs": runs}
    write_results(target, record)
    journal.remove()
    return as_results(record)


def _tasks(study: Study, size: SizeName, seeds: int | None) -> list[Task]:
    tasks = []
    for part in study.parts:
        fixed, code = part.grid(size).fixed, part_code(part)
        for cell in part.cells(size, seeds):
            tasks.append(Task(part, fixed, cell, cell_key(part.name, code, fixed, cell, _version(part))))
    return tasks


def _version(part: Part) -> str | None:
    """Return the version that a cell's key carries: none that changes where the author vouches for the code."""
    return None if part.code is None else "any"


def _others(study: Study, found: Mapping[str, Measured], tasks: list[Task]) -> list[Task]:
    """Return cells of earlier runs that this one does not have, if the same code measured them."""
    mine = {task.key for task in tasks}
    parts = {part.name: part for part in study.parts}
    others = []
    for key in found:
        version, name, code, fixed, cell = json.loads(key)
        part = parts.get(name)
        if key in mine or part is None or code != part_code(part):
            continue
        if version == (_version(part) or own_version()):
            others.append(Task(part, fixed, cell, key))
    return others


def _earlier_runs(target: Path) -> list[dict[str, Any]]:
    try:
        runs: list[dict[str, Any]] = read_record(target)["provenance"].get("runs", [])
    except GMMatchError:
        return []
    return runs


def _interrupted_run(command: str, cells: Mapping[str, Measured]) -> dict[str, Any]:
    """Return what is known of a run that was killed: what it measured, and on which device, not how long it took."""
    devices = dict.fromkeys(str(cell["device"]) for cell in cells.values() if "device" in cell)
    named = {"device": ", ".join(devices)} if devices else {}
    return {"command": command, "cells": len(cells), "failed": 0, "interrupted": True, **named}


def _measure(
    missing: list[Task],
    done: dict[str, Measured],
    journal: Journal,
    jobs: int,
    progress: Progress | None,
    long_run: LongRun | None,
) -> dict[str, Failure]:
    """Measure what is missing, add it to ``done``, and return what failed."""
    total = len(done) + len(missing)
    failed: dict[str, Failure] = {}
    if progress is not None:
        progress(len(done), total)
    end = None if long_run is None or long_run.seconds is None else time.monotonic() + long_run.seconds
    enough = None if end is None else lambda: time.monotonic() >= end
    for task, outcome in measure_tasks(missing, jobs, keep_going=long_run is not None, enough=enough):
        if isinstance(outcome, Failure):
            failed[task.key] = outcome
        else:
            journal.append(task.key, outcome)
            done[task.key] = outcome
        if progress is not None:
            progress(len(done) + len(failed), total)
    return failed


def measure_tasks(
    tasks: list[Task], jobs: int = 1, *, keep_going: bool = False, enough: Callable[[], bool] | None = None
) -> Iterator[tuple[Task, Outcome]]:
    """Yield every task with what it measured, as they finish; those that measure time last, alone, in this process.

    Parameters
    ----------
    tasks, jobs
        The cells, and the processes that measure them.
    keep_going
        Whether an error becomes a :class:`Failure` instead of ending everything.
    enough
        Asked before every cell; once it says so, no other is begun.
    """
    for timed in (False, True):
        chosen = [task for task in tasks if task.part.timed == timed]
        calls = (
            delayed(_measure_numbered)(number, task.part.measure, dict(task.fixed), task.cell, keep_going)
            for number, task in enumerate(chosen)
            if enough is None or not enough()
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


def _measure_numbered(
    number: int,
    measure: Callable[..., Measured],
    fixed: Mapping[str, Any],
    cell: Mapping[str, Any],
    keep_going: bool,
) -> tuple[int, Outcome]:
    try:
        return number, measure_cell(measure, fixed, cell)
    except Exception as error:
        if not keep_going:
            raise
        return number, Failure.of(error)


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
            measured = {item: value for item, value in row.items() if item not in cell}
            if "error" not in measured:
                key = cell_key(name, part["code"], part["fixed"], cell, part.get("version", version))
                found[key] = measured
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
            **({} if part.code is None else {"version": "any"}),
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
