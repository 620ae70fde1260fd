"""``gmmatch screen``: which rows look wrong, and why."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gmmatch.cli.io.arguments import LabeledInput
from gmmatch.cli.io.files import TableOutput
from gmmatch.cli.io.output import console, new_table, note, show
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

    from gmmatch.cli.io.inputs import Embeddings
    from gmmatch.screening.result import Screening

_SHOWN = 5


class Checks(str, Enum):
    """What is looked for."""

    labels = "labels"
    rows = "rows"


def screen(
    *,
    only: Annotated[
        Checks | None,
        typer.Option(
            help="Look for wrong labels only, or for outliers and duplicates only; both by default."
        ),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(help="The share of mislabeled rows to accept among those kept.")
    ] = 0.02,
    given: LabeledInput,
    result: TableOutput,
) -> None:
    """Find rows that look mislabeled, outliers and duplicates.

    The file has a line for each row that is not trusted, the most suspicious first: its number and id, its label, the
    label it looks like, the probability that it is wrong, and the reason.

    \b
    Examples:
      gmmatch screen photos.emb -o suspects.csv
      gmmatch screen vectors.npy --labels labels.csv::kind -o - | head
    """
    from gmmatch.screening.screen import screen as search

    result.check(given, given.labels)
    embeddings = given.open()
    if only is Checks.labels and embeddings.labels is None:
        raise InvalidInputError(f"--only labels: {given.source} has no labels; give some by --labels.")
    method: Literal["auto", "labels", "rows"] = "auto" if only is None else only.value
    found = search(embeddings.rows, embeddings.labels, method, tolerance=tolerance)
    table = suspects(found, embeddings)
    facts = {
        "n_rows": len(found),
        "kept": int(found.kept.sum()),
        "reasons": found.counts,
        "noise_rate": found.noise_rate,
        "indices": [int(row) for row in (~found.kept).nonzero()[0]],
    }
    result.finish(table, facts, partial(_print, found, table))
    if result.output is None and table.num_rows and not result.as_json:
        note("To keep all of them, add -o suspects.csv.")


def suspects(found: Screening, embeddings: Embeddings) -> pa.Table:
    """Return a line for each row that is not trusted, the most suspicious first."""
    import numpy as np

    rows = np.flatnonzero(~found.kept)
    rows = rows[np.argsort(-found.probability[rows], kind="stable")]
    frame = found.to_frame(embeddings.labels, package="pyarrow").take(rows)
    ids = embeddings.ids_of(rows)
    if ids is not None:
        frame = frame.append_column("id", [ids])
    wanted = ("row", "id", "label", "suggested_label", "probability", "reason")
    return frame.select([name for name in wanted if name in frame.column_names])


def _print(found: Screening, suspicious: pa.Table, to_stderr: bool) -> None:
    from rich.markup import escape

    out = console(to_stderr=to_stderr)
    if not found.counts:
        out.print(f"All {len(found):,} rows are trusted.")
    else:
        table = new_table(f"{suspicious.num_rows:,} of {len(found):,} rows are not trusted", padding=(0, 1))
        table.add_column("reason")
        table.add_column("rows", justify="right")
        for reason, count in found.counts.items():
            table.add_row(reason, f"{count:,}")
        show(table, to_stderr=to_stderr)
    if found.noise_rate is not None:
        out.print(f"Estimated label noise: {found.noise_rate:.1%}.")
    if not found.counts:
        return
    table = new_table("The most suspicious", padding=(0, 1))
    first = suspicious.slice(0, _SHOWN).to_pydict()
    if "id" in first:
        del first["row"]
    for name in first:
        right = name in ("row", "probability")
        table.add_column(name.replace("_", " "), justify="right" if right else "left", overflow="fold")
    for line in zip(*first.values(), strict=True):
        table.add_row(*(f"{cell:.3f}" if isinstance(cell, float) else escape(str(cell)) for cell in line))
    show(table, to_stderr=to_stderr)
