"""The search for a geometric median, wherever the rows are: the caller evaluates the points that it asks for.

References
----------
Walker and Ni (2011), Anderson acceleration for fixed-point iterations, SIAM J. Numer. Anal. 49(4).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Literal, TypeAlias

import numpy as np

from gmmatch.errors import NotFiniteError
from gmmatch.median.passes import Evaluation
from gmmatch.median.result import MedianResult
from gmmatch.types import Vector

Stop = Literal["gap", "step"]

# How many past steps the acceleration looks at.
DEPTH = 6


class AndersonMixer:
    """Anderson's acceleration of a fixed-point iteration z ← z + step(z).

    The last few steps predict where the iteration is heading; the prediction is only used where it does
    better than the plain step, so that the descent of Weiszfeld's iteration is kept.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        # The share of a prediction that is taken. Without it, one that goes too far is made again and again.
        self._trust = 1.0
        self._points: list[Vector] = []
        self._steps: list[Vector] = []

    def forget(self) -> None:
        """Drop the history."""
        self._points.clear()
        self._steps.clear()

    def judge(self, better: bool) -> None:
        """Trust proposals more, or less, after the last one did better than its point, or worse."""
        self._trust = min(1.0, 2.0 * self._trust) if better else 0.25 * self._trust
        if not better:
            self.forget()

    def propose(self, point: Vector, successor: Vector) -> Vector:
        """Return the accelerated successor of ``point``, whose plain one is ``successor``."""
        step = successor - point
        self._points.append(point)
        self._steps.append(step)
        del self._points[: -self.depth - 1]
        del self._steps[: -self.depth - 1]
        if len(self._steps) < 2:
            return successor
        step_changes = np.diff(np.asarray(self._steps), axis=0).T
        point_changes = np.diff(np.asarray(self._points), axis=0).T
        # Columns differ by orders of magnitude as the iteration converges: scale before solving.
        scale = np.linalg.norm(step_changes, axis=0)
        scale[scale == 0.0] = 1.0
        mixing, *_ = np.linalg.lstsq(step_changes / scale, step, rcond=1e-10)
        proposal: Vector = successor - self._trust * ((point_changes + step_changes) @ (mixing / scale))
        return proposal if np.all(np.isfinite(proposal)) else successor


Question: TypeAlias = "Vector | int"
"""What a search asks for: the evaluation of a point, or the row with a number."""

Search: TypeAlias = Generator[Question, "Evaluation | Vector", MedianResult]


def search_median(
    start: Vector,
    *,
    eps: float = 1e-8,
    max_iter: int = 1000,
    stop: Stop = "gap",
    accelerate: bool = True,
    least_share: float = 0.0,
) -> Search:
    """Search for the median from ``start``, wherever the rows may lie.

    A generator that asks and is answered by ``send``: it yields a point to get its
    :class:`~gmmatch.median.passes.Evaluation`, or a row's number to get that row, and returns a
    :class:`~gmmatch.median.MedianResult`. So the same search runs on rows in memory and on rows spread over a
    cluster, and several searches can share their passes.

    Parameters
    ----------
    start : float64 array of shape (s,)
        The first point.
    eps, max_iter, stop, accelerate
        As for :func:`geometric_median`.
    least_share : float
        The nearest row is asked for, to be treated exactly, where it makes up at least this share of
        Σ w/d. Below a hundredth or so that changes little, and asking may be dear.

    Examples
    --------
    >>> from gmmatch.median.passes import evaluate
    >>> from gmmatch.rows.rows import Rows
    >>> rows = Rows(np.array([[0.0], [1.0], [10.0]]))
    >>> search = search_median(np.array([4.0]))
    >>> run_search(search, lambda point: evaluate(rows, np.ones(3), point, 0.0, threads=1), rows.row).point
    array([1.])
    """
    passes = _Passes(least_share)
    best = yield from passes.at(start)
    mixer = AndersonMixer(DEPTH)
    converged = False
    while True:
        step = best.weiszfeld_step()
        converged = _finished(best, step, eps, stop)
        if converged or passes.count >= max_iter:
            break
        row = passes.untested_row(best) if stop == "gap" else -1
        if row >= 0:
            point = yield from _ask_row(row)
            there = yield from passes.at(point)
            if there.objective <= best.objective or there.gap <= eps:
                best = there
                mixer.forget()
            continue
        plain = (yield from passes.next_point(best)) if accelerate else best.point + step
        guess = mixer.propose(best.point, plain) if accelerate else plain
        there = yield from passes.at(guess, may_overflow=accelerate)
        worse = not there.objective <= best.objective * (1.0 + 1e-14)
        mixer.judge(not worse)
        if accelerate and worse:
            if passes.count >= max_iter:
                break
            there = yield from passes.at(plain)
        if stop == "gap" and not np.any(there.point != best.point):
            break  # rounding stopped it: no point in float64 is better
        best = there
    return MedianResult(
        best.point, best.objective, best.gap, passes.count, converged, len(best.distances), best.distances
    )


class _Passes:
    """Counts passes and remembers which rows have been tried as the median."""

    def __init__(self, least_share: float) -> None:
        self.least_share = least_share
        self.count = 0
        self.tried: set[int] = set()

    def at(
        self, point: Vector, may_overflow: bool = False
    ) -> Generator[Question, Evaluation | Vector, Evaluation]:
        self.count += 1
        found = yield point
        if not isinstance(found, Evaluation):
            raise TypeError("a point is answered by its Evaluation.")
        if not (may_overflow or np.isfinite(found.objective)):
            raise NotFiniteError("The rows hold NaN, infinity or a value too large to square.")
        return found

    def next_point(self, here: Evaluation) -> Generator[Question, Evaluation | Vector, Vector]:
        if here.nearest_row < 0:
            return here.proximal_point(here.point)
        if here.nearest_weight < self.least_share * here.nearest_distance * here.inverse_distances:
            return here.point + here.weiszfeld_step()
        nearest = yield from _ask_row(here.nearest_row)
        return here.proximal_point(nearest)

    def untested_row(self, here: Evaluation) -> int:
        """Return the nearest row if it may be the median and was not tried yet, else -1.

        Weiszfeld's iteration creeps towards a row that is the median without ever arriving: the
        certificate has to be evaluated at the row itself.
        """
        if here.nearest_row in self.tried or not here.nearest_row_may_be_median():
            return -1
        self.tried.add(here.nearest_row)
        return here.nearest_row


def _ask_row(number: int) -> Generator[Question, Evaluation | Vector, Vector]:
    row = yield number
    if isinstance(row, Evaluation):
        raise TypeError("a row's number is answered by the row.")
    return row


def _finished(here: Evaluation, step: Vector, eps: float, stop: Stop) -> bool:
    if stop == "step":
        return float(np.linalg.norm(step)) < eps
    return here.gap_without_delta <= eps


def run_search(
    search: Search, evaluate: Callable[[Vector], Evaluation], row: Callable[[int], Vector]
) -> MedianResult:
    """Answer a search's questions until it is done."""
    question = next(search)
    while True:
        try:
            question = search.send(row(question) if isinstance(question, int) else evaluate(question))
        except StopIteration as finished:
            found: MedianResult = finished.value
            return found
