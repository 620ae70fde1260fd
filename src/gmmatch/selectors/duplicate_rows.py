"""``duplicates="one"``: of rows that are nearly the same, one may be picked, and counts."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

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
    from gmmatch.near_duplicates.search import duplicates

    readable = rows.readable
    found = duplicates(rows if readable is None else rows.subset(readable), n_jobs=threads)
    present = np.arange(len(rows)) if readable is None else readable
    out = np.zeros(len(rows), dtype=np.bool_)
    out[present] = found.mask
    alike = found.groups
    largest = [
        {"n_rows": len(one), "rows": present[one[:_ROWS_SHOWN]].tolist()} for one in alike[:_GROUPS_SHOWN]
    ]
    left_out = int(found.mask.sum())
    return groups.without(out & ~inside), {
        "threshold": found.threshold, "left_out": left_out, "n_groups": len(alike), "largest": largest
    }  # fmt: skip
