"""The search for geometric medians: of all groups at once, wherever the rows are.

The search proposes a point for every group (``ask``), the caller evaluates all of them in one pass over the rows, and
the search takes note of the outcome (``tell``). A proposal may be anything: an accelerated step, or a row that may be
the median. It is kept only where it lowers the objective; otherwise the next proposal is Weiszfeld's step, which
always does. The state is kept in the namespace and on the device of the points that the search starts from.

References
----------
Vardi and Zhang (2000), The multivariate L1-median and associated data depth, PNAS 97(4).
Walker and Ni (2011), Anderson acceleration for fixed-point iterations, SIAM J. Numer. Anal. 49(4).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from gmmatch._array import Indices, Mask, Matrix, Vector, array_namespace, device, to_numpy
from gmmatch.median.compiled import (
    COINCIDENT,
    COUNT,
    DISTANCE,
    INVERSE,
    NEAREST_WEIGHT,
    NUMBER,
    OBJECTIVE,
    WEIGHT,
)

# Unit roundoff of float64.
ROUNDOFF = 2.0**-53
# How many past steps the acceleration uses; one where the history of all groups would need more bytes than this.
DEPTH = 5
_HISTORY_BYTES = 1 << 28
# A row is tested as the median if the pull of the others, judged from nearby, is at most this many times its weight.
_LARGEST_PULL = 3.0


@dataclass(frozen=True, eq=False)
class Medians:
    """The geometric medians of G groups, each with a certificate.

    Attributes
    ----------
    points : array of shape (G, s)
    objectives : array of shape (G,)
        ρ = Σ w ‖x − point‖ over the rows of the group.
    gaps : array of shape (G,)
        Certified: ρ(point) ≤ (1 + gap) · (smallest possible ρ).
    iterations : int64 array of shape (G,)
        How many points were evaluated.
    converged : boolean array of shape (G,)
        Whether the gap that was asked for was reached.
    """

    points: Matrix
    objectives: Vector
    gaps: Vector
    iterations: Indices
    converged: Mask


@dataclass
class Evaluations:
    """A point z for each of A groups, and its terms, as in :func:`~gmmatch.median.terms.weiszfeld_terms`.

    With δ > 0 the objective is smooth: a row at z is like any other, and no row can be the median. ``smoothing`` is
    what δ adds to the bound on the subgradient.
    """

    points: Any
    terms: Any
    smoothing: Any

    @classmethod
    def of(cls, points: Any, terms: Any, delta: float) -> Evaluations:
        """Account for δ in the terms."""
        smoothing = array_namespace(terms).zeros_like(terms[:, 0])
        if delta > 0.0:
            smoothing = delta * terms[:, INVERSE] - terms[:, COINCIDENT]
            terms[:, INVERSE] += terms[:, COINCIDENT] / delta
            terms[:, COINCIDENT], terms[:, NUMBER] = 0.0, -1.0
        return cls(points, terms, smoothing)

    def __getitem__(self, index: Any) -> Evaluations:
        return Evaluations(self.points[index], self.terms[index], self.smoothing[index])

    def __setitem__(self, index: Any, new: Evaluations) -> None:
        self.points[index], self.terms[index], self.smoothing[index] = new.points, new.terms, new.smoothing

    def where(self, mask: Any, other: Evaluations) -> Evaluations:
        """Return these points where ``mask`` holds, and those of ``other`` elsewhere."""
        xp, rows = array_namespace(self.terms), mask[:, None]
        return Evaluations(
            xp.where(rows, self.points, other.points),
            xp.where(rows, self.terms, other.terms),
            xp.where(mask, self.smoothing, other.smoothing),
        )

    @property
    def gradient(self) -> Any:
        """Minus the gradient at each point, without the rows that are there."""
        return self.terms[:, : self.points.shape[1]]

    @property
    def nearest(self) -> Any:
        """The row nearest to each point."""
        return self.terms[:, self.points.shape[1] : 2 * self.points.shape[1]]

    def gaps(self, *, with_delta: bool = True) -> Any:
        """Return the certified relative gaps: ρ(z) ≤ (1 + gap) ρ(best).

        With q the norm of the least subgradient per weight, ρ(z) − ρ* ≤ q W ‖z − z*‖ by convexity, and
        W ‖z − z*‖ ≤ ρ(z) + ρ* by the triangle inequality: together ρ(z) / ρ* ≤ (1 + q) / (1 − q). A bound on rounding
        is added to q, so that the certificate holds for the exact sums. ``with_delta=False`` leaves out what δ adds,
        which no step can lower.
        """
        xp, terms, smoothing = array_namespace(self.terms), self.terms, self.smoothing
        if not with_delta:
            smoothing = xp.where(smoothing > 0.0, 0.0, smoothing)
        excess = xp.linalg.vector_norm(self.gradient, axis=1) + smoothing - terms[:, COINCIDENT]
        rounding = ROUNDOFF * (16.0 + self.points.shape[1] + 4.0 * xp.sqrt(terms[:, COUNT]))
        weight = terms[:, WEIGHT]
        q = xp.where(excess < 0.0, 0.0, excess) / xp.where(weight > 0.0, weight, 1.0) + rounding
        gaps = xp.where(q < 1.0, 2.0 * q / xp.where(q < 1.0, 1.0 - q, 1.0), xp.inf)
        return xp.where(terms[:, OBJECTIVE] == 0.0, 0.0, gaps)

    def weiszfeld_points(self) -> Any:
        """Return the next points by Vardi and Zhang's rule: a row at z holds it back by its weight."""
        xp, gradient, inverse = array_namespace(self.terms), self.gradient, self.terms[:, INVERSE]
        norm = xp.linalg.vector_norm(gradient, axis=1)
        freedom = 1.0 - self.terms[:, COINCIDENT] / xp.where(norm > 0.0, norm, 1.0)
        freedom = xp.where(freedom < 0.0, 0.0, freedom)
        return self.points + gradient * (freedom / xp.where(inverse > 0.0, inverse, 1.0))[:, None]

    def proximal_points(self) -> Any:
        """Return Weiszfeld's next points with the nearest row treated exactly.

        Weiszfeld replaces every ‖z − x‖ by a parabola through z. For a row very close by it is so steep that z hardly
        moves. Here the nearest row keeps its cone: the next point minimizes w ‖z − x‖ + (a/2) ‖z − t‖² with t the
        Weiszfeld point of the other rows and a = Σ w/d over them.
        """
        xp, weight = array_namespace(self.terms), self.terms[:, NEAREST_WEIGHT]
        has_nearest, from_row, pull = self._leave_nearest()
        lands = pull <= weight
        share = xp.where(lands, 0.0, 1.0 - weight / xp.where(lands, 1.0, pull))
        return xp.where(
            has_nearest[:, None], self.nearest + from_row * share[:, None], self.weiszfeld_points()
        )

    def _leave_nearest(self) -> tuple[Any, Any, Any]:
        """Return what pulls the median away from the nearest row x.

        Whether there is one, and z is not at another; the way from it to the Weiszfeld point t of the others; and
        their pull, a ‖t − x‖.
        """
        xp, terms = array_namespace(self.terms), self.terms
        has_nearest = (terms[:, NUMBER] >= 0.0) & (terms[:, COINCIDENT] == 0.0)
        inverse = terms[:, INVERSE]
        steep = terms[:, NEAREST_WEIGHT] / xp.where(has_nearest, terms[:, DISTANCE], 1.0)
        curvature = inverse - steep
        flat = curvature <= 1e-12 * inverse
        curvature = xp.where(flat, 1.0, curvature)
        offset = self.nearest - self.points
        from_row = (self.gradient - offset * steep[:, None]) / curvature[:, None] - offset
        pull = xp.where(flat, 0.0, xp.linalg.vector_norm(from_row, axis=1) * curvature)
        return has_nearest, from_row, pull

    def nearest_may_be_median(self) -> Any:
        """Return whether the nearest row may be the median, judged without a pass.

        The pull of the other rows must not exceed its weight there; from here the pull looks larger than it is.
        """
        terms, (has_nearest, _, pull) = self.terms, self._leave_nearest()
        touching = terms[:, DISTANCE] * terms[:, WEIGHT] < 1e-9 * terms[:, OBJECTIVE]
        return has_nearest & (touching | (pull <= _LARGEST_PULL * terms[:, NEAREST_WEIGHT]))


@dataclass
class _State:
    """What the search knows of the groups that are not done, in arrays over these A groups.

    Attributes
    ----------
    best : Evaluations
    tests, falls_back : boolean arrays
        Whether the point proposed is a row that may be the median, or Weiszfeld's own step.
    tested_row : float64 array
        A row is tested once as the median: Weiszfeld's iteration creeps towards such a row and never arrives.
    trust : float64 array
        The share of an accelerated step that is taken, lowered where it went too far.
    n_past : int64 array
        Points in the history; none after a proposal was refused.
    point, step : arrays of shape (A, s)
        The last point in the history, and the step from it.
    point_changes, step_changes : arrays of shape (A, depth, s)
        The last changes, in a ring.
    gram : array of shape (A, depth, depth)
        Products of the changes of steps.
    """

    best: Evaluations
    tests: Any
    falls_back: Any
    tested_row: Any
    trust: Any
    n_past: Any
    point: Any
    step: Any
    point_changes: Any
    step_changes: Any
    gram: Any

    @classmethod
    def of(cls, best: Evaluations, depth: int) -> _State:
        """Begin with the first evaluations."""
        xp, (n, s) = array_namespace(best.points), best.points.shape
        make = partial(xp.zeros, device=device(best.points))
        tests, falls_back = make(n, dtype=xp.bool), make(n, dtype=xp.bool)
        shapes = (n, s), (n, s), (n, depth, s), (n, depth, s), (n, depth, depth)
        history = (make(shape, dtype=xp.float64) for shape in shapes)
        ones = make(n, dtype=xp.float64) + 1.0
        return cls(best, tests, falls_back, -ones, ones, make(n, dtype=xp.int64), *history)


class MedianSearch:
    """Propose points (``ask``) and take their terms (``tell``) until every group is done.

    Parameters
    ----------
    start : array of shape (G, s)
        NumPy or torch; proposals are of the same kind.
    eps : float
        A group is done at a certified gap of ``eps``.
    max_iter : int
        Most evaluations per group.
    delta : float
        The paper's δ.
    depth : int, optional
        How many past steps the acceleration uses; 5 by default, 1 where these would need more than 256 MB.

    Attributes
    ----------
    active : int64 array of shape (A,)
        The groups that are not done.
    """

    def __init__(
        self, start: Any, *, eps: float, max_iter: int, delta: float, depth: int | None = None
    ) -> None:
        n_groups, s = start.shape
        fits = 2 * (DEPTH + 1) * n_groups * s * 8 <= _HISTORY_BYTES
        self.eps, self.max_iter, self.delta = eps, max_iter, delta
        self.depth = depth or (DEPTH if fits else 1)
        self._xp = xp = array_namespace(start)
        self._proposed, self._n_told = start, 0
        self.active = xp.arange(n_groups, device=device(start))
        self._iterations = xp.zeros_like(self.active)
        self._converged = xp.zeros_like(self.active, dtype=xp.bool)

    def ask(self) -> Any:
        """Return the point to evaluate for each active group, shape (A, s)."""
        if not self._n_told:
            return self._proposed
        xp, state, best = self._xp, self._state, self._state.best
        number = best.terms[:, NUMBER]
        state.tests = best.nearest_may_be_median() & (number != state.tested_row) & ~state.falls_back
        state.tested_row = xp.where(state.tests, number, state.tested_row)
        steps = ~(state.tests | state.falls_back)
        self._only_steps = bool(xp.all(steps))
        if self._only_steps:
            self._proposed = self._accelerate(slice(None))
        else:
            self._proposed = xp.where(state.tests[:, None], best.nearest, best.weiszfeld_points())
            if bool(xp.any(steps)):
                groups = xp.nonzero(steps)[0]
                self._proposed[groups] = self._accelerate(groups)
        return self._proposed

    def tell(self, terms: Any) -> None:
        """Take the terms of the points that were asked for, shape (A, 2 s + 8)."""
        xp, new = self._xp, Evaluations.of(self._proposed, terms, self.delta)
        self._n_told += 1
        if self._n_told == 1:
            self._final, self._state = new, _State.of(new, self.depth)
            stalled = xp.zeros_like(self._converged)
        else:
            state, best = self._state, self._state.best
            tests, falls_back, limit = state.tests, state.falls_back, best.terms[:, OBJECTIVE]
            # A proposal that overflowed has an objective of NaN or infinity, and is not better.
            better = new.terms[:, OBJECTIVE] <= xp.where(tests, limit, limit * (1.0 + 1e-14))
            if not self._only_steps:
                better |= tests & (new.gaps() <= self.eps)
            # With δ, Weiszfeld's step descends a smoothed objective, not ρ.
            if self.delta > 0.0:
                better |= falls_back
            # Where Weiszfeld's own step stands still or does not descend, rounding has stopped it.
            still = xp.all(new.points == best.points, axis=1)
            stalled = ~tests & xp.where(better, still, falls_back)
            state.best = new if bool(xp.all(better)) else new.where(better, best)
            state.falls_back = refused = ~tests & ~better
            raised = xp.where(state.trust < 0.5, 2.0 * state.trust, 1.0)
            state.trust = xp.where(refused, state.trust / 4.0, xp.where(tests, state.trust, raised))
            state.n_past = xp.where(refused | (tests & better), 0, state.n_past)
        best = self._state.best
        converged = best.gaps(with_delta=False) <= self.eps
        done = converged | stalled | (self._n_told >= self.max_iter)
        self._iterations[self.active], self._converged[self.active] = self._n_told, converged
        if bool(xp.any(done)):
            self._final[self.active[done]] = best[done]
            self.active = self.active[~done]
            self._state = _State(*(values[~done] for values in vars(self._state).values()))

    def result(self) -> Medians:
        """Return the best point of every group, in main memory."""
        final = self._final
        if self._state.best is not final:
            final[self.active] = self._state.best
        values = final.points, final.terms[:, OBJECTIVE], final.gaps(), self._iterations, self._converged
        return Medians(*map(to_numpy, values))

    def _accelerate(self, groups: Any) -> Any:
        """Return Anderson's extrapolation of the last steps from a point to its ``proximal_points``."""
        xp, state, best = self._xp, self._state, self._state.best[groups]
        successors = best.proximal_points()
        steps = successors - best.points
        n_past = state.n_past[groups]
        # The oldest change makes room for the newest one.
        each = xp.arange(len(state.n_past), device=device(steps))[groups]
        oldest = (n_past - 1) % self.depth
        step_change = steps - state.step[groups]
        state.point_changes[each, oldest] = best.points - state.point[groups]
        state.step_changes[each, oldest] = step_change
        state.point[groups], state.step[groups], state.n_past[groups] = best.points, steps, n_past + 1
        step_changes = state.step_changes[groups]
        products = step_changes @ xp.stack([step_change, steps], axis=2)
        state.gram[each, oldest] = products[:, :, 0]
        state.gram[each, :, oldest] = products[:, :, 0]
        # Entries from before the start, or before the history was dropped, take no part. Changes differ by orders of
        # magnitude as the iteration converges: they are scaled before solving.
        gram = state.gram[groups]
        present = xp.arange(self.depth, device=device(steps)) < n_past[:, None]
        squares = xp.where(present, xp.linalg.diagonal(gram), 0.0)
        inverse_scale = xp.where(squares > 0.0, 1.0 / xp.sqrt(xp.where(squares > 0.0, squares, 1.0)), 0.0)
        mixing = products[:, :, 1] * inverse_scale
        if self.depth > 1:
            # The least solution of a system that may be singular.
            scaled = gram * inverse_scale[:, :, None] * inverse_scale[:, None, :]
            values, vectors = xp.linalg.eigh(scaled)
            large = values > 1e-12 * values[:, -1:]
            inverse = xp.where(large, 1.0 / xp.where(large, values, 1.0), 0.0)
            along = inverse[:, :, None] * (xp.matrix_transpose(vectors) @ mixing[:, :, None])
            mixing = (vectors @ along)[:, :, 0]
        mixing = (state.trust[groups][:, None] * mixing * inverse_scale)[:, None, :]
        change = mixing @ state.point_changes[groups] + mixing @ step_changes
        proposal = successors - change[:, 0]
        return xp.where(xp.isfinite(proposal), proposal, successors)
