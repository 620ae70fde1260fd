"""Targets in the space of a kernel, matched exactly by Gram matrices, class by class."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Mask, Matrix, Vector
from gmmatch.errors import InvalidInputError
from gmmatch.kernels import Kernel
from gmmatch.problem import Problem
from gmmatch.rows.array import ArrayRows
from gmmatch.targets import GeometricMedian, Mean, Target, Targets

# Above this many rows of a class a Gram matrix takes too long, above this many numbers of all too much memory (1
# GiB).
_MAX_ROWS, _MAX_ELEMENTS = 5_000, 1 << 27
# Added to the diagonal of a Gram matrix, relative to its mean, so that it has a Cholesky factor.
_JITTER = 1e-13
# Scores this close, relative to what went into them, are equal: kernel values of equal rows differ in the last bits.
_TIE = 2.0**-49


def fits_gram(problem: Problem) -> bool:
    """Return whether the Gram matrices of all groups can be held; a function of the sizes of the groups alone."""
    sizes = problem.groups.count(_takes_part(problem))
    return bool(sizes.max(initial=0) <= _MAX_ROWS and (sizes**2).sum() <= _MAX_ELEMENTS)


def _takes_part(problem: Problem) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = problem.available | problem.included | (problem.weights > 0.0)
    return mask


@dataclass(frozen=True, eq=False)
class GroupGram:
    """One group: its rows, their kernel, and the target μ by its scores ⟨μ, φ(x)⟩ and ‖μ‖².

    The Gram matrix is kept where rows are in memory, else computed again.
    """

    rows: Indices
    kernel: Kernel
    scores: Vector
    norm: float
    kept: Matrix | None

    def gram(self, problem: Problem) -> Matrix:
        """Return the Gram matrix of the rows."""
        if self.kept is not None:
            return self.kept
        values = problem.rows.take(self.rows)
        return np.asarray(self.kernel.gram(values, values))


@dataclass(frozen=True, eq=False)
class KernelTargets(Targets):
    """The target of each group in the space of a kernel. There are no points: they have no coordinates.

    Attributes
    ----------
    groups : list of GroupGram
    """

    groups: list[GroupGram] = field(default_factory=list)

    @classmethod
    def compute(cls, problem: Problem, kernel: Kernel, target: Target) -> KernelTargets:
        """Compute the Gram matrix and the target of every group."""
        groups, details = [], []
        for number, rows in enumerate(problem.groups.split(_takes_part(problem))):
            values = problem.rows.take(rows)
            fitted = kernel.fit([values])
            gram = np.asarray(fitted.gram(values, values))
            if not np.isfinite(gram).all():
                raise InvalidInputError(f"{kernel} of these rows overflows: scale them (preprocess='scale').")
            kept = gram if problem.rows.memory_limit is None else None
            if not len(rows):
                groups.append(GroupGram(rows, fitted, np.zeros(0), 0.0, kept))
                continue
            weights, seed = problem.weights[rows], problem.seed_sequence(number)
            scores, norm, about = _compute_target(gram, weights, seed, target)
            groups.append(GroupGram(rows, fitted, scores, norm, kept))
            details.append(about)
        joined = {name: np.concatenate([d[name] for d in details]) for name in details[0]}
        return cls(np.zeros((len(groups), 1)), joined, groups)

    def pick(self, problem: Problem, start: Any, replacement: bool) -> Indices:
        """Match the target of each group."""
        if not isinstance(start, str):
            raise InvalidInputError(
                "start: an array has no meaning in a kernel's space; give 'target' or 'zero'."
            )
        orders = []
        for group, quota in zip(self.groups, problem.quotas.tolist(), strict=True):
            included = problem.included[group.rows]
            scores = group.scores * (start == "target") + included.sum() * group.scores
            gram = group.gram(problem)
            scores = scores - gram[included].sum(axis=0)
            available = problem.available[group.rows] | (included & replacement)
            order = pick_by_gram(gram, group.scores, scores, available, quota, replacement=replacement)
            orders.append(group.rows[order])
        return np.concatenate(orders)

    def measure_residuals(self, problem: Problem, picks: Indices, owners: Indices) -> Vector:
        """Return ‖target − mean so far‖ after each pick, in the space of the kernel."""
        residuals = np.empty(len(picks))
        for number, group in enumerate(self.groups):
            members = owners == number
            order = np.searchsorted(group.rows, picks[members])
            residuals[members] = measure_residuals(group.gram(problem), group.scores, group.norm, order)
        return residuals

    def locate(self, problem: Problem, group: int, rows: Indices) -> tuple[Matrix, Vector]:
        """Return coordinates of some rows of a group, and of its target: by a factor of the Gram matrix."""
        members = self.groups[group]
        factor = _factorize(members.gram(problem))
        point: Vector = np.linalg.lstsq(factor, members.scores, rcond=None)[0].astype(np.float64)
        return factor[np.searchsorted(members.rows, rows)], point


def _compute_target(
    gram: Matrix, weights: Vector, seed: np.random.SeedSequence, target: Target
) -> tuple[Vector, float, dict[str, NDArray[Any]]]:
    """Return ⟨μ, φ(x)⟩ of every row, ‖μ‖², and how the target of one group was computed."""
    if isinstance(target, Mean):
        total = weights.sum()
        coefficients = weights / (total if total > 0.0 else 1.0)
        scores, details = gram @ coefficients, {}
        norm = float(coefficients @ scores)
    elif isinstance(target, GeometricMedian):
        # In coordinates: the rows of a factor L of the Gram matrix, K = L Lᵀ, are as far apart as the features.
        factor = _factorize(gram)
        problem = Problem.of(
            ArrayRows(factor), k=1, sample_weight=weights, random_state=np.random.default_rng(seed)
        )
        computed = replace(target, unit=False).compute(problem)
        point, details = computed.points[0], computed.details
        scores, norm = factor @ point, float(point @ point)
    else:
        raise InvalidInputError(f"target={target}: with a kernel give Mean() or GeometricMedian().")
    if target.unit and norm > 0.0:
        scores, norm = scores / np.sqrt(norm), 1.0
    return scores, norm, details


def _factorize(gram: Matrix) -> Matrix:
    """Return L with K ≈ L Lᵀ."""
    from scipy.linalg import cholesky

    jitter = _JITTER * max(float(np.trace(gram)) / len(gram), 1e-300)
    while True:
        try:
            factor: Matrix = cholesky(gram + jitter * np.eye(len(gram)), lower=True)
            return factor
        except np.linalg.LinAlgError:
            jitter *= 10.0


def pick_by_gram(
    gram: Matrix,
    target_scores: Vector,
    scores: Vector,
    available: Mask,
    quota: int,
    *,
    replacement: bool,
) -> Indices:
    """Return ``quota`` positions: the best score each time, the lowest position of equal ones.

    Parameters
    ----------
    gram : array of shape (m, m)
    target_scores : array of shape (m,)
        ⟨μ, φ(x)⟩ of every row.
    scores : array of shape (m,)
        ⟨θ, φ(x)⟩ before the first pick; changed in place.
    available : boolean array of shape (m,)
        Changed in place.
    quota : int
    replacement : bool

    Examples
    --------
    >>> X = np.array([[-1.0], [0.5], [2.0]])
    >>> pick_by_gram(X @ X.T, X[:, 0] * 0.5, X[:, 0] * 0.5, np.ones(3, bool), 2, replacement=False)
    array([2, 0])
    """
    order = np.empty(quota, dtype=np.int64)
    lengths = np.sqrt(np.abs(np.diagonal(gram)))
    picked_length = 0.0
    for t in range(quota):
        open_scores = np.where(available, scores, -np.inf)
        best = int(np.argmax(open_scores))
        # What rounding may have moved a score by, after Cauchy and Schwarz.
        tie = 2.0 * _TIE * ((t + 1) * abs(target_scores[best]) + lengths[best] * picked_length)
        best = int(np.argmax(open_scores >= open_scores[best] - tie))
        order[t] = best
        available[best] = replacement
        picked_length += float(lengths[best])
        scores += target_scores - gram[best]
    return order


def measure_residuals(gram: Matrix, target_scores: Vector, target_norm: float, order: Indices) -> Vector:
    """Return ‖μ − mean of the first t picks‖ in the space of the kernel, t = 1, 2, ...; ``target_norm`` is ‖μ‖²."""
    picked = gram[np.ix_(order, order)]
    counts = np.arange(1, len(order) + 1)
    # ‖Σ φ‖² of the first t picks: twice what lies below the diagonal, and the diagonal.
    sums = np.cumsum(2.0 * np.tril(picked, -1).sum(axis=1) + np.diagonal(picked))
    squared = target_norm - 2.0 * np.cumsum(target_scores[order]) / counts + sums / counts**2
    return np.sqrt(np.maximum(0.0, squared))
