"""``gmmatch reproduce``: the paper's figures and tables, measured afresh."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from gmmatch.cli.io.output import console, note, progress
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from gmmatch_paper.studies.classification.image_study import ImageStudy
    from gmmatch_paper.studies.results import Results
    from gmmatch_paper.studies.study import SizeName, Study

_image_option = partial(typer.Option, rich_help_panel="Studies on images")

Names: TypeAlias = Annotated[list[str] | None,
    typer.Argument(metavar="NAME...", help="Studies to run; 'all' without images, 'all-images'.", show_default=False),
]  # fmt: skip
ListThem: TypeAlias = Annotated[bool, typer.Option("--list", help="List the studies and stop.")]
Full: TypeAlias = Annotated[
    bool, typer.Option("--full/--quick", help="The paper's sizes, or small ones that take seconds.")
]
Output: TypeAlias = Annotated[
    Path, typer.Option("--output", "-o", help="Folder for NAME.json and NAME.png.", show_default=True)
]
Seeds: TypeAlias = Annotated[
    int | None, typer.Option(help="Repetitions, in place of each study's own number.", min=1)
]
Jobs: TypeAlias = Annotated[
    int | None,
    typer.Option("--jobs", "-j", help="Processes; -1 is every core. By default that, or 4 that share a GPU."),
]
Fresh: TypeAlias = Annotated[
    bool, typer.Option("--fresh", help="Measure everything again instead of resuming.")
]
Dataset: TypeAlias = Annotated[
    str | None,
    _image_option(help="Images: a .npz file (x_train, y_train, x_test, y_test), a folder, a hub name."),
]
LabelColumn: TypeAlias = Annotated[
    str | None, _image_option(help="Its column of labels; label or fine_label if not given.")
]
Encoder: TypeAlias = Annotated[
    str | None,
    _image_option(
        help="Proxy: in-domain[:NETWORK[:RECIPE]], simclr[:NETWORK[:EPOCHS]], pixels, a model's folder or hub name, "
        "or features (.npz with train and test, or a folder with train.npy and test.npy)."
    ),
]
Ratios: TypeAlias = Annotated[str | None, _image_option(help="How much to keep: 2%,10% or 10/class.")]
Methods: TypeAlias = Annotated[str | None, _image_option(help="Methods, with commas between them.")]
Corruptions: TypeAlias = Annotated[
    str | None, _image_option(help="none, label:20%, image:20%, pgd:100%, human:worse, ...")
]
Downstream: TypeAlias = Annotated[
    str | None, _image_option(help="probe, head (a small network on features), scratch.")
]
Networks: TypeAlias = Annotated[str | None, _image_option(help="What to train from scratch.")]
RecipeName: TypeAlias = Annotated[
    str | None, _image_option(help="fast, paper, or a recipe by name; fast:1000 for 1,000 steps.")
]
Severity: TypeAlias = Annotated[
    str | None, _image_option(help="What image:20% means: xia (as in Xia et al., the default) or mild.")
]
BestEpoch: TypeAlias = Annotated[
    bool | None, _image_option("--best-epoch", help="Also record the best epoch on the test images.")
]
ImageSize: TypeAlias = Annotated[int | None, _image_option(help="Scale images to this side.", min=1)]
Limit: TypeAlias = Annotated[int | None, _image_option(help="First training images alone.", min=2)]
TestLimit: TypeAlias = Annotated[int | None, _image_option(help="First test images alone.", min=1)]
CacheFolder: TypeAlias = Annotated[
    Path | None,
    _image_option(help="Folder for embeddings and picks that cells share; OUTPUT/cache by default."),
]
Device: TypeAlias = Annotated[str, _image_option(help="auto, cpu or cuda.")]
StopAfter: TypeAlias = Annotated[
    float | None, _image_option(help="Begin no further cell after so many seconds.", min=0)
]
DryRun: TypeAlias = Annotated[
    bool, _image_option("--dry-run", help="Count the trainings, estimate the time, stop.")
]


def reproduce(
    names: Names = None,
    list_them: ListThem = False,
    full: Full = False,
    output: Output = Path("studies"),
    seeds: Seeds = None,
    jobs: Jobs = None,
    fresh: Fresh = False,
    dataset: Dataset = None,
    label_column: LabelColumn = None,
    encoder: Encoder = None,
    ratios: Ratios = None,
    methods: Methods = None,
    corruptions: Corruptions = None,
    downstream: Downstream = None,
    networks: Networks = None,
    recipe: RecipeName = None,
    severity: Severity = None,
    best_epoch: BestEpoch = None,
    image_size: ImageSize = None,
    limit: Limit = None,
    test_limit: TestLimit = None,
    cache: CacheFolder = None,
    device: Device = "auto",
    stop_after: StopAfter = None,
    dry_run: DryRun = False,
) -> None:
    """Recompute figures and tables of the paper, and compare them.

    Each study writes NAME.json (every number and where it came from) and NAME.png. A run resumes if it was
    interrupted. The studies without images check the paper's claims; --quick takes seconds. The studies on
    images train on what methods pick: --quick runs on built-in digits, --full takes the paper's cells, and
    the options below choose others.
    """
    given = locals()  # the options of the studies on images are named like their choices
    if list_them:
        _list_studies()
        return
    from gmmatch_paper.commands.image_studies import (
        choices_of,
        print_estimates,
        refuse_options,
        run_image_studies,
    )
    from gmmatch_paper.studies import load_image_study
    from gmmatch_paper.studies.classification.running import ImageRun

    others, on_images = _named(names, output)
    choices = choices_of(given)
    if others:
        refuse_options(choices, others, dry_run)
        _run_studies(others, output, full, seeds, fresh, -1 if jobs is None else jobs)
    if on_images:
        # With data of one's own the paper's cells make sense, and those for the digits do not.
        quick = not full and dataset is None
        run = ImageRun(choices, "quick" if quick else "full", output, cache, device, jobs, fresh, stop_after)
        (print_estimates if dry_run else run_image_studies)([*map(load_image_study, on_images)], run)


def _named(names: list[str] | None, output: Path) -> tuple[list[Study], list[str]]:
    """Return the studies that were named without images, and the names of those on images."""
    from gmmatch_paper.studies import image_study_names, load_study

    if not names:
        raise InvalidInputError(
            "Name a study, several, 'all' or 'all-images'; `gmmatch reproduce --list` shows them."
        )
    if output.exists() and not output.is_dir():
        raise InvalidInputError(f"--output {output} is a file: give a folder.")
    wanted = expanded(names)
    on_images = [name for name in wanted if name in image_study_names()]
    return [load_study(name) for name in wanted if name not in on_images], on_images


def expanded(names: list[str]) -> list[str]:
    """Return the studies that names stand for, each once.

    Examples
    --------
    >>> expanded(["Robust_Mean", "robust-mean"]), len(expanded(["all"]))
    (['robust-mean'], 11)
    """
    from gmmatch_paper.studies import image_study_names, study_names

    groups = {"all": study_names(), "all-images": image_study_names()}
    found: dict[str, None] = {}
    for name in names:
        key = name.lower().replace("_", "-")
        found |= dict.fromkeys(groups.get(key, (key,)))
    return list(found)


def _run_studies(
    studies: list[Study], output: Path, full: bool, seeds: int | None, fresh: bool, jobs: int
) -> None:
    from gmmatch_paper.studies.runner import resolve_jobs, run_study
    from gmmatch_paper.studies.style import draw_pictures

    jobs = resolve_jobs(jobs)
    size: SizeName = "full" if full else "quick"
    for study in studies:
        pictures = study.named_pictures()
        with progress(study.name) as update:
            results = run_study(
                study, output=output, size=size, seeds=seeds, jobs=jobs, fresh=fresh, progress=update
            )
            draw_pictures(pictures, results, output)
        note(f"Wrote {', '.join([f'{study.name}.json', *pictures])} to {output}")
        _print_claims(study, results)


def _print_claims(study: Study, results: Results) -> None:
    from rich.markup import escape

    from gmmatch_paper.studies.labels import number_of

    screen = console()
    screen.print(f"[bold]{study.name}[/bold]  {escape(study.title)}")
    for claim in study.claims:
        verdict = claim.check(results)
        word = "[green]agrees[/green]" if verdict.agrees else "[yellow]disagrees[/yellow]"
        screen.print(f"  {word}  {escape(claim.statement)} ({number_of(claim.source)})")
        screen.print(f"     measured: {escape(verdict.measured)}")


def _list_studies() -> None:
    from rich.table import Table

    from gmmatch_paper.studies import image_study_names, load_image_study, load_study, study_names
    from gmmatch_paper.studies.labels import numbers_of

    groups: dict[str, list[Study | ImageStudy]] = {
        "Without images ('all')": [load_study(name) for name in study_names()],
        "On images ('all-images')": [load_image_study(name) for name in image_study_names()],
    }
    for title, studies in groups.items():
        table = Table(title=title, title_justify="left", box=None, show_header=False, padding=(0, 2, 0, 0))
        for study in studies:
            table.add_row(
                f"[bold]{study.name}[/bold]", study.title, numbers_of(study.paper) or "not in the paper"
            )
        console().print(table)
