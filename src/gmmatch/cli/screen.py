"""``gmmatch screen``: which rows look wrong, and why."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from gmmatch.cli.io.arguments import (
    DecisionsOption,
    LabeledInput,
    PredProbsOption,
    SeededRunning,
    picks_by,
    writes,
)
from gmmatch.cli.io.files import Report, TableOutput
from gmmatch.cli.io.output import note, print_lines, print_table, progress
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

    from gmmatch.cli.io.inputs import Embeddings
    from gmmatch.screening.result import ScreeningResult

_SHOWN, _SHOWN_CLASSES = 5, 20
# What says nothing where people read.
_NOTHING = {"probability": 0.0, "duplicate_of": -1}
_COLUMNS = ("row", "id", "label", "suggested", "verdict", "probability", "reason", "duplicate_of")


def screen(
    *,
    given: LabeledInput,
    pred_probs: PredProbsOption = None,
    decisions: DecisionsOption = None,
    groups: Annotated[
        Literal["auto", "keep", "drop"], picks_by("What becomes of groups that lie apart.")
    ] = "auto",
    duplicates: Annotated[Literal["drop", "keep"], picks_by("With 'keep', do not look for copies.")] = "drop",
    check_rows: Annotated[bool, picks_by("Check the images or texts, too.", "--check-rows")] = False,
    result: TableOutput,
    all_rows: Annotated[bool, writes("Write a line for every row, not only for suspects.", "--all")] = False,
    page: Report,
    running: SeededRunning,
) -> None:
    """Find rows that look mislabeled, outliers and duplicates.

    The file has a line for each suspect, the most suspicious first: its number and id, its label, the label it looks
    like, the verdict, the probability that its label is wrong, and the reason.

    \b
    Examples:
      gmmatch screen photos.emb -o suspects.csv --report suspects.html
      gmmatch screen vectors.npy --labels labels.csv -o - | head
    """
    import gmmatch as gm
    from gmmatch.cli.io.inputs import read_array

    result.check(given.path, given.labels)
    page.check(given.path, force=result.force)
    options = {**running.options(), "random_state": running.seed, "groups": groups, "duplicates": duplicates}
    rows = given.open()
    contents = page.open_contents(rows)
    if pred_probs is not None:
        options["pred_probs"] = read_array(pred_probs, "--pred-probs")
    settled = None if decisions is None else gm.apply_decisions(rows, rows.y, decisions)
    if settled is not None:
        options["answers"] = settled.answers
    screening = gm.screen(rows.X, rows.y, **options)
    if check_rows:
        screening = screening.add_reasons(_check_rows(rows))
    suspects = _suspects(screening)
    if settled is not None:  # what was decided is no suspect any more
        suspects = suspects[~settled.decided[suspects]]
    table = _table(screening, rows, None if all_rows else suspects)
    outcome = {
        "n_rows": len(screening),
        "trusted": int(screening.trusted.sum()),
        "reasons": screening.counts,
        "noise_rate": screening.noise_rate,
        "noise_interval": screening.noise_interval,
        "summary": screening.summary,
        "classes": screening.per_class(),
        "indices": suspects.tolist(),
    }
    result.finish(table, outcome, partial(_print, screening, _table(screening, rows, suspects)))
    page.write(screening, rows, contents)
    if result.output is None and len(suspects) and not result.as_json:
        note("To keep all of them, add -o suspects.csv.")


def _check_rows(rows: Embeddings) -> Any:
    """Return what is odd about each image or text of a store."""
    from gmmatch.data import check_rows
    from gmmatch.review.cleaning import open_source_of

    if rows.store is None:
        raise InvalidInputError(f"--check-rows: {rows.path} does not say what it was made from.")
    with progress("Checking") as update:
        return check_rows(open_source_of(rows.store), progress=update)[rows.store.source_rows]


def _suspects(screening: ScreeningResult) -> Any:
    """Return the rows that something speaks against, and copies, the most suspicious first."""
    import numpy as np

    suspect = np.isin(screening.verdict, ("wrong", "doubtful")) | (screening.reason != "")
    return screening.ranking[suspect[screening.ranking]]


def _table(screening: ScreeningResult, rows: Embeddings, wanted: Any) -> pa.Table:
    frame = screening.to_frame("pyarrow", ids=rows.ids)
    if wanted is not None:
        frame = frame.take(wanted)
    names = [name for name in _COLUMNS if name in frame.column_names]
    return frame.select([name for name in names if name != "duplicate_of" or "duplicate" in screening.counts])


def _print(screening: ScreeningResult, suspects: pa.Table, to_stderr: bool) -> None:
    if screening.counts:
        title = f"{suspects.num_rows:,} of {len(screening):,} rows are suspects"
        counts = [(reason, f"{count:,}") for reason, count in screening.counts.items()]
        print_table(title, ("reason", "rows"), counts, to_stderr=to_stderr)
    print_lines(screening.summary, to_stderr=to_stderr)
    if not suspects.num_rows:
        return
    print_classes(screening, to_stderr=to_stderr)
    first = suspects.slice(0, _SHOWN).to_pydict()
    if "id" in first:
        del first["row"]
    cells = [
        ["" if cell in (None, _NOTHING.get(name)) else f"{cell:.3f}" if name == "probability" else str(cell)
         for cell in column]
        for name, column in first.items()
    ]  # fmt: skip
    left = ("label", "suggested", "verdict", "reason")
    print_table("The most suspicious", list(first), zip(*cells, strict=True), left=left, to_stderr=to_stderr)


def print_classes(screening: ScreeningResult, to_stderr: bool = False) -> None:
    """Print what was found in each class, those with the most label noise first."""
    classes = sorted(screening.per_class(), key=lambda line: -(line["noise_rate"] or 0.0))
    lines = [
        [str(line["label"]), *(f"{line[name]:,}" for name in ("rows", "wrong", "doubtful")), f"{rate:.1%}"]
        for line in classes[:_SHOWN_CLASSES]
        if (rate := line["noise_rate"]) is not None
    ]
    more = f"and {len(classes) - len(lines):,} more classes" if len(classes) > len(lines) else ""
    if lines:
        columns = ("class", "rows", "wrong", "doubtful", "estimated noise")
        print_table("", columns, lines, caption=more, to_stderr=to_stderr)
