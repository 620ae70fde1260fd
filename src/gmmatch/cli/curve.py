"""``gmmatch curve``: how many rows are worth picking."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gmmatch.cli.io.arguments import (
    JsonOption,
    LabeledInput,
    MethodsOption,
    PerClassOption,
    SeedOption,
    SettingsOption,
    parse_per_class,
    parse_settings,
    split_names,
)
from gmmatch.cli.io.files import check_output, explained
from gmmatch.cli.io.output import console, note, print_json, print_table
from gmmatch.errors import InvalidInputError
from gmmatch.selectors.registry import DEFAULT_METHOD

if TYPE_CHECKING:
    from gmmatch.curve.curve import BudgetCurve


def curve(
    *,
    sizes: Annotated[
        str, typer.Option(help="Comma-separated counts or shares of the rows.")
    ] = "1%,2%,5%,10%,20%,50%",
    methods: MethodsOption = DEFAULT_METHOD,
    test: Annotated[
        str | None,
        typer.Option(
            metavar="OTHER",
            help="Embeddings with labels to measure the accuracy on; by default unseen rows of the input.",
        ),
    ] = None,
    test_labels: Annotated[
        str | None,
        typer.Option(metavar="FILE|COLUMN", help="With --test: its labels, as --labels names them."),
    ] = None,
    repeats: Annotated[
        int, typer.Option(min=1, max=10, help="How many random tenths of the rows to hold out and judge.")
    ] = 5,
    given: LabeledInput,
    per_class: PerClassOption = "proportional",
    seed: SeedOption = 0,
    settings: SettingsOption = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Also write a page (.html) of curves.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the page if it exists.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure selections of several sizes.

    For each size: how well the picks match the rows, how many of them are likely mislabeled (by methods that screen),
    and the accuracy of a linear probe trained on them, with a 95% interval. One selection is made for each method;
    the smaller ones are its first picks.

    \b
    Examples:
      gmmatch curve photos.emb --sizes 1%,2%,5%,10%,20%,50%
      gmmatch curve train.emb --methods random,robust --test test.emb --report curve.html
    """
    from gmmatch.cli.io.selecting import same_encoder
    from gmmatch.curve.curve import budget_curve

    if test is None and test_labels is not None:
        raise InvalidInputError("--test-labels goes with --test OTHER.")
    if report is not None:
        from gmmatch.report.rendering import check_target

        check_output(report, force=force, option="--report", endings=(".html", ".htm"))
        check_target(report)
    names, options = split_names(methods, "--methods"), parse_settings(settings)
    embeddings, judged = given.open(), None
    if test is not None:
        other = given.open_other(test, test_labels)
        same_encoder(embeddings.origin, other.origin, f"--test {test}", given.source)
        if other.labels is None:
            raise InvalidInputError(f"--test {test} has no labels: give some by --test-labels.")
        judged = (other.rows, other.labels)
    found = budget_curve(
        embeddings.rows,
        embeddings.labels,
        sizes=split_names(sizes, "--sizes"),
        methods=names,
        test=judged,
        repeats=repeats,
        random_state=seed,
        per_class=parse_per_class(per_class),
        **options,
    )
    if report is not None:
        with explained(report):
            found.report(report)
    if as_json:
        print_json({"input": given.source, **found.as_json()})
        return
    _print(found)
    if report is not None:
        note(f"Wrote {report}: open it in a browser.")


def _print(curve: BudgetCurve) -> None:
    """Print a line for each method and size, and what to learn from them."""
    headings = ("method", "picks", "accuracy", "interval", "mislabeled", "MMD", "error", "coverage")
    lines = [
        [
            one.method,
            f"{one.k:,}",
            "" if one.accuracy is None else f"{one.accuracy:.1%}",
            "" if one.low is None or one.high is None else f"{100 * one.low:.1f}-{one.high:.1%}",
            "" if one.mislabeled is None else f"{one.mislabeled:,.0f}",
            *(f"{value:.3g}" for value in (one.mmd, one.moment_error, one.coverage_mean)),
        ]
        for one in curve.points
    ]
    print_table(f"Selections from {curve.n_rows:,} rows", headings, lines, narrow=True)
    judged = any(one.accuracy is not None for one in curve.points)
    said = f"Accuracy by {curve.judged_by}, with 95% intervals; error" if judged else "Error"
    said += " is the moment error."
    console().print(said, soft_wrap=True)
    console().print(curve.sentence, soft_wrap=True)
