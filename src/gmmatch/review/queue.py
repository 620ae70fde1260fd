"""The order of questions: rows that say most about all of them first, then those in most doubt."""

from __future__ import annotations

import numpy as np

from gmmatch._array import Indices, Mask, Vector
from gmmatch.screening.result import DUPLICATE, MISLABELED, NOT_JUDGED, TRUSTED, ScreeningResult

# Answers about a sample of all rows, after which suspects are asked about.
_SAMPLED = 100
# The next of these draws lies as far as can be from all before (Roberts' sequence).
_GOLDEN = 0.6180339887498949


def order_questions(result: ScreeningResult, answered: Mask, limit: int = 5_000) -> Indices:
    """Return the rows to ask about next.

    The first hundred are a sample by suspicion: half of all rows, half of those in doubt. They settle how many labels
    are wrong. The others are suspects, those in most doubt first.

    Parameters
    ----------
    result : ScreeningResult
        What is known by now.
    answered : boolean array of shape (n,)
    limit : int
        The most rows to return.

    Returns
    -------
    int64 array of shape (m,)

    Examples
    --------
    >>> import gmmatch as gm
    >>> X = np.repeat(np.eye(3), 50, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((150, 3))
    >>> result = gm.screen(X, np.repeat(["ant", "bee", "cat"], 50), random_state=0)
    >>> len(order_questions(result, np.zeros(150, dtype=bool))) > 50
    True
    """
    excluded = answered.copy()
    sample = _draw_sample(result, excluded) if result.noise_rate is not None else []
    excluded[sample] = True
    doubt = _doubt(result)
    suspects = np.flatnonzero((doubt > 0.0) & ~excluded)
    suspects = suspects[np.lexsort((-result.suspicion[suspects], -doubt[suspects]))]
    return np.concatenate([np.array(sample, dtype=np.int64), suspects])[:limit]


def _draw_sample(result: ScreeningResult, excluded: Mask) -> list[int]:
    candidates = np.flatnonzero((result.given >= 0) & (result.verdict_codes != NOT_JUDGED))
    n_answered = int(excluded[candidates].sum())
    order = candidates[np.argsort(result.suspicion[candidates], kind="stable")]
    order = order[~excluded[order]]
    if not len(order):
        return []
    p = result.probability[order].astype(np.float64)
    doubt = np.sqrt(p * (1.0 - p))
    cumulative = np.cumsum(1.0 / len(order) + doubt / max(float(doubt.sum()), 1e-9))
    at = (0.5 + _GOLDEN * np.arange(n_answered, max(n_answered, _SAMPLED))) % 1.0
    rows = order[np.searchsorted(cumulative, at * cumulative[-1]).clip(0, len(order) - 1)]
    return list(dict.fromkeys(rows.tolist()))


def _doubt(result: ScreeningResult) -> Vector:
    """Return how much a decision about each row would settle, 0 for rows that nothing speaks against."""
    p = result.probability.astype(np.float64)
    doubt = np.where(result.reason_codes == MISLABELED, np.minimum(p, 1.0 - p) + 1e-6, 0.25)
    doubt[(result.verdict_codes == TRUSTED) | (result.verdict_codes == NOT_JUDGED)] = 0.0
    copies = np.flatnonzero(result.duplicate_of >= 0)
    differ = result.given[copies] != result.given[result.duplicate_of[copies]]
    is_copy = result.reason_codes[copies] == DUPLICATE
    # Of copies with different labels, at least one is wrong.
    doubt[copies[differ]] = 0.5
    doubt[copies[~differ & is_copy]] = 1e-3
    return np.asarray(doubt)
