"""Many small groups in compiled loops: what is found is what each group alone gives."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.errors import ConvergenceWarning
from gmmatch.median.passes import weighted_mean
from gmmatch.median.small import small_medians
from gmmatch.median.weiszfeld import solve
from gmmatch.rows.rows import Rows

KINDS = {
    "cloud": lambda X: X,
    "lattice, with copies": np.round,
    "far from the origin": lambda X: 1e-2 * X + 1e3,
    "one far row": lambda X: np.concatenate([X, 1e12 * X[:1]]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_small_median_is_the_one_of_the_search(kind, weighted):
    random = np.random.default_rng(len(kind))
    for n, s in ((1, 3), (2, 2), (3, 1), (7, 16), (12, 4), (30, 2)):
        rows = Rows(KINDS[kind](random.standard_normal((n, s))).astype(np.float32))
        weights = random.integers(1, 4, len(rows)).astype(float) if weighted else np.ones(len(rows))
        expected = solve(rows, weights)
        point, gap, passes = weighted_mean(rows, weights), np.empty(1), np.empty(1, dtype=np.int64)
        bounds = np.array([0, len(rows)])
        small_medians(rows.source, rows.index, bounds, weights, 1e-8, 1000, point[None], gap, passes)
        assert gap[0] <= 1e-8 and expected.converged
        distances = np.linalg.norm(rows.gather(np.arange(len(rows))) - point, axis=1)
        assert weights @ distances <= expected.objective * (1.0 + 1.1e-8)


def test_groups_that_the_loops_leave_unfinished_are_finished_by_the_search():
    """Rows that are almost on a line: a memory of one step is too short for a few of them."""
    random = np.random.default_rng(1)
    X = random.standard_normal((6_000, 3)) * [1.0, 1e-3, 1e-3]
    y, rows = np.repeat(np.arange(1000), 6), Rows(X)
    points, gaps = X.reshape(1000, 6, 3).mean(axis=1), np.empty(1000)
    bounds, passes = np.arange(1001) * 6, np.empty(1000, dtype=np.int64)
    small_medians(rows.source, rows.index, bounds, np.ones(6_000), 1e-8, 1000, points, gaps, passes)
    assert 0 < np.count_nonzero(gaps > 1e-8) < 20
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        assert gm.select(X, y=y, k=1000, method="gm-matching").k == 1000


@pytest.mark.parametrize("name", ["gm-matching", "herding", "easy", "moderate", "hard"])
@pytest.mark.parametrize("options", [{}, {"exclude": [3, 8]}, {"include": [5, 40]}, {"sample_weight": True}])
def test_small_and_large_groups_give_what_each_gives_alone(name, options):
    """Classes of 5 to 60 rows beside one that is too large for the loops; alone, a class does not go through them."""
    random = np.random.default_rng(0)
    y = random.permutation(np.repeat(np.arange(70), [9000, *random.integers(5, 60, 69)]))
    X = (random.standard_normal((len(y), 4)) + 3.0 * (y[:, None] % 5)).astype(np.float32)
    weights = random.uniform(0.5, 2.0, len(y))
    given = {**options, "sample_weight": weights} if "sample_weight" in options else options
    together = gm.select(X, y=y, per_class=dict.fromkeys(range(70), 4), method=name, **given)
    for group in together.groups[:12]:
        own = np.flatnonzero(y == group.label)
        place = {int(row): at for at, row in enumerate(own)}
        alone = {
            key: [place[row] for row in rows if row in place]
            for key, rows in options.items()
            if rows is not True
        }
        if "sample_weight" in options:
            alone["sample_weight"] = weights[own]
        expected = gm.select(X[own], k=4, method=name, **alone)
        assert np.array_equal(group.order, own[expected.order])
        assert np.allclose(group.residuals, expected.groups[0].residuals, rtol=1e-6, equal_nan=True)
