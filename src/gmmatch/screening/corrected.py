"""Corrected labels: replace labels that are likely wrong, instead of dropping their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.screening.result import IN_DOUBT, KEPT, MISLABELED, Screening
from gmmatch.selection.labels import group_rows
from gmmatch.types import Mask, on_host

CONFIDENCE = 0.95
# Of rows of no class, far out or copied, no class is worth a suggestion.
_JUDGED = (KEPT, MISLABELED, IN_DOUBT)


def corrected_labels(y: Any, screening: Screening, min_confidence: float = CONFIDENCE) -> NDArray[Any]:
    """Return the labels with those that are confidently wrong replaced by the suggested ones.

    Parameters
    ----------
    y : array of shape (n,)
        The given labels. Not modified. Rows without a label stay without one.
    screening : Screening
        What :func:`~gmmatch.screen` found for these rows and labels.
    min_confidence : float
        The least probability of a suggested label that replaces the given one.

    Returns
    -------
    array of shape (n,)

    Examples
    --------
    >>> suggested = {"suggested_labels": np.array([1, 1, 0]), "suggested_probability": np.array([0.99, 0.6, 0.99])}
    >>> screening = Screening(np.ones(3, dtype=bool), np.zeros(3), np.zeros(3, dtype=np.int8), **suggested)
    >>> corrected_labels([0, 0, 0], screening)
    array([1, 0, 0])
    """
    return relabeled(y, screening, min_confidence)[0]


def relabeled(y: Any, screening: Screening, min_confidence: float) -> tuple[NDArray[Any], Mask]:
    """Return the corrected labels, and which of them are others than before.

    Labels are told apart as :func:`~gmmatch.selection.labels.group_rows` does, and a new one is written as ``y``
    itself writes it: NaN differs from NaN, and b"cat" from "cat", but no label has changed by that.
    """
    check_confidence(min_confidence)
    given = on_host(y).reshape(-1)
    if len(given) != len(screening):
        raise InvalidInputError(
            f"y has {len(given):,} labels, but the screening is about {len(screening):,} rows."
        )
    changed, suggested = sure_suggestions(screening, min_confidence), screening.suggested_labels
    assert suggested is not None
    written: dict[Any, Any] = {}
    for group in group_rows(y, n=len(given), unlabeled="group"):
        if len(group.rows):
            written[group.label] = given[group.rows[0]]
        changed[group.rows] &= group.label is not None and suggested[group.rows] != group.label
    out = np.array(given, dtype=object if given.dtype.kind not in "iufb" else given.dtype)
    out[changed] = [written.get(label, label) for label in suggested[changed].tolist()]
    return out.astype(given.dtype) if given.dtype.kind in "SU" else out, changed


def sure_suggestions(screening: Screening, min_confidence: float) -> Mask:
    """Return for which rows a label is suggested with at least this probability, the given one or another."""
    if screening.suggested_labels is None or screening.suggested_probability is None:
        raise InvalidInputError(
            "The screening suggests no labels: it was made without labels, of one class, or by 'rows' alone."
        )
    judged = [number for number, reason in enumerate(screening.reasons) if reason in _JUDGED]
    sure: Mask = (screening.suggested_probability >= min_confidence) & np.isin(screening.reason, judged)
    return sure


def check_confidence(min_confidence: float) -> None:
    """Raise for what is no probability that can be asked for."""
    number = isinstance(min_confidence, (int, float, np.floating)) and not isinstance(min_confidence, bool)
    if not number or not 0.0 < min_confidence <= 1.0:
        raise InvalidInputError(
            f"min_confidence={min_confidence!r}: expected a number above 0 and at most 1."
        )
