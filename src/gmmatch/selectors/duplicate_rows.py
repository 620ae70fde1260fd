"""``duplicates="one"``: of rows that are nearly the same, one may be picked, and counts."""

from __future__ import annotations

from typing import Any, Literal

from gmmatch.near_duplicates.result import Duplicates
from gmmatch.rows.rows import Rows
from gmmatch.selection.labels import Group
from gmmatch.types import Mask

DuplicatesChoice = Literal["one", "keep"]
# What a report shows of them.
_GROUPS_SHOWN, _ROWS_SHOWN = 12, 8


def without_duplicates(
    rows: Rows, groups: list[Group], inside: Mask, threads: int
) -> tuple[list[Group], dict[str, Any]]:
    """Return the groups without rows that duplicate another, and what to record; rows picked already stay.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    >>> groups, facts = without_duplicates(Rows(X), [Group(None, np.arange(3))], np.zeros(3, dtype=bool), 1)
    >>> groups[0].rows, facts["left_out"]
    (array([0, 1]), 1)
    """
    from gmmatch.near_duplicates.search import duplicates

    found = duplicates(rows, n_jobs=threads)
    out = found.mask & ~inside
    kept = [Group(group.label, group.rows[~out[group.rows]]) for group in groups]
    return kept, duplicate_facts(found)


def duplicate_facts(found: Duplicates) -> dict[str, Any]:
    """Return what a selection records about duplicates, with the rows of the largest groups."""
    groups = found.groups
    return {
        "threshold": found.threshold,
        "left_out": int(found.mask.sum()),
        "n_groups": len(groups),
        "largest": [
            {"n_rows": len(group), "rows": group[:_ROWS_SHOWN].tolist()} for group in groups[:_GROUPS_SHOWN]
        ],
    }
