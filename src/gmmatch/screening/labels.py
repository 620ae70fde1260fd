"""Judge the labels of all rows: learn on a sample, apply to the rest block by block."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Matrix, Vector, sample_indices, to_numpy
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
from gmmatch.screening.verdict import Rule, Verdicts

# Rows that quantiles and principal components are computed from.
_STATISTICS_ROWS = 4_000


@dataclass(eq=False)
class LabelVerdicts:
    """What is said of the labels: arrays of shape (n,), and of all together."""

    verdict: NDArray[np.int8]
    probability: Vector
    suspicion: Vector
    suggested: Indices
    confidence: Vector
    rate: float | None = None
    interval: tuple[float, float] | None = None
    notes: list[str] = field(default_factory=list)

    def put(self, rows: Any, verdicts: Verdicts, classes: Indices) -> None:
        """Enter the verdicts on some rows; ``classes`` translates class numbers."""
        self.verdict[rows], self.probability[rows] = verdicts.verdict, verdicts.probability
        self.suspicion[rows], self.confidence[rows] = verdicts.suspicion, verdicts.confidence
        self.suggested[rows] = classes[verdicts.suggested]

    def summarize(self) -> None:
        """Compute the rate and the interval: from what is certainly wrong to what may be, by two standard errors."""
        is_judged = self.verdict != NOT_JUDGED
        n, probability, verdict = int(is_judged.sum()), self.probability[is_judged], self.verdict[is_judged]
        self.rate = float(probability.mean())
        margin = 2.0 * float(np.sqrt(max(self.rate * (1.0 - self.rate), 1 / n) / n))
        low = min(float((verdict == WRONG).mean()), self.rate) - margin
        high = max(float((verdict != TRUSTED).mean()), self.rate) + margin
        self.interval = max(0.0, low), min(1.0, high)
        self.probability[~is_judged] = self.rate
        self.suspicion[~is_judged] = np.median(self.suspicion[is_judged])


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
    n, zeros = len(codes), np.zeros(len(codes))
    out = LabelVerdicts(np.full(n, NOT_JUDGED, np.int8), zeros, zeros.copy(), np.full(n, -1), zeros.copy())
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
    sample = draw_sample(known, len(classes), random)
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
        rows, prepare = ArrayRows(pred_probs), ChooseClasses(classes)
        learners = [GivenProbabilities(read_rows(rows, prepare, sample), folds, len(classes))]
    evidence = Evidence(learners, known[sample])
    explanation, posterior = explain(evidence, seed)
    rule = Rule.of(posterior)
    out.put(sample, rule.judge(posterior), classes)
    others = known >= 0
    others[sample] = False
    if others.any():
        judge = RowJudge(prepare, evidence, explanation, rule)
        table = rows.map_blocks(judge_block, judge, per_row=(known, others))[others]
        verdict, probability, suspicion, suggested, confidence = table.T
        verdicts = Verdicts(
            verdict.astype(np.int8), probability, suspicion, suggested.astype(np.int64), confidence
        )
        out.put(others, verdicts, classes)
    out.summarize()
    if not explanation.informed:
        # Trust needs evidence.
        out.verdict[out.verdict == TRUSTED] = NOT_JUDGED
        out.notes.append("The rows hardly predict the labels, so that most labels cannot be judged.")
    return out


@dataclass(frozen=True, eq=False)
class ChooseClasses:
    """The map of rows of ``pred_probs`` to the columns of the classes that are judged."""

    classes: Indices

    def __call__(self, block: Any) -> Any:
        """Return positive numbers, so that they have logarithms."""
        return (block[:, self.classes] + 1e-12).astype(np.float32)


class RowJudge:
    """Judges rows outside of the sample: learners fitted to all of the sample, and the explanation found there."""

    def __init__(self, prepare: RowMap, evidence: Evidence, explanation: Explanation, rule: Rule) -> None:
        self.prepare, self.explanation, self.rule = prepare, explanation, rule
        self.models = [learner.fit(evidence.labels.given) for learner in evidence.learners]
        drawn = explanation.drawn
        self.refitted = [] if drawn is None else [learner.fit(drawn) for learner in evidence.learners]

    def __call__(self, block: Any, given: Indices) -> Verdicts:
        """Return the verdicts on a block of rows."""
        values = to_numpy(self.prepare(block))
        first = [soften(model(values)) for model in self.models]
        labels = Labels.of(given, first[0])
        scores = np.stack([labels.select(log_p) for log_p in first])
        second = [labels.select(soften(model(values))) for model in self.refitted]
        return self.rule.judge(self.explanation.apply(scores, np.array(second), labels))


def judge_block(block: Any, given: Any, wanted: Any, judge: RowJudge) -> NDArray[np.float64]:
    """Return verdict, probability, suspicion, suggested class and confidence of the wanted rows of a block."""
    given, wanted = to_numpy(given), to_numpy(wanted)
    table = np.zeros((len(given), 5))
    if wanted.any():
        with one_blas_thread():
            verdicts = judge(block[wanted], given[wanted])
        table[wanted] = np.stack(list(vars(verdicts).values()), axis=1)
    return table
