"""Area under the margin: how surely a row was classified as its label says, all through training."""

from __future__ import annotations

from typing import Any

import numpy as np

from gmmatch.scores.logits import as_logits, margins
from gmmatch.types import Vector


def margin(logits: Any, labels: Any) -> Any:
    """Return the logit of each row's label minus the largest other logit.

    Examples
    --------
    >>> margin(np.array([[3.0, 1.0, 2.5]]), np.array([1]))
    array([-2.])
    """
    return margins(*as_logits(logits, labels))


def area_under_margin(epochs: Any, labels: Any) -> Vector:
    """Return the mean margin of each row over the epochs (Pleiss et al., 2020).

    A row whose label is wrong is pulled towards it by its own gradient and away from it by those of the
    rows it resembles, so that its margin stays low or negative.

    Parameters
    ----------
    epochs : iterable of arrays of shape (n, classes)
        The logits of all rows at each epoch.
    labels : array of shape (n,)
        Class numbers.

    Examples
    --------
    >>> area_under_margin([[[0.0, 1.0]], [[0.0, 3.0]]], [1])
    array([2.])
    """
    found: Vector = np.mean([margin(np.asarray(logits), labels) for logits in epochs], axis=0)
    return found
