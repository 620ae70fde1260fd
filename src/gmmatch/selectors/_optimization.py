"""Optimization: keep the rows without which the parameters of the last layer would move least."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.matching.swaps import SwapGroup, swap_towards_zero
from gmmatch.rows.checks import check_number, check_rows, check_whole_number
from gmmatch.rows.parallel import one_blas_thread, resolve_jobs
from gmmatch.selectors.base import GroupTask, Request, Results, Selector, Tasks
from gmmatch.selectors.model_scores import Labeled
from gmmatch.selectors.places import place_of
from gmmatch.selectors.provenance import array_fingerprint
from gmmatch.types import Indices, offsets_of

# Bytes of influence vectors, unless memory_limit says otherwise: 671 numbers for each of 50,000 rows.
_MEMORY = 128 << 20
_MOST_DIMENSIONS, _LEAST_DIMENSIONS = 1024, 64
# SciPy, and the blocks of a regression.
_REGRESSION = 128_000_000
# Numbers of a vector where memory_limit leaves room for no more.
_FEWEST = 16


@dataclass(frozen=True)
class _Facts:
    """What all groups share: the vectors, none where every subset is as good, rows to begin with, and the record."""

    vectors: NDArray[np.float32] | None
    included: Indices
    record: dict[str, Any]


@dataclass(kw_only=True, eq=False, repr=False)
class Optimization(Selector):
    """Leave out the rows whose summed influence on a classifier's parameters is smallest.

    The influence of a row is how the parameters of a regularized softmax regression would change without it,
    H⁻¹ gᵢ to first order. Leaving out a set of rows changes them by the sum of their influences, and the rows to
    leave out are chosen to make that sum short (Yang et al., 2023). The influences of all rows sum to zero, so
    the sum over the kept rows is equally short.

    Starting from random picks, picks are swapped for other rows of their class while that shortens the sum;
    Yang et al. use simulated annealing. The sum is over all classes, so classes are not independent. The order
    of the picks has no meaning.

    Parameters
    ----------
    vectors : array of shape (n, m), optional
        Your own influence vectors; labels are then needed only to pick per class.
    strength : float
        λ, the regularization of the regression on standardized rows.
    sweeps : int
        The largest number of sweeps over the classes.
    memory_limit : int, optional
        Bytes for the influence vectors, 128 MiB by default. A vector has one number per parameter, up to
        1,024 and at least 16; where there are more parameters, or less memory, vectors are projected at random.
    k, per_class, unlabeled, preprocess, random_state, n_jobs
        As in :class:`~gmmatch.MomentMatching`. With ``per_class=None`` the regression still learns ``y``.

    Notes
    -----
    H is exact up to 1,024 parameters (classes times columns plus one), and beyond that a Kronecker product;
    the provenance says which, and how long the sum was before and after the swaps.

    Examples
    --------
    >>> vectors = [[2.0], [-1.0], [-2.0], [1.0]]
    >>> chosen = Optimization(k=2, vectors=vectors, random_state=0).select([[0.0], [1.0], [2.0], [3.0]])
    >>> sum(vectors[row][0] for row in chosen)
    0.0
    """

    vectors: Any = None
    strength: float = 0.01
    sweeps: int = 20
    memory_limit: int | None = None

    method = "optimization"
    learned = ("vectors",)

    def _prepare(self, request: Request) -> Request:
        if self.vectors is None:
            vectors, details = self._learn(request)
        else:
            vectors, details = _read_vectors(self.vectors, len(request.rows)), {"vectors": "given"}
        if vectors is not None:
            details["fingerprint"] = array_fingerprint(vectors)
        facts = _Facts(vectors, np.flatnonzero(request.inside), details)
        return replace(request, facts=facts).recording(model=details)

    def _learn(self, request: Request) -> tuple[NDArray[np.float32] | None, dict[str, Any]]:
        from gmmatch.scores.influence import influence_vectors
        from gmmatch.scores.softmax_regression import SoftmaxRegression

        why = "how rows influence a classifier. Pass y, or vectors= of your own."
        labeled = Labeled.of(request, self, why)
        if labeled.n_classes < 2:
            return None, labeled.record
        problem = SoftmaxRegression.of(
            labeled.rows, labeled.codes, labeled.weights, labeled.n_classes, self.strength, resolve_jobs(self.n_jobs)
        )  # fmt: skip
        limit, least = (
            (_MEMORY, _LEAST_DIMENSIONS) if self.memory_limit is None else (self.memory_limit, _FEWEST)
        )
        influence = influence_vectors(
            problem,
            problem.fit(),
            dimensions=int(np.clip(limit // (4 * len(labeled.rows)), least, _MOST_DIMENSIONS)),
            random=np.random.default_rng(request.seed),
        )
        vectors = influence.vectors
        if len(vectors) < len(request.rows):
            vectors = np.full((len(request.rows), vectors.shape[1]), np.nan, dtype=np.float32)
            vectors[labeled.numbers] = influence.vectors
        made = {"proxy": "softmax regression", "hessian": influence.hessian, "projected": influence.projected}
        return vectors, {**labeled.record, **made, "dimensions": vectors.shape[1]}

    def _run(self, tasks: Tasks) -> Results:
        facts: _Facts = tasks.facts
        groups = [self._beginning(task) for task in tasks]
        if facts.vectors is not None:
            # A row without a label may be included; its influence is not known and taken as none.
            fixed = np.nan_to_num(facts.vectors[facts.included], nan=0.0).sum(axis=0, dtype=np.float64)
            random = np.random.default_rng([tasks.seed, 1])
            with one_blas_thread():
                before, after = swap_towards_zero(facts.vectors, groups, fixed, random, sweeps=self.sweeps)
            facts.record.update(summed_influence_at_random=before, summed_influence=after)
        picked = np.concatenate([group.picked for group in groups])
        within = np.empty(len(tasks.rows), dtype=np.int64)  # the position of each row in its group
        within[tasks.row_numbers] = np.arange(len(tasks.row_numbers)) - tasks.offsets[tasks.group_of_row]
        return place_of(tasks).measured(within[picked], offsets_of(tasks.quotas))

    def least_memory(self, n_rows: int, n_features: int) -> int:
        """Return the bytes that no limit can spare."""
        return super().least_memory(n_rows, n_features) + (4 * _FEWEST + 16) * n_rows + _REGRESSION

    def _beginning(self, task: GroupTask) -> SwapGroup:
        """Return random picks to begin with; the first rows where every subset is as good."""
        vectors = task.facts.vectors
        free = np.flatnonzero(task.available)
        if vectors is None:
            return SwapGroup(task.row_numbers[free[: task.k]], task.row_numbers[free[task.k :]])
        candidates = task.row_numbers[free]
        unknown = candidates[np.isnan(vectors[candidates, 0])] if task.k else candidates[:0]
        if len(unknown):
            raise InvalidInputError(
                f"Row {unknown[0]} and {len(unknown) - 1} more have no influence, because they have no label: "
                "leave them out (exclude=[...], unlabeled='drop')."
            )
        shuffled = task.random.permutation(candidates)
        return SwapGroup(shuffled[: task.k], shuffled[task.k :])

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_whole_number(self.sweeps, "sweeps", 0)
        check_number(self.strength, "strength", above_zero=True)
        if self.memory_limit is not None:
            check_whole_number(self.memory_limit, "memory_limit", 0, "number of bytes")


def _read_vectors(vectors: Any, n: int) -> NDArray[np.float32]:
    rows = check_rows(vectors, name="vectors")
    if len(rows) != n:
        raise InvalidInputError(f"vectors has {len(rows):,} rows: expected {n:,}, one per row of X.")
    with np.errstate(over="ignore"):
        given: NDArray[np.float32] = rows.gather(np.arange(n), np.float32)
    if not np.isfinite(given).all():
        raise InvalidInputError("vectors has numbers that float32 cannot hold: scale it down.")
    return given
