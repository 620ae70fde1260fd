"""``gmmatch compare``: several methods on the same rows, and what they keep."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from gmmatch.cli.io.arguments import (
    DEFAULT_METHOD,
    BudgetOption,
    JsonOption,
    LabeledInput,
    MethodsOption,
    PerClassOption,
    SeededRunning,
    parse_per_class,
    reads,
    split_names,
    writes,
)
from gmmatch.cli.io.files import Report
from gmmatch.cli.io.output import print_json, print_table, progress
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from gmmatch._array import Mask
    from gmmatch.cli.io.inputs import Embeddings
    from gmmatch.screening.result import ScreeningResult
    from gmmatch.selection.selection import Selection


def compare(
    *,
    given: LabeledInput,
    truth: Annotated[str | None, reads("True labels; given as --labels.", metavar="COLUMN|TABLE")] = None,
    k: BudgetOption,
    methods: MethodsOption = f"{DEFAULT_METHOD},gm-matching,moderate,random",
    per_class: PerClassOption = "proportional",
    page: Report,
    force: Annotated[bool, writes("Replace the page if it exists.", "--force")] = False,
    as_json: JsonOption = False,
    running: SeededRunning,
) -> None:
    """Run several methods and measure what they keep.

    Picks are compared with the rows that the screening trusts, or with --truth, with those whose label is true.
    Moment error is the distance between the means of both, MMD the distance between them as distributions, averaged
    over the classes. Coverage is the distance from such a row to its nearest pick. Less is better.

    \b
    Examples:
      gmmatch compare photos.emb -k 10%
      gmmatch compare photos.emb -k 10% --methods robust,herding --report compared.html
      gmmatch compare noisy.emb -k 10% --truth true_labels.csv --json
    """
    import gmmatch as gm

    names = split_names(methods, "--methods")
    page.check(given.path, force=force)
    for name in names:
        gm.method_class(name)  # before the work, not after half of it
    options, rows = running.options(), given.open()
    contents, wrong = page.open_contents(rows), None if truth is None else _find_wrong(rows, truth)
    options |= {"ids": rows.select_ids, "per_class": parse_per_class(per_class)}
    selections: dict[str, Selection] = {}
    seconds: dict[str, float] = {}
    with progress("Methods") as update:
        for name in names:
            start = time.perf_counter()
            selections[name] = gm.select(
                rows.X, rows.y, k=k, method=name, random_state=running.seed, **options
            )
            seconds[name] = time.perf_counter() - start
            update(len(seconds), len(names))
    screening = next((s.screening for s in selections.values() if s.screening is not None), None)
    if screening is None and wrong is None:
        screening = gm.screen(rows.X, rows.y, random_state=running.seed, **running.options())
    measured = _measure(rows, selections, wrong, screening, per_class != "none", running.seed)
    for line in measured["rows"]:
        line["seconds"] = seconds[line["method"]]
    if as_json:
        print_json({"input": given.path, "seed": running.seed, **measured})
    else:
        _print(measured)
    page.write(selections, rows, contents)


def _find_wrong(rows: Embeddings, truth: str) -> Mask:
    """Return which rows have a label that is not the true one."""
    import numpy as np

    from gmmatch.cli.io.inputs import read_column

    if rows.y is None:
        raise InvalidInputError(f"--truth: {rows.path} has no labels to compare with; give some by --labels.")
    columns = (read_column(rows, truth, "label", "--truth"), rows.y)
    # As text: a CSV file does not say whether 3 is a number.
    true, given = (np.array([str(label) for label in labels]) for labels in columns)
    if not set(true) & set(given):
        such = f"labels such as '{true[0]}', and {rows.path} such as '{given[0]}'"
        raise InvalidInputError(f"--truth {truth} has {such}: give labels of the same classes.")
    wrong: Mask = (true != given) & np.array([label is not None for label in rows.y])
    return wrong


def _measure(
    rows: Embeddings, selections: dict[str, Selection], wrong: Mask | None, screening: ScreeningResult | None,
    by_class: bool, seed: int,
) -> dict[str, Any]:  # fmt: skip
    """Return what is compared with what, and a line of figures for each method."""
    import numpy as np

    import gmmatch as gm
    from gmmatch.groups import Groups

    trusted = np.ones(len(rows), dtype=bool)
    if wrong is not None:
        trusted = ~wrong
    elif screening is not None and screening.trusted.any():
        trusted = screening.trusted
    codes = Groups.of(rows.y, len(rows), warn=False).codes if by_class and rows.y is not None else None
    lines = []
    with gm.open_rows(rows.X) as opened:
        metrics = gm.metrics.SubsetMetrics(opened, codes, reference=trusted, seed=seed)
        for name, selection in selections.items():
            line = {"method": name, "k": selection.k, "contamination": None, "estimated_mislabeled": None}
            if wrong is not None:
                line["contamination"] = gm.metrics.contamination(selection, wrong)
            if screening is not None and screening.noise_rate is not None:
                line["estimated_mislabeled"] = float(screening.probability[selection.indices].mean())
            lines.append({**line, **asdict(metrics.measure(selection.indices))})
    return {
        "n_rows": len(rows),
        "trusted_rows": int(trusted.sum()),
        "wrong_labels": None if wrong is None else float(wrong.mean()),
        "estimated_noise": None if screening is None else screening.noise_rate,
        "rows": lines,
    }


def _print(result: dict[str, Any]) -> None:
    shares = ("contamination", "estimated_mislabeled")
    lines = [
        [row["method"], *("" if row[name] is None else f"{row[name]:.1%}" for name in shares),
         f"{row['moment_error']:.4g}", f"{row['mmd']:.4g}",
         f"{row['coverage_mean']:.3g}, {row['coverage_max']:.3g}", f"{row['seconds']:.1f}"]
        for row in result["rows"]
    ]  # fmt: skip
    caption = f"Compared with {result['trusted_rows']:,} rows that the screening trusts."
    if result["wrong_labels"] is not None:
        caption = f"Of all rows, {result['wrong_labels']:.1%} are mislabeled."
    if result["trusted_rows"] > 10_000:
        caption += " MMD and coverage are of a sample of 10,000 rows."
    title = f"{result['rows'][0]['k']:,} of {result['n_rows']:,} rows"
    headings = "method,wrong labels,est. mislabeled,moment error,MMD,coverage (mean; max),seconds"
    print_table(title, headings.split(","), lines, caption=caption, narrow=True)
