"""``gmmatch curve``: how many rows are worth picking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from gmmatch.cli.io.arguments import (
    DEFAULT_METHOD,
    JsonOption,
    LabeledInput,
    MethodsOption,
    PerClassOption,
    SeededRunning,
    parse_per_class,
    picks_by,
    runs_on,
    split_names,
)
from gmmatch.cli.io.output import print_json, print_table
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from gmmatch.curve import BudgetCurve


def curve(
    *,
    given: LabeledInput,
    sizes: Annotated[str, picks_by("Comma-separated counts or shares of the rows.")] = "1%,2%,5%,10%,20%,50%",
    methods: MethodsOption = f"{DEFAULT_METHOD},random",
    per_class: PerClassOption = "proportional",
    test: Annotated[str | None, picks_by("Labeled test rows; else held-out ones.", metavar="OTHER")] = None,
    as_json: JsonOption = False,
    repeats: Annotated[int, runs_on("How many random splits to hold rows out by.", min=1)] = 5,
    running: SeededRunning,
) -> None:
    """Measure selections of several sizes.

    For each size: how well the picks match the rows, how many of them are likely mislabeled (by methods that screen),
    and the accuracy of a linear probe trained on them, with a 95% interval. One selection is made for each method;
    the smaller ones are its first picks.

    \b
    Examples:
      gmmatch curve photos.emb --sizes 1%,2%,5%,10%,20%,50%
      gmmatch curve train.emb --methods random,robust --test test.emb
    """
    import gmmatch as gm
    from gmmatch.budget import resolve_count

    names, budgets = split_names(methods, "--methods"), split_names(sizes, "--sizes")
    rows, test_rows = given.open(), None
    if test is not None:
        other = given.open_other(rows, test, "--test")
        if other.y is None:
            raise InvalidInputError(f"--test {test} has no labels: make a store with some.")
        test_rows = (other.X, other.y)
    counts, options = [resolve_count(size, len(rows), name="sizes") for size in budgets], running.options()
    shared = {"k": max(counts), "per_class": parse_per_class(per_class), "random_state": running.seed}
    selections = {name: gm.select(rows.X, rows.y, method=name, **shared, **options) for name in names}
    result = gm.budget_curve(
        selections, rows.X, rows.y, sizes=counts, test=test_rows, repeats=repeats,
        random_state=running.seed, **options,
    )  # fmt: skip
    if as_json:
        print_json({"input": given.path, **result.as_json()})
    else:
        _print(result)


def _print(result: BudgetCurve) -> None:
    """Print a line for each method and size, and what to learn from them."""
    headings = ("method", "picks", "accuracy", "interval", "mislabeled", "MMD", "error", "coverage")
    lines = [
        [
            point.method,
            f"{point.k:,}",
            "" if point.accuracy is None else f"{point.accuracy:.1%}",
            "" if point.low is None or point.high is None else f"{100 * point.low:.1f}-{point.high:.1%}",
            "" if point.mislabeled is None else f"{point.mislabeled:,.0f}",
            *(f"{value:.3g}" for value in (point.mmd, point.moment_error, point.coverage_mean)),
        ]
        for point in result.points
    ]
    title = f"Selections from {result.n_rows:,} rows"
    print_table(title, headings, lines, caption=result.sentence, narrow=True)
