"""``gmmatch duplicates``: rows that are nearly the same, within one set of embeddings or in another."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gmmatch.cli.io.arguments import Input
from gmmatch.cli.io.files import TableOutput
from gmmatch.cli.io.output import console, print_table

if TYPE_CHECKING:
    import pyarrow as pa

    from gmmatch.cli.io.inputs import Embeddings
    from gmmatch.near_duplicates.result import Duplicates

_LEVELS = (0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)


def duplicates(
    *,
    threshold: Annotated[
        float | None,
        typer.Option(help="The least cosine of near-duplicates; by default it is chosen from the data."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="OTHER",
            help="Find rows that are in these embeddings too (a test set), instead of groups.",
        ),
    ] = None,
    given: Input,
    result: TableOutput,
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
    from gmmatch.near_duplicates.search import duplicates as search

    result.check(given, against)
    embeddings = given.open(labels="none")
    others = None if against is None else given.open_other(against)
    found = search(embeddings.rows, threshold, against=None if others is None else others.rows)
    table = None if result.output is None else group_table(found, embeddings, others)
    result.finish(table, _facts(found), partial(_print, found))


def group_table(found: Duplicates, embeddings: Embeddings, others: Embeddings | None) -> pa.Table:
    """Return one line per row of a group, or per row that is in the other set."""
    import numpy as np
    import pyarrow as pa

    if others is not None:
        rows = found.rows
        columns = {"row": rows, **_ids("id", embeddings, rows)}
        originals = found.original[rows]
        columns |= {"other_row": originals, **_ids("other_id", others, originals)}
        return pa.table({**columns, "similarity": found.similarity[rows]})
    groups = found.groups
    rows = np.concatenate([np.empty(0, dtype=np.int64), *groups])
    numbers = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    similarity = np.where(found.mask[rows], found.similarity[rows], 1.0)
    columns = {"group": numbers, "row": rows, **_ids("id", embeddings, rows)}
    return pa.table({**columns, "kept": ~found.mask[rows], "similarity": similarity})


def _ids(name: str, embeddings: Embeddings, rows: Any) -> dict[str, Any]:
    ids = embeddings.ids_of(rows)
    return {} if ids is None else {name: ids}


def _by_level(found: Duplicates) -> list[tuple[float, int]]:
    """Return how many rows would be duplicates at higher thresholds too, by their cosine."""
    levels = [found.threshold, *(level for level in _LEVELS if level > found.threshold)]
    return [(level, int((found.similarity >= level - 1e-7).sum())) for level in levels]


def _facts(found: Duplicates) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "n_rows": len(found),
        "duplicates": len(found.rows),
        "threshold": found.threshold,
        "estimated": found.estimated,
        "by_similarity": [{"at_least": level, "rows": count} for level, count in _by_level(found)],
    }
    if not found.against:
        facts |= {"groups": len(found.groups), "largest": [len(group) for group in found.groups[:10]]}
    return facts


def _print(found: Duplicates, to_stderr: bool) -> None:
    out = console(to_stderr=to_stderr)
    what = "have a near-duplicate in the other set" if found.against else "are near-duplicates of another row"
    out.print(f"{len(found.rows):,} of {len(found):,} rows {what}", soft_wrap=True)
    lines = [(f"{level:.4g}", f"{count:,}") for level, count in _by_level(found)]
    print_table("", ("cosine at least", "rows"), lines, to_stderr=to_stderr)
    said = "chosen from the data" if found.estimated else "as given"
    line = f"Threshold: {found.threshold:.4g}, {said}."
    groups = found.groups
    if not found.against and groups:
        sizes = ", ".join(f"{len(group):,}" for group in groups[:5])
        line += f" {len(groups):,} groups; the largest have {sizes} rows."
    out.print(line, soft_wrap=True)
