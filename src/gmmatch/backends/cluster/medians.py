"""Geometric medians of several classes at once, of rows that are spread over workers.

Every class has a search of its own (:func:`~gmmatch.median.search.search_median`); all of them share each pass
over the rows. To a worker goes one point per class, and from it come the sums of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gmmatch.backends.cluster import worker as parts
from gmmatch.backends.cluster.rows import Cluster
from gmmatch.median.passes import Evaluation, add_sums, mean_of_sums
from gmmatch.median.result import MedianResult, Spread
from gmmatch.median.search import Question, search_median
from gmmatch.median.weiszfeld import SAMPLE_START_FROM
from gmmatch.types import Vector

# A nearest row with less than this share of Σ 1/d is not fetched to be treated exactly.
_LEAST_SHARE = 0.01


def class_means(cluster: Cluster, classes: Sequence[int], *, sample: bool = False) -> dict[int, Vector]:
    """Return the mean of each of some classes."""
    if not classes:
        return {}
    sums = cluster.combined("sums", add_sums, np.array(classes, dtype=np.int64), sample)
    return dict(zip(classes, mean_of_sums(sums), strict=True))


def class_medians(
    cluster: Cluster,
    sizes: dict[int, int],
    *,
    eps: float,
    max_iter: int,
    delta: float = 0.0,
) -> dict[int, MedianResult]:
    """Return the geometric median of each class."""
    large = [number for number, size in sizes.items() if size >= SAMPLE_START_FROM]
    small = [number for number in sizes if number not in set(large)]
    starts = class_means(cluster, small)
    begun = _search(
        cluster,
        class_means(cluster, large, sample=True),
        eps=max(eps, 1e-4),
        max_iter=max_iter,
        delta=delta,
        sample=True,
    )
    starts |= {number: found.point for number, found in begun.items()}
    return _search(cluster, starts, eps=eps, max_iter=max_iter, delta=delta, sample=False)


@np.errstate(over="ignore", invalid="ignore")
def _search(
    cluster: Cluster, starts: dict[int, Vector], *, eps: float, max_iter: int, delta: float, sample: bool
) -> dict[int, MedianResult]:
    """Run the searches of all classes side by side; one that is done drops out of the passes."""
    searches = {
        number: search_median(point, eps=eps, max_iter=max_iter, least_share=_LEAST_SHARE)
        for number, point in sorted(starts.items())
    }
    found: dict[int, MedianResult] = {}
    questions: dict[int, Question] = {number: next(search) for number, search in searches.items()}
    known: dict[int, Vector] = {}

    def answer(number: int, value: Evaluation | Vector) -> None:
        try:
            questions[number] = searches[number].send(value)
        except StopIteration as finished:
            found[number] = finished.value
            del questions[number]

    while questions:
        for number, row in _rows_for(cluster, questions, known).items():
            answer(number, row)
        points = {number: asked for number, asked in questions.items() if not isinstance(asked, int)}
        if len(points) < len(questions) or not points:
            continue
        for number, here in _evaluate(cluster, points, delta, sample).items():
            answer(number, here)
        cluster.progress("median", len(found), len(searches))
    return found


def _rows_for(
    cluster: Cluster, questions: dict[int, Question], known: dict[int, Vector]
) -> dict[int, Vector]:
    """Return the rows that searches ask for, fetched together; those of earlier questions are known."""
    asked = {number: row for number, row in questions.items() if isinstance(row, int)}
    missing = np.array(sorted({row for row in asked.values() if row not in known}), dtype=np.int64)
    if len(missing):
        fetched = cluster.rows(missing).astype(np.float64)
        known.update(zip(missing.tolist(), fetched, strict=True))
    return {number: known[row] for number, row in asked.items()}


def _evaluate(
    cluster: Cluster, points: dict[int, Vector], delta: float, sample: bool
) -> dict[int, Evaluation]:
    s = cluster.n_features
    request = np.array([[number, delta, *point] for number, point in points.items()])
    sums = cluster.combined("evaluate", parts.combine_evaluations, request, sample)
    out = {}
    for (number, point), row in zip(points.items(), sums, strict=True):
        count = float(row[s + parts.COUNT])
        out[number] = Evaluation.of_sums(
            point, row[:s].copy(), row[s:], count, int(count), np.empty(0), delta
        )
    return out


def class_spreads(cluster: Cluster, points: dict[int, Vector]) -> dict[int, Spread]:
    """Return how far each class's rows lie from a point; positions are row numbers, the median is good to a tenth."""
    scales = {
        number: here.objective / here.total_weight or 1.0
        for number, here in _evaluate(cluster, points, 0.0, sample=False).items()
    }
    request = np.array([[number, scales[number], *point] for number, point in points.items()])
    answers = cluster.placement.call("distances", request)
    bins = sum(answer[2] for answer in answers)
    out = {}
    for place, number in enumerate(points):
        best = max(answers, key=lambda answer: float(answer[0][place]))  # the first of equals
        reached = np.cumsum(bins[place])
        middle = int(np.searchsorted(reached, (reached[-1] + 1) // 2))
        typical = 2.0 ** ((middle + 0.5 - parts.N_BINS // 2) / parts.BINS_PER_OCTAVE) if middle else 0.0
        out[number] = Spread(float(best[0][place]), int(best[1][place]), float(typical) * scales[number])
    return out
