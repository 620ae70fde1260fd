"""How the residual falls while rows are picked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch.selection.selection import Selection
from gmmatch.types import Indices

_STEPS = 200


def growing_steps(k: int, most: int) -> Indices:
    """Return numbers of picks at which to look: every one from 1 to k, or up to ``most`` that grow by a factor.

    Examples
    --------
    >>> growing_steps(4, 10), growing_steps(1000, 4)
    (array([1, 2, 3, 4]), array([   1,   10,  100, 1000]))
    """
    if k <= most:
        return np.arange(1, k + 1, dtype=np.int64)
    return np.unique(np.geomspace(1, k, most).round().astype(np.int64))


@dataclass(frozen=True, eq=False)
class ResidualPath:
    """The residual after the first k picks, for some k.

    Attributes
    ----------
    k
        Ascending; the last is the whole selection.
    mean
        ‖target − mean of picks‖ in each class, averaged over the classes that have a pick by then.
    per_class
        The same without the average, shape (classes, len(k)); NaN before a class's first pick.
    """

    k: Indices
    mean: NDArray[np.float64]
    per_class: NDArray[np.float64]


def residual_path(selection: Selection) -> ResidualPath | None:
    """Return how the residual of a selection fell, or None if it was not computed.

    Examples
    --------
    >>> from gmmatch import GMMatching
    >>> path = residual_path(GMMatching(k=3).select([[0.0], [1.0], [2.0], [3.0]]))
    >>> path.k, path.mean.shape
    (array([1, 2, 3]), (3,))
    """
    groups = [group for group in selection.groups if len(group.residuals)]
    if not groups:
        return None
    steps = growing_steps(selection.k, _STEPS)
    owner = np.full(selection.n_rows, -1, dtype=np.int64)
    for number, group in enumerate(groups):
        owner[group.order] = number
    per_class = np.full((len(groups), len(steps)), np.nan)
    for number, group in enumerate(groups):
        done = np.cumsum(owner[selection.order] == number)[steps - 1]
        begun = done > 0
        per_class[number, begun] = group.residuals[done[begun] - 1]
    known = ~np.isnan(per_class).all(axis=0)
    if not known.any():
        return None
    return ResidualPath(steps[known], np.nanmean(per_class[:, known], axis=0), per_class[:, known])
