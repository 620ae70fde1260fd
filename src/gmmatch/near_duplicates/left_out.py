"""``duplicates="one"``: of rows that are nearly the same, one may be picked, and counts."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from gmmatch.near_duplicates.result import Duplicates
from gmmatch.rows.rows import Rows
from gmmatch.selection.labels import Groups
from gmmatch.types import Indices, Mask

DuplicatesChoice = Literal["one", "keep"]
# What a report shows of them.
_GROUPS_SHOWN, _ROWS_SHOWN = 12, 8


def without_duplicates(
    rows: Rows, groups: Groups, inside: Mask, threads: int
) -> tuple[Groups, dict[str, Any]]:
    """Return the groups without rows that duplicate another, and what to record; rows picked already stay.

    A row without a group, which cannot be picked, stands for no other.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    >>> every = Groups([None], np.arange(3), np.array([0, 3]))
    >>> groups, facts = without_duplicates(Rows(X), every, np.zeros(3, dtype=bool), 1)
    >>> groups[0].rows, facts["left_out"]
    (array([0, 1]), 1)
    """
    grouped = np.sort(groups.rows)
    found, out = _duplicates(rows, grouped if len(grouped) < len(rows) else None, None, threads)
    alike = found.groups
    largest = [
        {"n_rows": len(one), "rows": grouped[one[:_ROWS_SHOWN]].tolist()} for one in alike[:_GROUPS_SHOWN]
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
    found, out = _duplicates(rows, rows.readable, others, threads)
    return out, {"threshold": found.threshold, "rows": int(out.sum())}


def _duplicates(rows: Rows, among: Indices | None, against: Any, threads: int) -> tuple[Duplicates, Mask]:
    """Return the duplicates among these rows, or all, and which of all rows they are."""
    from gmmatch.near_duplicates.search import duplicates

    out = np.zeros(len(rows), dtype=np.bool_)
    found = duplicates(rows if among is None else rows.subset(among), against=against, n_jobs=threads)
    out[slice(None) if among is None else among] = found.mask
    return found, out
