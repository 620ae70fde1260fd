"""clean: from raw rows to a dataset without the rows that are wrong, with a report and a list of what was removed."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gmmatch._array import Indices, Mask
from gmmatch.data.checks import check_rows
from gmmatch.data.exporting import open_writer
from gmmatch.data.images import ImageFolder
from gmmatch.data.opening import open_source, read_description
from gmmatch.data.tables import BaseSource
from gmmatch.encoders.registry import load_encoder
from gmmatch.errors import InvalidInputError
from gmmatch.files import csv_bytes, write_file
from gmmatch.frames import html_table
from gmmatch.report.content import open_contents
from gmmatch.report.page import write_report
from gmmatch.report.rendering import check_target
from gmmatch.review.decisions import Decisions, Settled, apply_decisions
from gmmatch.screening.result import DOUBTFUL, WRONG, ScreeningResult, corrected_labels
from gmmatch.screening.screening import screen
from gmmatch.store.run import Progress, embed
from gmmatch.store.store import Store, open_store

_REMOVED = ("row", "id", "label", "why", "detail", "probability")


@dataclass(frozen=True, eq=False)
class Cleaned:
    """What :func:`clean` did.

    Attributes
    ----------
    path, report, removed : Path
        The new dataset, the page about the screening, and the table of the rows that are not in it.
    store : Path
        The embeddings: clean again from there, with decisions, without encoding anything again.
    n_rows, n_kept, n_relabeled : int
        Rows of the source, rows of the new dataset, and those of them with another label.
    counts : dict
        How many rows were removed for each reason.
    screening : ScreeningResult

    Examples
    --------
    >>> Cleaned.__name__
    'Cleaned'
    """

    path: Path
    report: Path
    removed: Path
    store: Path
    n_rows: int
    n_kept: int
    n_relabeled: int
    counts: dict[str, int]
    screening: ScreeningResult

    def __repr__(self) -> str:
        return f"{self.n_kept:,} of {self.n_rows:,} rows stay, {self.n_relabeled:,} with another label."

    def _repr_html_(self) -> str:
        return html_table(
            repr(self), ["removed", "rows"], [(why, f"{n:,}") for why, n in self.counts.items()]
        )


def clean(
    source: Any,
    output: str | os.PathLike[str],
    *,
    store: str | os.PathLike[str] | None = None,
    encoder: Any = None,
    doubtful: Literal["keep", "drop"] = "keep",
    relabel: float | None = None,
    decisions: Decisions | str | os.PathLike[str] | None = None,
    link: bool = False,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Cleaned:
    """Embed rows, screen them, and write those that are not wrong as a new dataset.

    Parameters
    ----------
    source : path, source or Store
        A folder of images, or files of a table (Parquet, CSV, JSON lines) with images, texts or vectors: what
        :func:`gmmatch.data.open_source` takes or returns. Or an open store that was made from such.
    output : path
        The new folder or file. The report and the table ``removed.csv`` lie in the folder, or next to the file.
    store : path, optional
        Where the embeddings go, by default next to the output; continued if it is there.
    encoder : optional
        What :func:`gmmatch.load_encoder` takes.
    doubtful : "keep" or "drop"
        What becomes of rows whose label the evidence contradicts, though overlap of classes may be why.
    relabel : float, optional
        Rows whose suggested label has at least this probability stay, with that label: images in its folder, rows of
        tables with a column ``corrected_label``.
    decisions : Decisions or path, optional
        A person's word, which is final, and from which the screening learns.
    link : bool
        Whether images are linked instead of copied.
    random_state : int
    progress : callable, optional
        Called with the rows that are embedded, and how many there are.

    Returns
    -------
    Cleaned

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> X = np.repeat(np.eye(3), 50, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((150, 3))
    >>> y = np.repeat(["ant", "bee", "cat"], 50)
    >>> y[:5] = "bee"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"embedding": list(X), "label": y}), f"{folder}/rows.parquet")
    ...     cleaned = clean(f"{folder}/rows.parquet", f"{folder}/clean.parquet", doubtful="drop")
    >>> cleaned.n_kept, cleaned.counts
    (145, {'mislabeled': 5})
    """
    if doubtful not in ("keep", "drop"):
        raise InvalidInputError(f"doubtful={doubtful!r}: give 'keep' or 'drop'.")
    target, rows = Path(output), source if isinstance(source, Store) else None
    opened: BaseSource = open_source(source) if rows is None else open_source_of(rows)
    write, is_folder = open_writer(opened, target, link=link), isinstance(opened, ImageFolder)
    report = target / "report.html" if is_folder else target.with_suffix(".report.html")
    check_target(target.with_name("report.html"))
    skipped = []
    if rows is None:
        path = Path(store) if store is not None else target.with_suffix(".emb")
        model = load_encoder(encoder, kind=opened.kind)
        skipped = list(embed(opened, model, path, on_error="skip", progress=progress).skipped)
        rows = open_store(path)
    settled = None if decisions is None else apply_decisions(rows, rows.labels, decisions)
    answers = None if settled is None else settled.answers
    screening = screen(rows, answers=answers, random_state=random_state)
    screening = screening.add_reasons(check_rows(opened)[rows.source_rows])
    given = rows.labels
    labels: Any = given if relabel is None or given is None else corrected_labels(screening, given, relabel)
    if settled is not None and settled.labels is not None:
        labels = np.where(settled.decided, settled.labels, labels)
    changed = np.zeros(len(rows), dtype=np.bool_) if given is None else np.asarray(labels != given)
    kept = _keep(screening, changed, doubtful, settled)
    chosen = np.flatnonzero(kept)
    chosen = chosen[np.argsort(rows.source_rows[chosen], kind="stable")]
    source_rows, changed = rows.source_rows[chosen], changed & kept
    if is_folder:
        new = {int(rows.source_rows[row]): labels[row] for row in np.flatnonzero(changed)}
        write(source_rows, {}, new_labels=new)
    else:
        has_new = labels is not None and (relabel is not None or changed.any())
        columns = {"corrected_label": labels[chosen].tolist()} if has_new else {}
        write(source_rows, columns)
    lines = _describe_removed(rows, screening, np.flatnonzero(~kept), settled)
    lines += [[row.row, row.id, None, "unreadable", row.reason, None] for row in skipped]
    removed = report.with_name(report.name.replace("report.html", "removed.csv"))
    write_file(removed, csv_bytes([_REMOVED, *lines]))
    contents = open_contents(opened, len(rows), rows.source_rows)
    write_report(screening, report, rows, source=contents)
    counts, n_changed = dict(Counter(line[3] for line in lines)), int(changed.sum())
    n_rows = len(rows) + len(skipped)
    return Cleaned(target, report, removed, rows.path, n_rows, len(chosen), n_changed, counts, screening)


def open_source_of(store: Store) -> BaseSource:
    """Open what a store was made from; raise if it has changed since."""
    location, options = read_description(store.source)
    source = open_source(location, **options)
    if store.manifest.source_fingerprint != source.fingerprint():
        raise InvalidInputError(f"{source.location} has changed since {store.path} was made: embed it again.")
    return source


def _keep(screening: ScreeningResult, changed: Mask, doubtful: str, settled: Settled | None) -> Mask:
    """Return which rows stay."""
    removed = (screening.verdict_codes == WRONG) & ~changed
    if doubtful == "drop":
        removed |= (screening.verdict_codes == DOUBTFUL) & ~changed
    # Of copies that are not removed for another reason, the first stays; the original comes before its copies.
    is_copy, kept = screening.duplicate_of >= 0, np.zeros(len(screening), dtype=np.bool_)
    original = np.where(is_copy, screening.duplicate_of, np.arange(len(screening)))
    rows = np.flatnonzero(~removed)
    rows = rows[np.argsort(is_copy[rows], kind="stable")]
    kept[rows[np.unique(original[rows], return_index=True)[1]]] = True
    return kept if settled is None else np.where(settled.decided, settled.keep, kept)


def _describe_removed(
    store: Store, screening: ScreeningResult, rows: Indices, settled: Settled | None
) -> list[list[Any]]:
    """Return a line of the table for each removed row: what it is, why it is not there, and how sure that is."""
    ids = store.ids
    names = np.array([*screening.labels, None], dtype=object)
    lines = []
    for row in rows.tolist():
        original, why, detail = int(screening.duplicate_of[row]), str(screening.reason[row]), ""
        if settled is not None and settled.decided[row]:
            why, detail = "decision", "a person said so"
        elif why in ("", "duplicate"):
            why, detail = "duplicate", f"copy of {ids[original]}"
        elif why == "mislabeled":
            detail = f"looks like {screening.suggested[row]}"
        known = screening.given[row] >= 0 and why == "mislabeled"
        probability = round(float(screening.probability[row]), 4) if known else None
        lines.append(
            [int(store.source_rows[row]), ids[row], names[screening.given[row]], why, detail, probability]
        )
    return lines
