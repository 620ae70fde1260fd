"""Optimization: keep the rows without which the parameters of the last layer would change least."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from gmmatch.methods.base import Method
from gmmatch.problem import Problem
from gmmatch.rows.array import ArrayRows
from gmmatch.targets import Targets
from gmmatch_paper.arrays import Indices
from gmmatch_paper.baselines.influence import influence_vectors
from gmmatch_paper.baselines.learned import LabeledRows, check_known
from gmmatch_paper.baselines.softmax_regression import SoftmaxRegression
from gmmatch_paper.baselines.swaps import SwapGroup, swap_towards_zero
from gmmatch_paper.checks import check_number, check_whole_number

# Bytes of influence vectors: 671 numbers for each of 50,000 rows.
_MEMORY = 128 << 20
_MIN_DIMENSIONS, _MAX_DIMENSIONS = 64, 1024


@dataclass(kw_only=True, eq=False, repr=False)
class Optimization(Method):
    """Leave out the rows whose summed influence on a classifier's parameters is smallest.

    The influence of a row is how the parameters of a regularized softmax regression would change without it, H⁻¹ gᵢ
    to first order. Leaving out a set of rows changes them by the sum of their influences, and the rows to leave out
    are chosen to make that sum short (Yang et al., 2023). The influences of all rows sum to zero, so the sum over
    the kept rows is equally short.

    Starting from random picks, picks are swapped for other rows of their class while that shortens the sum; Yang et
    al. use simulated annealing. The sum is over all classes, so classes are not independent. The order of the picks
    has no meaning.

    Parameters
    ----------
    strength : float
        λ, the regularization of the regression on standardized rows.
    sweeps : int
        Most sweeps over the classes.
    k, per_class, screening, random_state
        As in :class:`~gmmatch.methods.base.Method`. With ``per_class=None`` the regression still learns ``y``.

    Notes
    -----
    H is exact up to 1,024 parameters (classes times columns plus one), and beyond that a Kronecker product;
    vectors of more numbers than fit into 128 MiB are projected at random. The provenance says so. Residuals are
    those of the influence vectors, whose target is zero.

    Examples
    --------
    >>> X = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]
    >>> Optimization(k=2, random_state=0).select(X, ["low", "low", "low", "high", "high", "high"]).counts
    {'high': 1, 'low': 1}
    """

    strength: float = 0.01
    sweeps: int = 20

    name = "optimization"

    def prepare(self, problem: Problem) -> Problem:
        """Replace the rows by their influence vectors."""
        check_number(self.strength, "strength", above_zero=True)
        check_whole_number(self.sweeps, "sweeps", 0)
        labeled = LabeledRows.of(problem, self.name)
        check_known(problem, labeled.codes < 0, "influence")
        vectors, model = self._learn(problem, labeled)
        return replace(problem, rows=ArrayRows(vectors)).add_record(model=model)

    def targets(self, problem: Problem) -> Targets:
        """Return zero for each group."""
        return Targets(np.zeros((len(problem.groups), problem.rows.n_features)))

    def pick(self, problem: Problem, targets: Targets) -> Indices:
        """Swap random picks for others while that shortens the sum of their vectors."""
        vectors = problem.rows.map_blocks(np.asarray)
        groups = []
        for group, rows in enumerate(problem.groups.split(problem.available)):
            quota = int(problem.quotas[group])
            # Without influence every subset is as good: then the first rows.
            order = problem.generator(group).permutation(rows) if vectors.any() else rows
            groups.append(SwapGroup(order[:quota], order[quota:]))
        fixed = vectors[problem.included].sum(axis=0, dtype=np.float64)
        with threadpool_limits(1):
            swap_towards_zero(
                vectors, groups, fixed, np.random.default_rng([problem.seed, 1]), sweeps=self.sweeps
            )
        return np.concatenate([group.picked for group in groups])

    def _learn(self, problem: Problem, labeled: LabeledRows) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Return the influence vectors, shape (n, d), and what to record about them."""
        if labeled.n_classes < 2:
            return np.zeros((len(problem.rows), 1), dtype=np.float32), labeled.record
        regression = SoftmaxRegression.of(
            problem.rows, labeled.codes, labeled.weights, labeled.n_classes, strength=self.strength
        )
        influence = influence_vectors(
            regression,
            regression.fit(),
            dimensions=int(np.clip(_MEMORY // (4 * len(labeled.numbers)), _MIN_DIMENSIONS, _MAX_DIMENSIONS)),
            random=np.random.default_rng(problem.seed),
        )
        record = {
            "proxy": "softmax regression",
            "hessian": influence.hessian,
            "projected": influence.projected,
        }
        return influence.vectors, {**labeled.record, **record, "dimensions": influence.vectors.shape[1]}
