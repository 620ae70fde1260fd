"""``gmmatch reproduce``: the paper's figures and tables, measured afresh."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gmmatch.cli.io.output import console, note, progress
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from gmmatch_paper.studies.classification.image_study import ImageStudy
    from gmmatch_paper.studies.results import Results
    from gmmatch_paper.studies.runner import Workers
    from gmmatch_paper.studies.study import SizeName, Study

_IMAGES = "Studies on images"


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...", help="Studies to run; 'all' without images, 'all-images'.", show_default=False
        ),
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
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", help="Processes; -1 is every core. By default that, or 4 that share a GPU."
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure everything again instead of resuming.")
    ] = False,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Images: a .npz file (x_train, y_train, x_test, y_test), a folder, a hub name.",
            rich_help_panel=_IMAGES,
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Proxy: in-domain[:NETWORK], pixels, a model's folder or hub name, or features "
            "(.npz with train and test, or a folder with train.npy and test.npy).",
            rich_help_panel=_IMAGES,
        ),
    ] = None,
    ratios: Annotated[
        str | None, typer.Option(help="How much to keep: 2%,10% or 10/class.", rich_help_panel=_IMAGES)
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Methods, with commas between them.", rich_help_panel=_IMAGES)
    ] = None,
    corruptions: Annotated[
        str | None,
        typer.Option(help="none, label:20%, image:20%, pgd:100%, human:worse, ...", rich_help_panel=_IMAGES),
    ] = None,
    downstream: Annotated[
        str | None, typer.Option(help="probe, scratch, or both.", rich_help_panel=_IMAGES)
    ] = None,
    networks: Annotated[
        str | None, typer.Option(help="What to train from scratch.", rich_help_panel=_IMAGES)
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="fast, paper, or a recipe by name.", rich_help_panel=_IMAGES)
    ] = None,
    image_size: Annotated[
        int | None, typer.Option(help="Scale images to this side.", min=1, rich_help_panel=_IMAGES)
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="First training images alone.", min=2, rich_help_panel=_IMAGES)
    ] = None,
    test_limit: Annotated[
        int | None, typer.Option(help="First test images alone.", min=1, rich_help_panel=_IMAGES)
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="Folder for embeddings and picks that cells share; OUTPUT/cache by default.",
            rich_help_panel=_IMAGES,
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.", rich_help_panel=_IMAGES)] = "auto",
    stop_after: Annotated[
        float | None,
        typer.Option(help="Begin no further cell after so many seconds.", min=0, rich_help_panel=_IMAGES),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Count the trainings, estimate the time, stop.", rich_help_panel=_IMAGES
        ),
    ] = False,
) -> None:
    """Recompute figures and tables of the paper, and hold them against what it says.

    Each study writes NAME.json (every number and where it came from) and NAME.png. A run that is stopped
    goes on where it was. The studies without images check the paper's claims; --quick takes seconds. The
    studies on images train on what methods pick: --quick runs on built-in digits, --full takes the
    paper's cells, and the options below choose others.
    """
    from gmmatch_paper.commands.image_studies import choices_of, refuse_options
    from gmmatch_paper.studies import load_study
    from gmmatch_paper.studies.classification import image_study_names

    if list_them:
        _list_studies()
        return
    if not names:
        raise InvalidInputError(
            "Name a study, several, 'all' or 'all-images'; `gmmatch reproduce --list` shows them."
        )
    if output.exists() and not output.is_dir():
        raise InvalidInputError(f"--output {output} is a file: give a folder.")
    wanted = _expanded(names)
    on_images = [name for name in wanted if name in image_study_names()]
    others = [name for name in wanted if name not in on_images]
    studies = [load_study(name) for name in others]
    choices = choices_of(
        {
            "dataset": dataset,
            "encoder": encoder,
            "ratios": ratios,
            "methods": methods,
            "corruptions": corruptions,
            "downstream": downstream,
            "networks": networks,
            "recipe": recipe,
            "seeds": seeds,
            "image_size": image_size,
            "limit": limit,
            "test_limit": test_limit,
        }
    )
    if others:
        refuse_options(choices, others)
        if dry_run:
            raise InvalidInputError(
                f"--dry-run is for the studies on images, and {others[0]!r} is none of them."
            )
        _run_studies(studies, output, full, seeds, fresh, -1 if jobs is None else jobs)
    if on_images:
        from gmmatch_paper.commands.image_studies import ImageRun, print_estimates, run_image_studies
        from gmmatch_paper.studies.classification import load_image_study

        chosen = [load_image_study(name) for name in on_images]
        # With data of one's own the paper's cells make sense, and those for the digits do not.
        size: SizeName = "full" if full or dataset is not None else "quick"
        run = ImageRun(choices, size, output, cache, device, jobs, fresh, stop_after)
        (print_estimates if dry_run else run_image_studies)(chosen, run)


def _expanded(names: list[str]) -> list[str]:
    from gmmatch_paper.studies import study_names
    from gmmatch_paper.studies.classification import image_study_names

    groups = {"all": study_names(), "all-images": image_study_names()}
    found: list[str] = []
    for name in names:
        key = name.lower().replace("_", "-")
        found.extend(groups.get(key, (key,)))
    return list(dict.fromkeys(found))


def _run_studies(
    studies: list[Study], output: Path, full: bool, seeds: int | None, fresh: bool, jobs: int
) -> None:
    from gmmatch_paper.studies.runner import Workers
    from gmmatch_paper.studies.style import require_matplotlib

    require_matplotlib()  # before the work, not after it
    with Workers(jobs) as workers:
        for study in studies:
            _run(study, output, full, seeds, fresh, workers)


def _run(study: Study, output: Path, full: bool, seeds: int | None, fresh: bool, workers: Workers) -> None:
    from gmmatch_paper.studies.runner import run_study
    from gmmatch_paper.studies.style import save

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


def _list_studies() -> None:
    from rich.table import Table

    from gmmatch_paper.studies import load_study, study_names
    from gmmatch_paper.studies.classification import image_study_names, load_image_study

    table = Table.grid(padding=(0, 2))
    studies: list[Study | ImageStudy] = [load_study(name) for name in study_names()]
    studies += [load_image_study(name) for name in image_study_names()]
    for study in studies:
        table.add_row(f"[bold]{study.name}[/bold]", study.title, ", ".join(study.paper))
    console().print(table)
