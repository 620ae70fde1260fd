"""Judge the labels of all rows: learn on a sample, apply to the rest block by block."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Matrix, sample_indices, to_numpy
from gmmatch._threads import one_blas_thread
from gmmatch.errors import InvalidInputError, listed
from gmmatch.rows.array import ArrayRows
from gmmatch.rows.base import RowMap, Rows
from gmmatch.screening.evidence import (
    FOLDS,
    Evidence,
    Labels,
    Standardize,
    assign_folds,
    draw_sample,
    read_rows,
    soften,
)
from gmmatch.screening.learners import GivenProbabilities, Learner, make_learners
from gmmatch.screening.posterior import Explanation, explain
from gmmatch.screening.result import NOT_JUDGED, TRUSTED, WRONG
from gmmatch.screening.verdict import Rule

# Rows that quantiles and principal components are computed from.
_STATISTICS_ROWS = 4_000


@dataclass(eq=False)
class LabelVerdicts:
    """What is said of the labels.

    Attributes
    ----------
    table : float32 array of shape (n, 5)
        The verdict on each row, as :meth:`Rule.judge` returns it.
    rate, interval : float and (low, high), optional
        The share of wrong labels; None if no row was judged.
    notes : list of str
    """

    table: NDArray[np.float32]
    rate: float | None = None
    interval: tuple[float, float] | None = None
    notes: list[str] = field(default_factory=list)


def judge_labels(
    rows: Rows, codes: Indices, names: list[Any], pred_probs: Matrix | None, seed: int
) -> LabelVerdicts:
    """Return verdicts on the labels of all rows; rows with a code of -1 have none, and are not judged.

    Parameters
    ----------
    rows : Rows
    codes : int64 array of shape (n,)
    names : list of length K
        The labels.
    pred_probs : array of shape (n, K), optional
    seed : int
    """
    out = LabelVerdicts(np.tile(np.array([NOT_JUDGED, 0, 0, -1, 0], dtype=np.float32), (len(codes), 1)))
    if not names:
        return out
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    classes, small = np.flatnonzero(counts >= FOLDS), np.flatnonzero((counts < FOLDS) & (counts > 0))
    if len(classes) < 2:
        out.notes.append(f"Labels were not judged: that takes two classes of at least {FOLDS} rows each.")
        return out
    if len(small):
        out.notes.append(
            f"Classes of fewer than {FOLDS} rows were not judged: {listed([names[c] for c in small], 5)}."
        )
    number = np.full(len(names) + 1, -1)
    number[classes] = np.arange(len(classes))
    known = number[codes]
    random = np.random.default_rng(seed)
    sample = draw_sample(known, random)
    folds = assign_folds(known[sample], random)
    learners: list[Learner]
    if pred_probs is None:
        prepare: RowMap = Standardize.fit(rows.take(sample[sample_indices(len(sample), _STATISTICS_ROWS)]))
        learners = make_learners(read_rows(rows, prepare, sample), folds, len(classes), random)
    else:
        if pred_probs.shape[1] != len(names):
            raise InvalidInputError(
                f"pred_probs has {pred_probs.shape[1]} columns for {len(names)} classes: give one for each, in the "
                "order of the sorted labels."
            )
        rows, prepare = ArrayRows(pred_probs), partial(np.take, indices=classes, axis=1)
        learners = [GivenProbabilities(read_rows(rows, prepare, sample), folds, len(classes))]
    evidence = Evidence(learners, known[sample])
    explanation, posterior = explain(evidence, seed)
    rule = Rule.of(posterior)
    out.table[sample] = rule.judge(posterior)
    others = known >= 0
    others[sample] = False
    if others.any():
        judge = RowJudge(prepare, evidence, explanation, rule)
        np.copyto(out.table, rows.map_blocks(judge, per_row=(known, others)), where=others[:, None])
    verdicts = out.table[known >= 0]
    verdicts[:, 3] = classes[verdicts[:, 3].astype(np.int64)]
    out.rate, out.interval = estimate_rate(verdicts[:, 0], verdicts[:, 1])
    # A row that was not judged is as suspicious as most.
    out.table[:, 1:3] = out.rate, np.median(verdicts[:, 2])
    if not explanation.informed:
        # Trust needs evidence.
        verdicts[verdicts[:, 0] == TRUSTED, 0] = NOT_JUDGED
        out.notes.append("The rows hardly predict the labels, so that most labels cannot be judged.")
    out.table[known >= 0] = verdicts
    return out


def estimate_rate(verdict: NDArray[Any], probability: NDArray[Any]) -> tuple[float, tuple[float, float]]:
    """Return the rate and its interval: from what is certainly wrong to what may be, by two standard errors."""
    n, rate = len(verdict), float(probability.mean(dtype=np.float64))
    margin = 2.0 * float(np.sqrt(max(rate * (1.0 - rate), 1 / n) / n))
    low = min(float((verdict == WRONG).mean()), rate) - margin
    high = max(float((verdict != TRUSTED).mean()), rate) + margin
    return rate, (max(0.0, low), min(1.0, high))


class RowJudge:
    """Judges rows outside of the sample: learners fitted to all of the sample, and the explanation found there."""

    def __init__(self, prepare: RowMap, evidence: Evidence, explanation: Explanation, rule: Rule) -> None:
        self.prepare, self.explanation, self.rule = prepare, explanation, rule
        self.learners = evidence.learners
        self.models = [learner.fit(evidence.labels.given) for learner in self.learners]
        drawn = explanation.drawn
        self.refitted = [] if drawn is None else [learner.fit(drawn) for learner in self.learners]

    def __call__(self, block: Any, given: Any, wanted: Any) -> NDArray[np.float32]:
        """Return the verdicts on the wanted rows of a block; 0 for the others."""
        given, wanted = to_numpy(given), to_numpy(wanted)
        table = np.zeros((len(given), 5), dtype=np.float32)
        if wanted.any():
            with one_blas_thread():
                values, given = to_numpy(self.prepare(block[wanted])), given[wanted]
                prepared = [learner.prepare(values) for learner in self.learners]
                first = [soften(model(rows)) for model, rows in zip(self.models, prepared, strict=True)]
                labels = Labels.of(given, first[0])
                scores = np.stack([labels.select(log_p) for log_p in first])
                second = [
                    labels.select(soften(model(rows)))
                    for model, rows in zip(self.refitted, prepared, strict=False)
                ]
                table[wanted] = self.rule.judge(self.explanation.apply(scores, np.array(second), labels))
        return table
