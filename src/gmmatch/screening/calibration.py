"""Calibration: what a person's answers about some rows say about all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gmmatch._array import Indices, Mask, Matrix, Vector, sample_indices
from gmmatch._threads import one_blas_thread
from gmmatch.errors import InvalidInputError
from gmmatch.groups import Label
from gmmatch.screening.result import (
    DOUBTFUL,
    MISLABELED,
    NO_REASON,
    NOT_JUDGED,
    OUT_OF_DISTRIBUTION,
    OUTLIER,
    TRUSTED,
    WRONG,
    ScreeningResult,
)

# The screening counts as much as this many answers that agree with it.
_PRIOR_ANSWERS = 5.0
# Fewer answers say something about their own rows only.
_FEWEST_ANSWERS = 20
# Deviation of the log odds of a class from those of all, where it has so many answers. Where classes have fewer, what
# is wrong everywhere must not pass for a matter of the classes that happened to be asked about.
_CLASS_DEVIATION, _CLASS_ANSWERS = 1.5, 5
# Rows that stand for all in the prior, and bands of suspicion in which answers stand for the rows around them.
_SAMPLE, _BANDS = 4_000, 10
# From these probabilities on, a label that is not known better is doubtful, and wrong.
_BOUNDS = np.array([0.1, 0.5])


def calibrate(result: ScreeningResult, answers: Any) -> ScreeningResult:
    """Return a screening that a person's answers have corrected: the answered rows, and the rest by what they teach.

    The log odds that a label is wrong become a rising function of suspicion (beta calibration: Kull, Silva Filho and
    Flach, 2017) plus an offset of the class, fitted to the answers and to the screening itself, which counts as a few
    answers more. An answer stands for the rows of about its suspicion, so it does not matter how rows were chosen.
    Fewer than 20 answers change only the rows that they are about.

    Parameters
    ----------
    result : ScreeningResult
        What the screening says without any answers.
    answers : object array of shape (n,)
        The right label of each row that was answered, NaN where all that is known is that the given one is wrong, and
        None for other rows; what :func:`gmmatch.apply_decisions` returns.

    Returns
    -------
    ScreeningResult

    Examples
    --------
    >>> import gmmatch as gm
    >>> X = np.repeat(np.eye(3), 50, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((150, 3))
    >>> y = np.repeat(["ant", "bee", "cat"], 50)
    >>> y[:5] = "bee"
    >>> answers = np.full(150, None)
    >>> answers[:2] = "ant", "bee"
    >>> calibrate(gm.screen(X, y, random_state=0), answers).verdict[:2].tolist()
    ['wrong', 'trusted']
    """
    answers = np.asarray(answers, dtype=object)
    if answers.shape != (len(result),):
        raise InvalidInputError(
            f"answers has shape {answers.shape}: give one for each of {len(result):,} rows."
        )
    number: dict[Label, int] = {label: code for code, label in enumerate(result.labels)}
    rows = np.array([row for row, answer in enumerate(answers) if answer is not None], dtype=np.int64)
    if not len(rows):
        return result
    right = np.array([number.get(answers[row], -1) for row in rows.tolist()], dtype=np.int64)
    is_wrong = right != result.given[rows]
    bad = np.isin(result.reason_codes, (OUTLIER, OUT_OF_DISTRIBUTION))
    is_judged = (result.given >= 0) & (result.verdict_codes != NOT_JUDGED) & ~bad
    probability, suspicion = result.probability.astype(np.float64), result.suspicion.astype(np.float64)
    verdict, rate, interval = result.verdict_codes.copy(), result.noise_rate, result.noise_interval
    useful = is_judged[rows]
    deviation = 0.0
    if useful.sum() >= _FEWEST_ANSWERS and rate is not None:
        line = Curve(suspicion, result.given, probability, np.flatnonzero(is_judged))
        with one_blas_thread():  # threads would spin over small matrices
            line.fit(rows[useful], is_wrong[useful])
        before = np.searchsorted(_BOUNDS, probability[is_judged])
        probability[is_judged], suspicion_of_labels, deviation = line.predict()
        after = np.searchsorted(_BOUNDS, probability[is_judged])
        changed = np.flatnonzero(is_judged)[before != after]
        verdict[changed] = np.array([TRUSTED, DOUBTFUL, WRONG])[after[before != after]]
        # Bad rows stay more suspicious than any other.
        suspicion[bad] += max(0.0, float(suspicion_of_labels.max() - suspicion[is_judged].max()))
        suspicion[is_judged] = suspicion_of_labels
    probability[rows], verdict[rows] = is_wrong, np.where(is_wrong, WRONG, TRUSTED)
    suspicion[rows] = np.where(is_wrong, suspicion.max(initial=0.0) + 1.0, suspicion.min(initial=0.0) - 1.0)
    if rate is not None:
        counted = is_judged.copy()
        counted[rows[result.given[rows] >= 0]] = True
        rate = float(probability[counted].mean())
        margin = 2.0 * deviation + 1.0 / max(1, int(counted.sum()))
        interval = max(0.0, rate - margin), min(1.0, rate + margin)
    reason = np.where(np.isin(result.reason_codes, (NO_REASON, MISLABELED)), NO_REASON, result.reason_codes)
    reason[(reason == NO_REASON) & np.isin(verdict, (WRONG, DOUBTFUL))] = MISLABELED
    reason[rows] = np.where(is_wrong, MISLABELED, NO_REASON)
    suggested, confidence = result.suggested_codes.copy(), result.confidence.copy()
    known = right >= 0
    suggested[rows[known]], confidence[rows[known]] = right[known], 1.0
    return replace(
        result, verdict_codes=verdict, reason_codes=reason, probability=probability, suspicion=suspicion,
        suggested_codes=suggested, confidence=confidence, noise_rate=rate, noise_interval=interval,
    )  # fmt: skip


class Curve:
    """The probability that a label is wrong, by suspicion and class.

    Parameters
    ----------
    suspicion : array of shape (n,)
    codes : int array of shape (n,)
        The class of each row.
    probability : array of shape (n,)
        What the screening says.
    rows : int64 array of shape (m,)
        The rows that were judged.
    """

    def __init__(self, suspicion: Vector, codes: Indices, probability: Vector, rows: Indices) -> None:
        self.rows, self.suspicion, self.codes = rows, suspicion, codes
        self.probability = probability
        self.n_classes = int(codes.max()) + 1
        self.order = rows[np.argsort(suspicion[rows], kind="stable")]

    def features(self, rows: Indices) -> Matrix:
        """Return log p and -log(1 - p) of suspicions as probabilities, and 1."""
        suspicion = np.clip(self.suspicion[rows], -12.0, 12.0)
        return np.column_stack(
            [-np.logaddexp(0.0, -suspicion), np.logaddexp(0.0, suspicion), np.ones(len(rows))]
        )

    def fit(self, rows: Indices, is_wrong: Mask) -> None:
        """Fit the curve to answers about some rows."""
        from scipy.optimize import minimize

        sample = self.order[sample_indices(len(self.order), _SAMPLE)]
        fitted = np.concatenate([rows, sample])
        x, codes = self.features(fitted), self.codes[fitted]
        target = np.concatenate([is_wrong, self.probability[sample]])
        weights = np.concatenate([self._weigh(rows), np.full(len(sample), _PRIOR_ANSWERS / len(sample))])

        ridge = _CLASS_DEVIATION**-2 * max(1.0, _CLASS_ANSWERS * self.n_classes / len(rows))

        def loss(beta: Vector) -> tuple[float, Vector]:
            margin, offsets = x @ beta[:3] + beta[3 + codes], ridge * beta[3:]
            gap = weights * (_sigmoid(margin) - target)
            slope = np.concatenate([gap @ x, np.bincount(codes, gap, self.n_classes) + offsets])
            value = weights @ (np.logaddexp(0.0, margin) - target * margin) + 0.5 * offsets @ beta[3:]
            return float(value), slope

        start = np.concatenate([[1.0, 1.0, 0.0], np.zeros(self.n_classes)])
        bounds = [(0.0, None)] * 2 + [(None, None)] * (1 + self.n_classes)
        self.beta = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
        p = _sigmoid(x @ self.beta[:3] + self.beta[3 + codes])
        design = np.column_stack([x, np.eye(self.n_classes)[codes]])
        penalty = np.concatenate([[1e-6] * 3, np.full(self.n_classes, ridge)])
        self.hessian = (design.T * (weights * p * (1.0 - p))) @ design + np.diag(penalty)

    def _weigh(self, rows: Indices) -> Vector:
        """Return how many answers each counts as: more where few of many rows were answered."""
        edges = self.suspicion[self.order[np.arange(1, _BANDS) * len(self.order) // _BANDS]]
        band = np.searchsorted(edges, self.suspicion[rows])
        share = 1.0 / np.bincount(band, minlength=_BANDS)[band]
        weights: Vector = share * len(rows) / share.sum()
        return weights

    def predict(self) -> tuple[Vector, Vector, float]:
        """Return the probabilities of the judged rows, their log odds, and the standard deviation of the mean."""
        x, codes = self.features(self.rows), self.codes[self.rows]
        margin = x @ self.beta[:3] + self.beta[3 + codes]
        p = _sigmoid(margin)
        change = p * (1.0 - p)
        slope = np.concatenate([change @ x, np.bincount(codes, change, self.n_classes)]) / len(x)
        return p, margin, float(slope @ np.linalg.solve(self.hessian, slope)) ** 0.5


def _sigmoid(margin: Vector) -> Vector:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(margin, -40.0, 40.0))))
