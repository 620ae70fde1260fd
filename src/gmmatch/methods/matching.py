"""Matchings: pick rows one after another so that their mean approaches a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Matrix
from gmmatch._checks import check_whole_number, warn_caller
from gmmatch.batches import Carried, Independent
from gmmatch.errors import ApproximationWarning, FarRowWarning, InvalidInputError
from gmmatch.kernel_targets import KernelTargets, fits_gram
from gmmatch.kernels import RBF, FeatureMap, Kernel, Laplacian, Nystroem, RandomFeatures
from gmmatch.median.terms import combine_distances, distance_stats, distances
from gmmatch.methods.base import Method, check_option
from gmmatch.problem import Problem
from gmmatch.rows import GreedyTask
from gmmatch.targets import GeometricMedian, Mean, Target, Targets, compute_targets

# A row this many times as far from the target as a typical one may be picked early, and the target missed.
_FAR = 30.0


@dataclass(kw_only=True, eq=False, repr=False)
class Matching(Method):
    """Greedy matching of a target: x = argmax ⟨θ, x⟩, then θ ← θ + μ − x, from θ = start.

    Parameters
    ----------
    target : Mean, GeometricMedian or CoordinateMedian
        μ, computed for each group.
    kernel : RBF, Laplacian, Polynomial, RandomFeatures or Nystroem, optional
        The space to match in; that of the rows by default. A kernel itself is matched exactly, by Gram matrices, in
        classes of up to 5,000 rows; features of it stand in for larger ones.
    start : "target", "zero" or array of shape (G, s)
        θ before the first pick. Zero makes the picks independent of the origin.
    replacement : bool
        Whether a row may be picked again.
    batches : int, Carried, Independent or None
        Random batches, 8 for ``Carried(8)``. By default one, or as many as a memory limit needs.
    k, per_class, screening, random_state
        As in :class:`~gmmatch.methods.base.Method`.

    Examples
    --------
    >>> from gmmatch import CoordinateMedian
    >>> Matching(k=2, target=CoordinateMedian()).select([[0.0], [1.0], [2.0], [9.0]]).indices
    array([0, 3])
    """

    target: Target = Mean()
    kernel: Kernel | FeatureMap | None = None
    start: Literal["target", "zero"] | NDArray[Any] = "target"
    replacement: bool = False
    batches: int | Carried | Independent | None = None

    name = "matching"
    follows_target = True

    def check_parameters(self) -> None:
        """Raise for parameters that no data could make right."""
        super().check_parameters()
        check_option("target", self.target, "compute", "GeometricMedian()")
        check_option("kernel", self.kernel, "fit", "RBF()")
        if isinstance(self.start, str) and self.start not in ("target", "zero"):
            raise InvalidInputError(f"start={self.start!r}: give 'target' (θ₀ = μ), 'zero' or an array.")
        if isinstance(self.batches, (Carried, Independent)) or self.batches is None:
            return
        check_whole_number(self.batches, "batches")

    def prepare(self, problem: Problem) -> Problem:
        """Map the rows to the space of the kernel."""
        features = self.kernel
        if features is None or self._is_exact(problem):
            return problem
        if isinstance(features, Kernel):
            features = (
                RandomFeatures(features) if isinstance(features, (RBF, Laplacian)) else Nystroem(features)
            )
            warn_caller(
                ApproximationWarning(
                    f"{self.kernel} is matched exactly in classes of up to 5,000 rows, without reference rows: "
                    f"{features} stands in for it. Pass it as kernel= to choose the number of features yourself."
                )
            )
        return problem.map_rows(features.fit(problem)).add_record(features=repr(features))

    def _is_exact(self, problem: Problem) -> bool:
        """Return whether Gram matrices are matched, not explicit features."""
        return isinstance(self.kernel, Kernel) and problem.reference is None and fits_gram(problem)

    def targets(self, problem: Problem) -> Targets:
        """Return the targets."""
        if isinstance(self.kernel, Kernel) and self._is_exact(problem):
            return KernelTargets.compute(problem, self.kernel, self.target)
        return compute_targets(self.target, problem)

    def pick(self, problem: Problem, targets: Targets) -> Indices:
        """Match the target of each group."""
        if isinstance(targets, KernelTargets):
            if self.batches is not None:
                raise InvalidInputError(
                    "batches: a kernel itself is matched at once; pass kernel=RandomFeatures(...) for batches."
                )
            return targets.pick(problem, self.start, self.replacement)
        if self.kernel is None:
            _warn_of_far_rows(problem, targets)
        task = GreedyTask(
            problem.groups.codes, problem.quotas, targets.points, self._start(problem, targets.points),
            problem.available | (problem.included & self.replacement), self.replacement,
        )  # fmt: skip
        batches = self.batches if self.batches is not None else _batches_for_memory(problem)
        if not isinstance(batches, (Carried, Independent)):
            batches = Carried(int(batches))
        return batches.pick(problem, task)

    def _start(self, problem: Problem, points: Matrix) -> Matrix:
        """Return θ before the first pick, included rows accounted for."""
        start: Any = (
            {"target": points, "zero": 0.0}[self.start] if isinstance(self.start, str) else self.start
        )
        try:
            thetas = np.array(np.broadcast_to(start, points.shape), dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"start has shape {np.shape(start)}: expected a vector of {points.shape[1]} numbers, or one for each "
                f"of {len(points)} classes."
            ) from None
        if not np.isfinite(thetas).all():
            raise InvalidInputError("start holds NaN or infinity: give finite numbers.")
        included = np.flatnonzero(problem.included)
        if len(included):
            owners = problem.groups.codes[included]
            np.add.at(thetas, owners, points[owners] - problem.rows.take(included))
        return thetas


def _batches_for_memory(problem: Problem) -> int:
    """Return how many batches are needed so that each fits the memory limit of the rows."""
    needed = int(problem.available.sum()) * problem.rows.n_features * 8
    return 1 if problem.rows.memory_limit is None else -(-needed // problem.rows.memory_limit)


def _warn_of_far_rows(problem: Problem, targets: Targets) -> None:
    """Warn where a row that may be picked is much farther from its target than a typical one."""
    rows, codes = problem.rows, problem.groups.codes
    per_row = (codes, problem.available)
    stats = rows.reduce_blocks(distance_stats, targets.points, per_row=per_row, combine=combine_distances)
    logs, counts, farthest = stats.T
    typical = np.exp(logs / np.where(counts > 0.0, counts, 1.0))
    far = np.flatnonzero((counts > 0.0) & (farthest > _FAR * typical) & (problem.quotas > 0))
    if not len(far):
        return
    group = far[0]
    lengths = rows.map_blocks(distances, targets.points, per_row=(codes,))
    row = int(np.argmax(np.where(problem.available & (codes == group), lengths, -1.0)))
    ratio, label = farthest[group] / typical[group], problem.groups.labels[group]
    times = f"{ratio:,.0f}" if ratio < 1e9 else f"{ratio:.0e}"
    of_class = "" if label is None else f" of class {label!r}"
    others = f" The same holds for {len(far) - 1:,} more classes." if len(far) > 1 else ""
    warn_caller(
        FarRowWarning(
            f"Row {row}{of_class} lies {times} times as far from the target as a typical row. Linear "
            "matching may pick such a row and lose the target: pass preprocess='unit', exclude it (exclude=[...]) or "
            f"use a bounded kernel (kernel=RBF()).{others}"
        )
    )


@dataclass(kw_only=True, eq=False, repr=False)
class Herding(Matching):
    """Pick rows whose mean approaches the mean of their group (Welling, 2009).

    Good on clean data; a single corrupted row can mislead it. Parameters are those of
    :class:`~gmmatch.methods.matching.Matching`.

    Examples
    --------
    >>> Herding(k=2, start="zero").select([[0.0], [1.0], [2.0], [3.0]]).indices
    array([0, 3])
    """

    name = "herding"


@dataclass(kw_only=True, eq=False, repr=False)
class GMMatching(Matching):
    """Pick rows whose mean approaches the geometric median of their group.

    While less than half of the rows are corrupted, outliers cannot move the *target* far; a distant outlier can
    still be *picked*. Parameters are those of :class:`~gmmatch.methods.matching.Matching`.

    References
    ----------
    Geometric Median Matching for Robust k-Subset Selection from Noisy Data, listing 1.

    Examples
    --------
    >>> X = [[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-1.0, 0.0], [8.0, 8.0]]
    >>> GMMatching(k=2, start="zero").select(X).indices
    array([0, 2])
    """

    target: Target = GeometricMedian()

    name = "gm-matching"


@dataclass(kw_only=True, eq=False, repr=False)
class KernelHerding(Matching):
    """Pick rows that follow the whole distribution of their group (Chen, Welling and Smola, 2010).

    It follows corrupted rows as closely as clean ones. Parameters are those of
    :class:`~gmmatch.methods.matching.Matching`.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]]
    >>> KernelHerding(k=2, random_state=0).select(X).mask.reshape(2, 3).sum(axis=1)
    array([1, 1])
    """

    kernel: Kernel | FeatureMap | None = RBF()

    name = "kernel-herding"
