"""``duplicates="one"``: of rows that are nearly the same, one may be picked, and counts."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from gmmatch.near_duplicates.result import Duplicates
from gmmatch.rows.rows import Rows
from gmmatch.selection.labels import Groups
from gmmatch.types import Mask

DuplicatesChoice = Literal["one", "keep"]
# What a report shows of them.
_GROUPS_SHOWN, _ROWS_SHOWN = 12, 8


def without_duplicates(
    rows: Rows, groups: Groups, inside: Mask, threads: int
) -> tuple[Groups, dict[str, Any]]:
    """Return the groups without rows that duplicate another, and what to record; rows picked already stay.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    >>> every = Groups([None], np.arange(3), np.array([0, 3]))
    >>> groups, facts = without_duplicates(Rows(X), every, np.zeros(3, dtype=bool), 1)
    >>> groups[0].rows, facts["left_out"]
    (array([0, 1]), 1)
    """
    found, out = _duplicates(rows, None, threads)
    present = np.arange(len(rows)) if rows.readable is None else rows.readable
    alike = found.groups
    largest = [
        {"n_rows": len(one), "rows": present[one[:_ROWS_SHOWN]].tolist()} for one in alike[:_GROUPS_SHOWN]
    ]
    left_out = int(out.sum())
    return groups.without(out & ~inside), {
        "threshold": found.threshold, "left_out": left_out, "n_groups": len(alike), "largest": largest
    }  # fmt: skip


def rows_near(rows: Rows, others: Any, threads: int = -1) -> tuple[Mask, dict[str, Any]]:
    """Return which rows have a near-duplicate among others, and what to record.

    Examples
    --------
    >>> rows_near(Rows(np.array([[1.0, 0.0], [0.0, 1.0]])), [[0.0, 2.0]])[0]
    array([False,  True])
    """
    found, out = _duplicates(rows, others, threads)
    return out, {"threshold": found.threshold, "rows": int(out.sum())}


def _duplicates(rows: Rows, against: Any, threads: int) -> tuple[Duplicates, Mask]:
    """Return the duplicates among the rows that can be read, and which of all rows they are."""
    from gmmatch.near_duplicates.search import duplicates

    readable, out = rows.readable, np.zeros(len(rows), dtype=np.bool_)
    some = rows if readable is None else rows.subset(readable)
    found = duplicates(some, against=against, n_jobs=threads)
    out[slice(None) if readable is None else readable] = found.mask
    return found, out
