"""EL2N: how far the predicted probabilities are from the label."""

from __future__ import annotations

from typing import Any

from gmmatch.scores.logits import as_logits, errors, lengths


def el2n(logits: Any, labels: Any) -> Any:
    """Return ‖softmax(logits) − one-hot label‖ for each row (Paul et al., 2021).

    Parameters
    ----------
    logits : array or tensor of shape (m, classes)
    labels : array or tensor of shape (m,)
        Class numbers.

    Returns
    -------
    array or tensor of shape (m,)
        Of the kind of ``logits``, on its device; from 0 (sure and right) to √2 (sure and wrong).

    Examples
    --------
    >>> import numpy as np
    >>> el2n(np.array([[0.0, 0.0], [0.0, 50.0]]), np.array([0, 1])).round(3)
    array([0.707, 0.   ])
    """
    return lengths(errors(*as_logits(logits, labels)))
