"""Running studies: cell by cell, over the cores, from where the last run stopped."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gmmatch.errors import GMMatchError, InvalidInputError
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
from gmmatch_paper.studies.workers import Failure, Task, Workers, measure_tasks

__all__ = ["LongRun", "Progress", "Workers", "run_study"]

Progress = Callable[[int, int], None]
"""Called with how many cells are done and how many there are."""


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
    workers: Workers | None = None,
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
    workers : Workers, optional
        What measures in parallel; one process without it. Cells that measure time always run alone.
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
    failed = _measure(missing, done, journal, workers, progress, long_run)
    errors = {key: {"error": failure.text, "seconds": 0.0} for key, failure in failed.items()}
    outcomes = {**found, **done, **errors}
    if long_run is not None:
        tasks = [task for task in tasks if task.key in outcomes] + _others(study, found, tasks)
    record = _record(study, size, seeds, tasks, outcomes, workers)
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
    workers: Workers | None,
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
    for task, outcome in measure_tasks(missing, workers, keep_going=long_run is not None, enough=enough):
        if isinstance(outcome, Failure):
            failed[task.key] = outcome
        else:
            journal.append(task.key, outcome)
            done[task.key] = outcome
        if progress is not None:
            progress(len(done) + len(failed), total)
    return failed


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
    workers: Workers | None,
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
