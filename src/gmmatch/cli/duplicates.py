"""``gmmatch duplicates``: rows that are nearly the same, within one set of embeddings or in another."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from gmmatch.cli.io.arguments import Input, Running, picks_by
from gmmatch.cli.io.files import TableOutput
from gmmatch.cli.io.output import print_lines, print_table

if TYPE_CHECKING:
    import pyarrow as pa

    from gmmatch.cli.io.inputs import Embeddings
    from gmmatch.duplicates.search import Duplicates

_LEVELS = (0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)


def duplicates(
    *,
    given: Input,
    against: Annotated[str | None, picks_by("Find copies of a test set instead.", metavar="OTHER")] = None,
    threshold: Annotated[
        float | None, picks_by("The least cosine of copies; by default chosen from the data.")
    ] = None,
    result: TableOutput,
    running: Running,
) -> None:
    """Find near-duplicates among rows, or rows of a test set.

    Of each group the most typical row is kept, and the others are its duplicates. With --against, rows are paired
    with the most similar row of the other embeddings.

    \b
    Examples:
      gmmatch duplicates photos.emb -o groups.parquet
      gmmatch duplicates train.emb --against test.emb -o leaks.csv
      gmmatch select train.emb -k 10% -o picks.parquet --exclude-near test.emb
    """
    import gmmatch as gm

    result.check(given.path, against)
    options = running.options()
    rows = given.open("none")
    others = None if against is None else given.open_other(rows, against, "--against", "none")
    copies = gm.duplicates(rows.X, threshold, against=None if others is None else others.X, **options)
    table = None if result.output is None else _table(copies, rows, others)
    result.finish(table, _summarize(copies), partial(_print, copies))


def _table(copies: Duplicates, rows: Embeddings, others: Embeddings | None) -> pa.Table:
    """Return one line per row of a group, or per row that is in the other set."""
    import numpy as np
    import pyarrow as pa

    from gmmatch.frames import arrow_column

    if others is not None:
        numbers = copies.rows
        columns = {"row": numbers, "id": rows.ids_of(numbers)}
        originals = copies.original[numbers]
        columns |= {"other_row": originals, "other_id": others.ids_of(originals)}
        columns["similarity"] = copies.similarity[numbers]
    else:
        groups = copies.groups
        numbers = np.concatenate([np.empty(0, dtype=np.int64), *groups])
        columns = {"group": np.repeat(np.arange(len(groups)), [len(group) for group in groups])}
        columns |= {"row": numbers, "id": rows.ids_of(numbers), "kept": ~copies.mask[numbers]}
        columns["similarity"] = np.where(copies.mask[numbers], copies.similarity[numbers], 1.0)
    return pa.table({name: arrow_column(values) for name, values in columns.items() if values is not None})


def _by_level(copies: Duplicates) -> list[tuple[float, int]]:
    """Return how many rows would be duplicates at higher thresholds too, by their cosine."""
    levels = [copies.threshold, *(level for level in _LEVELS if level > copies.threshold)]
    return [(level, int((copies.similarity >= level - 1e-7).sum())) for level in levels]


def _summarize(copies: Duplicates) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "n_rows": len(copies),
        "duplicates": len(copies.rows),
        "threshold": copies.threshold,
        "estimated": copies.estimated,
        "by_similarity": [{"at_least": level, "rows": count} for level, count in _by_level(copies)],
    }
    if not copies.against:
        summary |= {"groups": len(copies.groups), "largest": [len(group) for group in copies.groups[:10]]}
    return summary


def _print(copies: Duplicates, to_stderr: bool) -> None:
    what = (
        "have a near-duplicate in the other set" if copies.against else "are near-duplicates of another row"
    )
    print_lines(f"{len(copies.rows):,} of {len(copies):,} rows {what}", to_stderr=to_stderr)
    lines = [(f"{level:.4g}", f"{count:,}") for level, count in _by_level(copies)]
    line = f"Threshold: {copies.threshold:.4g}, {'chosen from the data' if copies.estimated else 'as given'}."
    groups = [] if copies.against else copies.groups
    if groups:
        sizes = ", ".join(f"{len(group):,}" for group in groups[:5])
        line += f" {len(groups):,} group{'s' * (len(groups) > 1)}, the largest of {sizes} rows."
    print_table("", ("cosine at least", "rows"), lines, caption=line, to_stderr=to_stderr)
