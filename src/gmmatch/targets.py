"""Targets: the points that the picks of each group approach. Small objects that carry their own options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Matrix, Vector
from gmmatch._checks import check_fraction, check_number, check_sample_weight, check_whole_number, warn_caller
from gmmatch.errors import ConvergenceWarning
from gmmatch.groups import describe_group
from gmmatch.problem import Problem
from gmmatch.rows import open_rows
from gmmatch.rows.open import check_finite

# Numbers that the coordinate-wise median holds at a time.
_COLUMN_ELEMENTS = 1 << 24


@dataclass(frozen=True, eq=False)
class Targets:
    """One point for each group.

    Attributes
    ----------
    points : array of shape (G, s)
    details : dict of arrays of shape (G,)
        How they were computed, for the provenance.
    """

    points: Matrix
    details: dict[str, NDArray[Any]] = field(default_factory=dict)

    def measure_residuals(self, problem: Problem, picks: Indices, owners: Indices) -> Vector:
        """Return ‖target − mean so far‖ after each pick; picks and their groups come group after group."""
        return problem.rows.measure_residuals(self.points, picks, owners)

    def locate(self, problem: Problem, group: int, rows: Indices) -> tuple[Matrix, Vector]:
        """Return coordinates of some rows of a group, and of its target."""
        return problem.rows.take(rows), self.points[group]

    def scale_to_unit(self) -> Targets:
        """Return the targets at length 1, as the code of the paper's authors has them; zero stays zero."""
        norms = np.linalg.norm(self.points, axis=1, keepdims=True)
        return Targets(self.points / np.where(norms > 0.0, norms, 1.0), self.details)


class Target(Protocol):
    """What computes the targets of a problem."""

    def compute(self, problem: Problem) -> Targets:
        """Return the target of each group."""
        ...


@dataclass(frozen=True)
class Mean:
    """The weighted mean: a single corrupted row can move it anywhere.

    Parameters
    ----------
    unit : bool
        Whether to scale it to unit length.

    Examples
    --------
    >>> from gmmatch import Easy
    >>> Easy(k=1, center=Mean()).select([[0.0], [1.0], [10.0]]).indices
    array([1])
    """

    unit: bool = False

    def compute(self, problem: Problem) -> Targets:
        """Return the mean of each group."""
        groups = problem.groups
        targets = Targets(problem.rows.group_means(groups.codes, problem.weights, len(groups)))
        return targets.scale_to_unit() if self.unit else targets


@dataclass(frozen=True)
class GeometricMedian:
    """The geometric median: bounded while less than half of the weight is corrupted.

    Parameters
    ----------
    eps : float
        The certified relative gap to reach.
    max_iter : int
        Most passes over the rows.
    delta : float
        The paper's δ, added to each distance before it is inverted; not needed here.
    fraction : float
        The paper's γ: the share of the rows, drawn at random, that the median is computed from.
    unit : bool
        Whether to scale it to unit length.

    Examples
    --------
    >>> from gmmatch import Easy
    >>> Easy(k=1, center=GeometricMedian(eps=1e-6)).select([[0.0], [1.0], [90.0]]).indices
    array([1])
    """

    eps: float = 1e-8
    max_iter: int = 1000
    delta: float = 0.0
    fraction: float = 1.0
    unit: bool = False

    def __post_init__(self) -> None:
        check_fraction(self.fraction, "fraction")
        check_number(self.eps, "eps")
        check_number(self.delta, "delta")
        check_whole_number(self.max_iter, "max_iter")

    def compute(self, problem: Problem) -> Targets:
        """Return the geometric median of each group."""
        groups = problem.groups
        weights = problem.weights if self.fraction == 1.0 else self._sample(problem)
        medians = problem.rows.group_medians(
            groups.codes, weights, len(groups), eps=self.eps, max_iter=self.max_iter, delta=self.delta
        )
        details = {"gap": medians.gaps, "iterations": medians.iterations, "converged": medians.converged}
        _warn_of_gaps(self.eps, medians.gaps, medians.converged, groups.labels)
        targets = Targets(medians.points, details)
        return targets.scale_to_unit() if self.unit else targets

    def _sample(self, problem: Problem) -> Vector:
        """Return the weights, 0 for rows that are not drawn."""
        drawn = np.zeros_like(problem.weights)
        for group, rows in enumerate(problem.groups.split(problem.weights > 0.0)):
            count = min(len(rows), max(1, int(np.floor(self.fraction * len(rows) + 0.5))))
            drawn[problem.generator(group).choice(rows, size=count, replace=False)] = 1.0
        return problem.weights * drawn


@dataclass(frozen=True)
class CoordinateMedian:
    """The weighted median of each column on its own; it depends on the axes.

    Examples
    --------
    >>> from gmmatch import Easy
    >>> Easy(k=1, center=CoordinateMedian()).select([[0.0], [1.0], [10.0]]).indices
    array([1])
    """

    def compute(self, problem: Problem) -> Targets:
        """Return the coordinate-wise median of each group, a few columns at a time."""
        rows, groups = problem.rows, problem.groups
        points = np.zeros((len(groups), rows.n_features))
        width = max(1, _COLUMN_ELEMENTS // len(rows))
        for first in range(0, rows.n_features, width):
            columns = rows.map_blocks(_select_columns, first, first + width).astype(np.float64)
            for group, members in enumerate(groups.split(problem.weights > 0.0)):
                low, high = middle_values(columns[members], problem.weights[members])
                points[group, first : first + width] = 0.5 * (low + high)
        return Targets(points)


def compute_targets(target: Target, problem: Problem) -> Targets:
    """Return the target of each group: of its own rows, of the reference rows, or a mixture of both."""
    reference = problem.reference
    if reference is None:
        return target.compute(problem)
    given = target.compute(reference.problem)
    points = given.points[reference.groups]
    details = {name: values[reference.groups] for name, values in given.details.items()}
    if reference.weight < 1.0:
        points = (1.0 - reference.weight) * target.compute(problem).points + reference.weight * points
    return Targets(points, details)


def _warn_of_gaps(eps: float, gaps: Vector, converged: NDArray[Any], labels: list[Any]) -> None:
    missed = np.flatnonzero(~converged)
    if len(missed):
        group = "" if labels[missed[0]] is None else f" of {describe_group(labels[missed[0]])}"
        others = f" The same holds for {len(missed) - 1:,} more classes." if len(missed) > 1 else ""
        warn_caller(
            ConvergenceWarning(
                f"The geometric median{group} stopped at a certified gap of {gaps[missed[0]]:.1e}, not "
                f"eps={eps:.1e}: raise max_iter or eps.{others}"
            )
        )


def _select_columns(block: Any, first: int, stop: int) -> Any:
    return block[:, first:stop]


def middle_values(columns: Matrix, weights: Vector) -> tuple[Vector, Vector]:
    """Return the two values of each column that its weighted median lies between; mostly the same.

    Parameters
    ----------
    columns : array of shape (m, c)
    weights : array of shape (m,)

    Examples
    --------
    >>> middle_values(np.array([[0.0], [5.0], [1.0], [7.0]]), np.ones(4))
    (array([1.]), array([5.]))
    """
    if not len(weights):
        return np.zeros(columns.shape[1]), np.zeros(columns.shape[1])
    if np.all(weights == weights[0]):
        middle = [(len(columns) - 1) // 2, len(columns) // 2]
        low, high = np.partition(columns, middle, axis=0)[middle].astype(np.float64)
        return low, high
    order: Indices = np.argsort(columns, axis=0, kind="stable")
    below = np.cumsum(weights[order], axis=0)
    half = 0.5 * below[-1]
    lower = np.argmax(below >= half * (1.0 - 1e-12), axis=0)
    upper = np.argmax(below > half * (1.0 + 1e-12), axis=0)
    ranked = np.take_along_axis(columns, order, axis=0)
    each = np.arange(columns.shape[1])
    return ranked[lower, each], ranked[upper, each]


@dataclass(frozen=True, eq=False)
class MedianResult:
    """A geometric median with its certificate.

    Attributes
    ----------
    point : array of shape (s,)
    objective : float
        ρ(point) = Σ w ‖x − point‖.
    gap : float
        Certified: objective ≤ (1 + gap) · (smallest possible objective).
    iterations : int
        Passes over the rows.
    converged : bool
        Whether ``gap`` reached ``eps``.
    """

    point: Vector
    objective: float
    gap: float
    iterations: int
    converged: bool


def geometric_median(
    X: Any,
    *,
    sample_weight: Any = None,
    eps: float = 1e-8,
    max_iter: int = 1000,
    delta: float = 0.0,
    engine: Any = None,
    memory_limit: int | None = None,
    n_jobs: int | None = None,
) -> MedianResult:
    r"""Return the point with the least summed distance to the rows of ``X``.

    Minimizes :math:`\rho(z) = \sum_i w_i \lVert z - x_i \rVert` by Weiszfeld's iteration, accelerated and
    certified.

    Parameters
    ----------
    X : array of shape (n, s), tensor, paths, store or Rows
    sample_weight : array of shape (n,), optional
    eps, max_iter, delta
        As in :class:`GeometricMedian`.
    engine, memory_limit, n_jobs
        How it runs, as in :func:`~gmmatch.open_rows`.

    Examples
    --------
    >>> geometric_median([[0.0], [1.0], [10.0]]).point
    array([1.])
    """
    options = GeometricMedian(eps=eps, max_iter=max_iter, delta=delta)
    # The objective shows NaN and infinity without a pass of its own.
    with open_rows(X, engine=engine, memory_limit=memory_limit, n_jobs=n_jobs, check=False) as rows:
        codes, weights = np.zeros(len(rows), dtype=np.int64), check_sample_weight(sample_weight, len(rows))
        medians = rows.group_medians(
            codes, weights, 1, eps=options.eps, max_iter=options.max_iter, delta=options.delta
        )
        if not np.isfinite(medians.objectives).all():
            check_finite(rows)
    _warn_of_gaps(eps, medians.gaps, medians.converged, [None])
    values = (medians.objectives, medians.gaps, medians.iterations, medians.converged)
    return MedianResult(medians.points[0], *(value[0].item() for value in values))
