"""``gmmatch demo``: every method on noisy digits, in a table and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gmmatch.cli.io.arguments import JsonOption
from gmmatch.cli.io.files import check_output
from gmmatch.cli.io.output import note, print_json, print_table, progress

DEFAULT_PICTURE = Path("demo.svg")


def demo(
    seeds: Annotated[
        int, typer.Option(min=1, help="How many noisy versions of the data to average over.")
    ] = 5,
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the picture.")] = DEFAULT_PICTURE,
    picture: Annotated[bool, typer.Option("--picture/--no-picture", help="Whether to draw it.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Compare the methods on digits of which 35% are mislabeled.

    The digits come with scikit-learn. Each method keeps 10% of the training rows, seeing only the noisy
    labels; the table says what it kept, and how well a logistic regression trained on that does.
    """
    if picture:
        check_output(output, force=True, endings=(".svg",))
    from gmmatch.cli._digits import compare, steps

    with progress() as bar:
        task = bar.add_task("Selecting and training", total=steps(range(seeds)))
        result = compare(range(seeds), advance=lambda: bar.advance(task))
    if as_json:
        print_json(result)
    else:
        _print_table(result)
    if picture:
        from gmmatch.cli._picture import draw

        draw(output)
        note(f"Drew {output}")


def _print_table(result: dict[str, Any]) -> None:
    data = result["data"]
    seeds = len(data["seeds"])
    title = f"{data['kept']:.0%} of {data['training_rows']:,} digits, {data['flipped']:.0%} mislabeled"
    headings = ("kept by", "wrong labels", "moment error", "MMD", "test accuracy")
    methods, others = (
        [[row["label"], *format_figures(row)] for row in result["rows"] if (row["method"] is None) == other]
        for other in (False, True)
    )
    said = f"Mean ± deviation over {seeds} seeds." if seeds > 1 else "One seed."
    print_table(title, headings, [*methods, [], *others], caption=said, narrow=True)


def format_figures(row: dict[str, Any]) -> list[str]:
    """Return the four figures of a row of the demo's JSON as they are printed."""
    names = ("contamination", "moment_error", "mmd", "accuracy")
    return [_format(row[name], percent=name in ("contamination", "accuracy")) for name in names]


def _format(figure: dict[str, float | None], *, percent: bool) -> str:
    scale, digits, unit = (100.0, 1, "%") if percent else (1.0, 3, "")
    mean, deviation = figure["mean"], figure["deviation"]
    spread = "" if deviation is None else f" ± {scale * deviation:.{digits}f}"
    return f"{scale * float(mean or 0.0):.{digits}f}{spread}{unit}"
