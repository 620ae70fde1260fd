"""Screening: judge rows and labels, and decide which rows may be picked; an object that any method takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Mask, RandomState, Vector
from gmmatch._checks import check_fraction, warn_caller
from gmmatch._threads import one_blas_thread
from gmmatch.budget import TRUSTED as ALL_TRUSTED
from gmmatch.duplicates.search import find_duplicates
from gmmatch.errors import GMMatchWarning, InvalidInputError
from gmmatch.groups import Label
from gmmatch.problem import Problem
from gmmatch.rows import open_rows
from gmmatch.rows.open import per_row_values
from gmmatch.screening.calibration import calibrate
from gmmatch.screening.labels import judge_labels
from gmmatch.screening.outliers import find_outliers
from gmmatch.screening.result import (
    DOUBTFUL,
    DUPLICATE,
    GROUP,
    MISLABELED,
    NO_REASON,
    OUT_OF_DISTRIBUTION,
    OUTLIER,
    TRUSTED,
    WRONG,
    ScreeningResult,
    relabeled_rows,
)  # fmt: skip

# Rows to pick from for each pick, so that the picks can follow the distribution, up to half of the class.
_CHOICE = 3


@dataclass(frozen=True)
class Screening:
    """Pick among rows that can be trusted; an option of every method, as in ``Herding(screening=Screening())``.

    The budget decides how strict it is: the less of a class is picked, the less suspicious are the rows that are
    picked from. Doubtful rows come in only where too few others are left, wrong ones last.

    Parameters
    ----------
    tolerance : float
        The expected share of wrong labels among the rows to pick from. More are let in only where the budget needs
        them.
    doubtful : "auto", "keep" or "drop"
        Whether doubtful rows may be picked: only where the budget needs them, like any other, or never.
    groups : "auto", "keep" or "drop"
        What becomes of a group of rows that lies apart from the others: dropped if it is corrupted for certain, or
        always kept, or always dropped.
    duplicates : "drop" or "keep"
        Whether of several copies only one may be picked.
    relabel : float, optional
        Rows whose suggested label has at least this probability count as rows of that class.

    Examples
    --------
    >>> from gmmatch import Herding
    >>> X = np.repeat(np.eye(3), 50, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((150, 3))
    >>> y = np.repeat([0, 1, 2], 50)
    >>> y[:10] = 2
    >>> int(Herding(k=15, screening=Screening(), random_state=0).select(X, y).mask[:10].sum())
    0
    """

    tolerance: float = 0.01
    doubtful: Literal["auto", "keep", "drop"] = "auto"
    groups: Literal["auto", "keep", "drop"] = "auto"
    duplicates: Literal["drop", "keep"] = "drop"
    relabel: float | None = None

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise InvalidInputError(
                    f"{name}={getattr(self, name)!r}: give {' or '.join(map(repr, known))}."
                )
        for name in ("tolerance", "relabel"):
            if getattr(self, name) is not None:
                check_fraction(getattr(self, name), name)

    def judge(self, problem: Problem, *, n_jobs: int | None = None) -> ScreeningResult:
        """Return the verdicts on the rows, and on their labels if there are any."""
        rows, classes, n = problem.rows, problem.classes, len(problem.rows)
        labels: list[Label] = [] if classes is None else [name for name in classes.labels if name is not None]
        codes = (
            np.full(n, -1) if classes is None else np.where(classes.codes < len(labels), classes.codes, -1)
        )
        # Blocks of rows are spread over threads already; threads of BLAS would compete with them for the same cores.
        with one_blas_thread():
            outliers = find_outliers(rows, codes, len(labels), problem.seed)
            # Bad rows take no part in the evidence, and no class is suggested for them.
            bad = np.isin(outliers.reason, (OUTLIER, OUT_OF_DISTRIBUTION))
            of_labels = judge_labels(
                rows, np.where(bad, -1, codes), labels, problem.request.pred_probs, problem.seed
            )
        verdict, probability, suspicion, suggested, confidence = of_labels.table.T
        if not labels:
            verdict[:] = TRUSTED
        verdict[bad] = WRONG
        reason = np.where(np.isin(verdict, (WRONG, DOUBTFUL)), MISLABELED, NO_REASON)
        reason = np.where(bad | (reason == NO_REASON), outliers.reason, reason)
        if not labels:
            verdict[reason == GROUP] = DOUBTFUL
        # Whatever their labels, bad rows are more suspicious than any other.
        suspicion[bad] = (
            max(float(suspicion.max(initial=0.0)), 0.0) + 1.0 + outliers.score[bad].clip(0.0, 1e6)
        )
        duplicate_of = np.full(n, -1)
        if self.duplicates == "drop":
            duplicate_of = find_duplicates(rows, mask=~bad, n_jobs=n_jobs)
            reason[(reason == NO_REASON) & (duplicate_of >= 0)] = DUPLICATE
        result = ScreeningResult(
            verdict, reason, probability, suspicion, codes, suggested, confidence, duplicate_of, labels,
            of_labels.rate, of_labels.interval, [*of_labels.notes, *outliers.notes],
        )  # fmt: skip
        return result if problem.request.answers is None else calibrate(result, problem.request.answers)

    def apply(self, problem: Problem) -> Problem:
        """Return the problem with the rows to pick from, weighted by trust."""
        result = self.judge(problem)
        problem = replace(problem, screening=result).settle()
        if self.relabel is not None and problem.classes is not None:
            problem = _correct_labels(problem, result, self.relabel)
        kept, trust = self._choose_rows(problem, result)
        problem = replace(problem, weights=problem.weights * np.where(problem.included, 1.0, trust))
        counts = np.bincount(result.verdict_codes[kept & problem.available], minlength=4)
        record = {"summary": result.summary, "doubtful": int(counts[DOUBTFUL]), "wrong": int(counts[WRONG])}
        return problem.restrict(kept | problem.included, screening=record)

    def _choose_rows(self, problem: Problem, result: ScreeningResult) -> tuple[Mask, Vector]:
        """Return the rows to pick from, and how much each is trusted."""
        tiers, suspicion = self._tiers(problem, result), result.suspicion.astype(np.float64)
        trust = 1.0 / (1.0 + np.exp(np.clip(suspicion, -30.0, 30.0)))
        changed = problem.classes is not None and problem.classes.codes != result.given
        tiers[changed & (tiers > 0)], trust[changed] = 0, result.confidence[changed]
        if problem.request.k == ALL_TRUSTED:
            in_doubt = (result.reason_codes == GROUP) & (self.groups == "auto")
            return (tiers == 0) & ~in_doubt, trust
        ignore_labels = problem.classes is not None and problem.request.per_class is None
        pools = problem.classes if problem.classes is not None and ignore_labels else problem.groups
        members_of, quotas = pools.split(problem.available), problem.quotas
        if ignore_labels:
            sizes = np.array([len(members) for members in members_of])
            quotas = -(-quotas.sum() * sizes // max(1, sizes.sum()))
        kept, short = np.zeros(len(tiers), dtype=bool), 0
        for quota, members in zip(quotas.tolist(), members_of, strict=True):
            members = members[np.lexsort((suspicion[members], tiers[members]))]
            least = min(len(members), max(quota, min(_CHOICE * quota, len(members) // 2)))
            good, usable, allowed = np.searchsorted(tiers[members], (0, 1, 3), side="right")
            expected = np.cumsum(1.0 - trust[members][:good]) / np.arange(1, good + 1)
            tolerated = np.searchsorted(expected, self.tolerance, side="right")
            size = min(allowed, max(min(good, max(least, tolerated)), quota))
            kept[members[:size]] = True
            short += max(0, min(quota, size) - usable)
        if short:
            warn_caller(
                GMMatchWarning(
                    f"{short:,} more rows are asked for than can be trusted: doubtful or wrong rows are picked from "
                    "as well, the least suspicious first. k='trusted' picks only rows that can be trusted."
                )
            )
        return kept, trust

    def _tiers(self, problem: Problem, result: ScreeningResult) -> NDArray[np.int8]:
        """Return in which order rows come in: 0 at once, 1 copies, 2 doubtful, 3 wrong, 4 never."""
        wrong, group = result.verdict_codes == WRONG, result.reason_codes == GROUP
        doubtful = (result.verdict_codes == DOUBTFUL) & ~group
        copies = (result.duplicate_of >= 0) & (self.duplicates == "drop")
        last = 4 if self.doubtful == "drop" else 3
        return np.select(
            [wrong, group & (self.groups == "drop"), doubtful & (self.doubtful != "keep"), copies],
            [last, 4, 4 if self.doubtful == "drop" else 2, 1], 0,
        ).astype(np.int8)  # fmt: skip


def _correct_labels(problem: Problem, result: ScreeningResult, min_confidence: float) -> Problem:
    """Return the problem with the suggested labels of rows, and a record of the given ones."""
    assert problem.classes is not None
    changed, codes = relabeled_rows(result, min_confidence), problem.classes.codes.copy()
    codes[changed] = result.suggested_codes[changed]
    record = {
        "rows": np.flatnonzero(changed).tolist(),
        "given": [result.labels[code] for code in result.given[changed]],
        "confidence": result.confidence[changed].astype(float).round(4).tolist(),
    }
    return problem.relabel(codes).add_record(relabeled=record)


_CHOICES = {
    "doubtful": ("auto", "keep", "drop"),
    "groups": ("auto", "keep", "drop"),
    "duplicates": ("drop", "keep"),
}


def screen(
    X: Any,
    y: Any = None,
    *,
    pred_probs: Any = None,
    answers: Any = None,
    groups: Literal["auto", "keep", "drop"] = "auto",
    duplicates: Literal["drop", "keep"] = "drop",
    random_state: RandomState = None,
    engine: Any = None,
    memory_limit: int | None = None,
    n_jobs: int | None = None,
) -> ScreeningResult:
    """Find wrong labels, outliers, corrupted groups and copies.

    Parameters
    ----------
    X : array of shape (n, s), tensor, paths of .npy files, store or Rows
        None with ``pred_probs``: then only labels are judged.
    y : array of shape (n,), optional
        Labels; without them only the rows are judged.
    pred_probs : array of shape (n, K), optional
        Out-of-fold probabilities of your own model, as evidence in place of that of plain learners; columns in the
        order of the sorted labels.
    answers : object array of shape (n,), optional
        The right label of each row that a person has settled, None for others: what :func:`~gmmatch.apply_decisions`
        returns. They are final, and correct what is said of the other rows.
    groups, duplicates
        As in :class:`Screening`.
    random_state : int, Generator or None
    engine, memory_limit, n_jobs
        How it runs; see :func:`~gmmatch.open_rows`.

    Returns
    -------
    ScreeningResult

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((300, 4))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> X[:, 0] += 2 * np.sign(X[:, 0])
    >>> y[:30] = 1 - y[:30]
    >>> result = screen(X, y, random_state=0)
    >>> int(result.trusted[:30].sum()), int(result.trusted[30:].sum())
    (0, 270)
    """
    if X is None and pred_probs is not None:
        X, duplicates = np.zeros((len(pred_probs), 1)), "keep"
    y = per_row_values(X, y, "labels")
    with open_rows(X, engine=engine, memory_limit=memory_limit, n_jobs=n_jobs) as rows:
        problem = Problem.of(
            rows, y, k=1, per_class=None, pred_probs=pred_probs, answers=answers, random_state=random_state
        )
        return Screening(groups=groups, duplicates=duplicates).judge(problem, n_jobs=n_jobs)
