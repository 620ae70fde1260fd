"""What ``gmmatch reproduce`` does for the studies on images."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from gmmatch.cli.io.output import console, note, progress
from gmmatch.errors import GMMatchError, InvalidInputError

if TYPE_CHECKING:
    from gmmatch_paper.studies.classification.image_study import ImageStudy
    from gmmatch_paper.studies.classification.running import ImageRun
    from gmmatch_paper.studies.image_cells.plan import Plan
    from gmmatch_paper.studies.results import Results
    from gmmatch_paper.studies.study import Study, Table


def choices_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those options of the command line that are choices; lists are given with commas between them.

    Examples
    --------
    >>> choices_of({"ratios": "0.2,0.3", "seeds": 3, "limit": None, "device": "cpu"})
    {'ratios': ('0.2', '0.3'), 'seeds': 3}
    """
    from gmmatch_paper.studies.image_cells.plan import CHOICES

    found = {name: options[name] for name in CHOICES if options.get(name) is not None}
    for name in {"ratios", "methods", "downstream", "networks", "corruptions"} & set(found):
        given = dict.fromkeys(part.strip() for part in str(found[name]).split(",") if part.strip())
        if not given:
            raise InvalidInputError(f"--{name} {found[name]!r}: give names with commas between them.")
        found[name] = tuple(given)
    return found


def refuse_options(choices: Mapping[str, Any], studies: list[Study], dry_run: bool) -> None:
    """Raise where options of the studies on images are given for others."""
    given = ["dry_run"] if dry_run else [name for name in choices if name != "seeds"]
    if given:
        raise InvalidInputError(
            f"--{given[0].replace('_', '-')} is an option of the studies on images, and {studies[0].name!r} is none "
            "of them."
        )


def run_image_studies(studies: list[ImageStudy], run: ImageRun) -> None:
    """Run studies on images one after another."""
    from gmmatch_paper.studies.classification.running import default_jobs
    from gmmatch_paper.studies.runner import resolve_jobs

    # All mistakes before any work.
    plans = [(study, plan) for study in studies for plan in study.plans(run.size, run.choices)]
    jobs = default_jobs(run.device) if run.jobs is None else resolve_jobs(run.jobs)
    failures = [_run(study, plan, run, jobs) for study, plan in plans]
    if any(failures):
        raise typer.Exit(1)


def _run(study: ImageStudy, plan: Plan, run: ImageRun, jobs: int) -> int:
    """Measure, draw and print; return how many cells failed."""
    from gmmatch_paper.studies.classification.running import pictures_of, run_image_study
    from gmmatch_paper.studies.style import draw_pictures

    began = time.monotonic()
    how = plan.load().how
    if how:
        note(f"{study.name}: {how}")
    with progress(study.name) as update:
        counts: list[int] = []

        def advance(done: int, total: int) -> None:
            counts.append(done)
            update(done, total)

        results = run_image_study(study, plan, run, jobs, advance)
        measured, seconds = counts[-1] - counts[0], time.monotonic() - began
        drawn = pictures_of(study, results)
        draw_pictures(drawn, results, run.output)
    note(f"Wrote {', '.join([f'{study.name}.json', *drawn])} to {run.output}")
    if measured:
        note(
            f"{measured} cells in {seconds:.0f} seconds with {jobs} processes: "
            f"{60 * measured / seconds:.1f} cells per minute"
        )
    return _print_results(study, results)


def _print_results(study: ImageStudy, results: Results) -> int:
    from rich.markup import escape

    from gmmatch_paper.studies.classification.tables import NOT_RUN

    screen = console()
    screen.print(f"[bold]{study.name}[/bold]  {escape(study.title)}")
    for table in study.tables(results, study.paper):
        _print_table(table, NOT_RUN)
    errors = [cell for cells in results.parts.values() for cell in cells if "error" in cell]
    for cell in errors[:5]:
        what = ", ".join(
            str(cell[name]) for name in ("corruption", "amount", "method", "seed") if name in cell
        )
        note(f"failed: {what}: {cell['error']}")
    if len(errors) > 5:
        note(f"and {len(errors) - 5} more failed; {study.name}.json has them all")
    return len(errors)


def _print_table(table: Table, not_run: str) -> None:
    """Print the rows of a table that hold anything measured; the page has the others too."""
    from rich.markup import escape
    from rich.table import Table as Grid

    ours = [place for place, name in enumerate(table.columns) if place and not name.startswith("paper")]
    rows = [row for row in table.rows if any(row[place] != not_run for place in ours)]
    if not rows:
        return
    grid = Grid(box=None)
    for column in table.columns:
        grid.add_column(escape(column))
    for row in rows:
        grid.add_row(
            *(
                f"[bold]{escape(text.replace('**', ''))}[/bold]" if "**" in text else escape(text)
                for text in row
            )
        )
    console().print(escape(table.caption.replace("`", "")))
    console().print(grid)


def print_estimates(studies: list[ImageStudy], run: ImageRun) -> None:
    """Say how many trainings studies need and how long they may take; nothing is trained or written."""
    from gmmatch_paper.studies.classification.estimate import estimate, shown_duration
    from gmmatch_paper.studies.classification.running import default_jobs, finished_keys
    from gmmatch_paper.studies.image_cells.cell import Places

    jobs, total = run.jobs if run.jobs is not None else default_jobs(run.device), 0.0
    screen, estimated = console(), 0
    plans = [(study, plan) for study in studies for plan in study.plans(run.size, run.choices)]
    for study, plan in plans:
        try:
            data = plan.load()
        except GMMatchError as error:
            if (study, plan) == plans[-1] and not estimated:
                raise
            note(f"{study.name} on {plan.dataset} is not estimated: {error}")
            continue
        built = study.as_study(Places(plan), data)
        cells = [cell for part in built.parts for cell in part.cells(run.size)]
        finished = [] if run.fresh else finished_keys(built, run.output)
        found = estimate(cells, finished, plan, data, run.device)
        total += found.seconds
        estimated += 1
        screen.print(
            f"[bold]{study.name}[/bold] on {data.name}  {found.cells} cells, {found.done} of them measured"
        )
        for name, count in found.trainings.items():
            screen.print(f"  {count:5d} × {name}")
        screen.print(
            f"  about {shown_duration(found.seconds)} in one process, from {found.source}; --jobs {jobs}"
        )
    if estimated > 1:
        screen.print(f"in all about {shown_duration(total)} in one process")
