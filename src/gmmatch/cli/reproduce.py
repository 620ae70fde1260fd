"""``gmmatch reproduce``: the paper's synthetic figures and its theory, measured afresh."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gmmatch.cli._output import console, note, progress
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from gmmatch.studies.results import Results
    from gmmatch.studies.runner import Workers
    from gmmatch.studies.study import Study


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Studies to run, or 'all'.", show_default=False),
    ] = None,
    list_them: Annotated[bool, typer.Option("--list", help="List the studies and stop.")] = False,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="The paper's sizes, or small ones that take seconds.")
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for NAME.json and NAME.png.", show_default=True)
    ] = Path("studies"),
    seeds: Annotated[
        int | None, typer.Option(help="Repetitions, in place of each study's own number.", min=1)
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes; -1 is every core.")] = -1,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure everything again instead of resuming.")
    ] = False,
) -> None:
    """Recompute figures of the paper that need no images, and check its claims against the numbers.

    Each study writes NAME.json (every number and where it came from) and NAME.png, and prints what agrees
    with the paper and what does not. A run that is stopped goes on where it was; cells that measure time
    run alone, the others on all cores.
    """
    from gmmatch.studies import load_study, study_names

    if list_them:
        _list_studies([load_study(name) for name in study_names()])
        return
    if not names:
        raise InvalidInputError("Name a study, several, or 'all'; `gmmatch reproduce --list` shows them.")
    wanted = study_names() if "all" in names else tuple(dict.fromkeys(names))
    studies = [load_study(name) for name in wanted]
    from gmmatch.studies.runner import Workers
    from gmmatch.studies.style import require_matplotlib

    require_matplotlib()  # before the work, not after it
    with Workers(jobs) as workers:
        for study in studies:
            _run(study, output, full, seeds, fresh, workers)


def _run(study: Study, output: Path, full: bool, seeds: int | None, fresh: bool, workers: Workers) -> None:
    from gmmatch.studies.runner import run_study
    from gmmatch.studies.style import save

    with progress() as bar:
        task = bar.add_task(study.name, total=None)
        results = run_study(
            study,
            output=output,
            size="full" if full else "quick",
            seeds=seeds,
            workers=workers,
            fresh=fresh,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
        for picture, name in zip(study.pictures, study.picture_names(), strict=True):
            bar.update(task, description=f"{study.name}: drawing")
            save(lambda picture=picture: picture.draw(results), output / name)  # type: ignore[misc]
    note(f"Wrote {', '.join([f'{study.name}.json', *study.picture_names()])} to {output}")
    _print_claims(study, results)


def _print_claims(study: Study, results: Results) -> None:
    from rich.markup import escape

    screen = console()
    screen.print(f"[bold]{study.name}[/bold]  {escape(study.title)}")
    for claim in study.claims:
        verdict = claim.check(results)
        word = "[green]agrees[/green]" if verdict.agrees else "[yellow]disagrees[/yellow]"
        screen.print(f"  {word}  {escape(claim.statement)} \\[{claim.source}]")
        screen.print(f"     measured: {escape(verdict.measured)}")


def _list_studies(studies: list[Study]) -> None:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for study in studies:
        table.add_row(f"[bold]{study.name}[/bold]", study.title, ", ".join(study.paper))
    console().print(table)
