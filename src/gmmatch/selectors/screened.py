"""Screening the rows that a selection can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gmmatch.rows.rows import Rows
from gmmatch.screening.result import Screening
from gmmatch.screening.screen import screen_groups
from gmmatch.selection.labels import Group
from gmmatch.types import Indices, Vector

UNREADABLE = "could not be read"


def screen_readable(
    rows: Rows, groups: Sequence[Group], method: str, tolerance: float, threads: int
) -> tuple[Screening, Vector]:
    """Return the screening of grouped rows, and the trust in each; rows of files that cannot be read are left out."""
    present = rows.readable
    if present is None:
        return screen_groups(rows, groups, method, tolerance, threads)
    readable = [
        replace(one, rows=np.searchsorted(present, np.intersect1d(one.rows, present))) for one in groups
    ]
    readable = [group for group in readable if len(group.rows)]
    found, trust = screen_groups(rows.subset(present), readable, method, tolerance, threads)
    return _among(found, present, len(rows)), _filled(trust, present, len(rows), 0.0)


def _among(found: Screening, present: Indices, n: int) -> Screening:
    """Return a screening of all rows, of which only those that are present were screened."""
    suggested, chance = found.suggested_labels, found.suggested_probability
    return Screening(
        _filled(found.kept, present, n, False),
        _filled(found.probability, present, n, 1.0),
        _filled(found.reason, present, n, len(found.reasons)),
        (*found.reasons, UNREADABLE),
        None if suggested is None else _filled(suggested.astype(object), present, n, None),
        None if chance is None else _filled(chance, present, n, 0.0),
        found.noise_rate,
    )


def _filled(values: Any, present: Indices, n: int, other: Any) -> Any:
    out = np.full(n, other, dtype=values.dtype)
    out[present] = values
    return out
