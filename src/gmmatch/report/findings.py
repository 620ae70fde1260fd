"""What a selection teaches about its data: how many labels look wrong, which ones, and what they should be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gmmatch.report.galleries import looks_like
from gmmatch.report.names import LONGEST_NAME, Classes, RowNames, shown
from gmmatch.screening.result import MISLABELED
from gmmatch.selection.selection import Selection
from gmmatch.types import Indices

UNCLEAR = "unclear"
# So many columns fit a page beside each other.
MOST_CLASSES = 12
MOST_PAIRS = 12
# Lines of the table to download: under a megabyte of ids as long as paths are.
MOST_LISTED = 10_000
_SHADES = 5


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def headline(selection: Selection) -> str:
    """Return what was learned, in a few words.

    Examples
    --------
    >>> headline(Selection([0, 2], n_rows=4))
    '2 of 4 rows picked'
    """
    screening, n = selection.screening, selection.n_rows
    if screening is None:
        distinct = len(np.unique(selection.order))
        different = "" if distinct == selection.k else f", {distinct:,} of them different"
        return f"{selection.k:,} of {n:,} rows picked{different}"
    counts = screening.counts
    if wrong := counts.get(MISLABELED, 0):
        return f"{counted(wrong, 'label')} {'looks' if wrong == 1 else 'look'} wrong"
    if out := sum(counts.values()):
        return f"{counted(out, 'row')} {'is' if out == 1 else 'are'} not trusted"
    return f"{counted(n, 'row')}, and nothing looks wrong"


def in_short(selection: Selection) -> str:
    """Return the rest of what was learned, in two or three sentences; empty where no screen was used.

    Examples
    --------
    >>> from gmmatch.screening.result import Screening
    >>> screening = Screening(np.array([True, False]), np.array([0.0, 0.9]), np.array([0, 4], np.int8))
    >>> in_short(Selection([0], n_rows=2, screening=screening))
    'Not trusted: far out (1). 1 row was picked from the 1 that is trusted.'
    """
    screening = selection.screening
    if screening is None:
        return ""
    said = []
    counts = dict(screening.counts)
    if wrong := counts.pop(MISLABELED, 0):
        rate = screening.noise_rate
        estimate = "" if rate is None else f"; the label noise is estimated at {rate:.1%}"
        said.append(f"That is {wrong / selection.n_rows:.1%} of {selection.n_rows:,} rows{estimate}.")
    if counts:
        reasons = ", ".join(f"{reason} ({count:,})" for reason, count in counts.items())
        said.append(f"{'Also not' if wrong else 'Not'} trusted: {reasons}.")
    trusted = int(screening.kept.sum())
    said.append(
        f"{counted(selection.k, 'row')} {'was' if selection.k == 1 else 'were'} picked from the {trusted:,} that "
        f"{'is' if trusted == 1 else 'are'} trusted."
    )
    return " ".join(said)


@dataclass(frozen=True)
class Cell:
    """How many rows of one label look like one class."""

    count: int
    shade: int  # from 0 for none to 5 for the largest
    own: bool  # where a class would meet itself


@dataclass(frozen=True)
class MixedUp:
    """The labels that look wrong, by what they are and what they should be.

    Of a few classes, a matrix: a line for each label, a column for each class that rows look like. Of more, the
    largest pairs.
    """

    columns: list[str]
    lines: list[tuple[str, int, list[Cell]]]  # name, total, cells
    pairs: list[tuple[str, str, int]]  # label, what it looks like, rows


def mixed_up(selection: Selection, classes: Classes) -> MixedUp | None:
    """Count the labels that look wrong by what they are and what they should be; None if there are none.

    Examples
    --------
    >>> from gmmatch.report.names import classes_of
    >>> from gmmatch.screening.result import Screening
    >>> screening = Screening(np.array([True, False]), np.array([0.0, 1.0]), np.array([0, 1], np.int8),
    ...                       suggested_labels=np.array(["cat", "cat"], dtype=object))
    >>> found = mixed_up(Selection([0], n_rows=2, screening=screening), classes_of(["cat", "dog"], 2))
    >>> found.columns, [(name, [cell.count for cell in cells]) for name, _, cells in found.lines]
    (['cat', 'dog'], [('cat', [0, 0]), ('dog', [1, 0])])
    """
    screening = selection.screening
    if screening is None or screening.suggested_labels is None or not classes.known:
        return None
    if not screening.counts.get(MISLABELED):
        return None
    wrong = np.flatnonzero(~screening.kept & (screening.reason == screening.reasons.index(MISLABELED)))
    given, likely = classes.of_row[wrong], looks_like(selection, classes)[wrong]
    n = len(classes)
    # A label can be doubted without another one being likelier.
    likely = np.where((likely < 0) | (likely == given), n, likely)
    names = [*(shown(name, LONGEST_NAME) for name in classes.names), UNCLEAR]
    pairs, counts = np.unique(given * (n + 1) + likely, return_counts=True)
    if n > MOST_CLASSES:
        order = np.argsort(-counts, kind="stable")[:MOST_PAIRS]
        largest = zip(*np.divmod(pairs[order], n + 1), counts[order].tolist(), strict=True)
        return MixedUp([], [], [(names[one], names[other], count) for one, other, count in largest])
    matrix = np.zeros((n, n + 1), dtype=np.int64)
    matrix.flat[pairs] = counts
    if not matrix[:, n].any():
        matrix, names = matrix[:, :n], names[:n]
    return MixedUp(names, _lines(names, matrix), [])


def _lines(names: list[str], matrix: Indices) -> list[tuple[str, int, list[Cell]]]:
    largest = int(matrix.max())
    lines = []
    for line, counts in enumerate(matrix.tolist()):
        cells = [
            Cell(count, -(-_SHADES * count // largest), line == column) for column, count in enumerate(counts)
        ]
        lines.append((names[line], sum(counts), cells))
    return lines


def suspect_table(selection: Selection, classes: Classes, names: RowNames) -> dict[str, list[Any]] | None:
    """Return the rows that are not trusted, for the page's download: the most suspicious first, at most 10,000."""
    screening = selection.screening
    if screening is None or screening.kept.all():
        return None
    out = np.flatnonzero(~screening.kept)
    rows = out[np.argsort(-screening.probability[out], kind="stable")][:MOST_LISTED]
    columns: dict[str, list[Any]] = {"row": rows.tolist()}
    ids = names.ids(rows)
    if any(one is not None for one in ids):
        columns["id"] = ["" if one is None else str(one) for one in ids]
    if classes.known:
        columns["label"] = [str(classes.labels[i]) for i in classes.of_row[rows].tolist()]
    if screening.suggested_labels is not None:
        columns["suggested_label"] = [str(one) for one in screening.suggested_labels[rows].tolist()]
    columns["probability"] = screening.probability[rows].round(4).tolist()
    columns["reason"] = [screening.reasons[i] for i in screening.reason[rows].tolist()]
    return columns
