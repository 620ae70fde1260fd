"""``gmmatch screen``: which rows look wrong, and why."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gmmatch.cli.io.arguments import LabeledInput
from gmmatch.cli.io.files import TableOutput
from gmmatch.cli.io.output import console, note, print_table
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

    from gmmatch.cli.io.inputs import Embeddings
    from gmmatch.screening.result import Screening

_SHOWN = 5


def screen(
    *,
    only: Annotated[
        Literal["labels", "rows"] | None,
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
    if only == "labels" and embeddings.labels is None:
        raise InvalidInputError(f"--only labels: {given.source} has no labels; give some by --labels.")
    found = search(embeddings.rows, embeddings.labels, only or "auto", tolerance=tolerance)
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
    out = console(to_stderr=to_stderr)
    if not found.counts:
        out.print(f"All {len(found):,} rows are trusted.")
    else:
        title = f"{suspicious.num_rows:,} of {len(found):,} rows are not trusted"
        counts = [(reason, f"{count:,}") for reason, count in found.counts.items()]
        print_table(title, ("reason", "rows"), counts, to_stderr=to_stderr)
    if found.noise_rate is not None:
        out.print(f"Estimated label noise: {found.noise_rate:.1%}.")
    if not found.counts:
        return
    first = suspicious.slice(0, _SHOWN).to_pydict()
    if "id" in first:
        del first["row"]
    lines = [
        [f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in line]
        for line in zip(*first.values(), strict=True)
    ]
    names, texts = [name.replace("_", " ") for name in first], ("label", "suggested label", "reason")
    print_table("The most suspicious", names, lines, left=texts, to_stderr=to_stderr)
