"""The variants of the authors' code against a loop written from their repository."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import gmmatch as gm
from gmmatch_paper.studies.image_cells.picks import pick
from gmmatch_paper.studies.image_cells.proxies import Embedded


def two_classes() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    random = np.random.default_rng(1)
    labels = np.repeat([0, 1], 60)
    rows = (
        random.gamma(1.0, size=(120, 8)) * random.uniform(0.2, 3.0, (120, 1)) + labels[:, None] * np.eye(8)[0]
    )
    return rows.astype(np.float32), labels


def weiszfeld(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    center = rows.mean(axis=0)
    for _ in range(5000):
        weights = 1.0 / np.linalg.norm(rows - center, axis=1, keepdims=True)
        center = (weights * rows).sum(axis=0) / weights.sum()
    return np.asarray(center)


def authors_loop(rows: NDArray[np.float64], center: NDArray[np.float64], first: int, count: int) -> list[int]:
    """Match as the authors' repository does: unit rows, a unit center of the raw rows, θ from a random row."""
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    center = center / np.linalg.norm(center)
    theta, picks = rows[first].copy(), []
    while len(picks) < count:
        new = next(row for row in np.argsort(-(rows @ theta)) if row not in picks)
        theta += center - rows[new]
        picks.append(int(new))
    return picks


@pytest.mark.parametrize("method", ["gm-matching-exact", "herding-exact"])
def test_picks_are_those_of_the_authors_code(method: str) -> None:
    X, y = two_classes()
    picked = pick(Embedded(X, X[:1]), y, {"k": 24}, method, seed=3, threads=1)["rows"]
    random, expected = np.random.default_rng(3), []
    for code in (0, 1):
        rows = np.flatnonzero(y == code)
        raw = X[rows].astype(np.float64)
        center = weiszfeld(raw) if method == "gm-matching-exact" else raw.mean(axis=0)
        first = int(np.flatnonzero(rows == random.choice(rows))[0])
        local = authors_loop(raw, center, first, 12)
        assert local[0] == first  # a unit row is closest to itself
        expected += rows[local].tolist()
    assert picked.tolist() == sorted(expected)


def test_herding_as_in_the_authors_code_differs_from_theirs_by_the_target_alone() -> None:
    X, y = two_classes()
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    picked = pick(Embedded(X, X[:1]), y, {"k": 24}, "herding-authors", seed=0, threads=1)["rows"]
    means = np.stack([rows[y == code].mean(axis=0) for code in (0, 1)])
    given = gm.select(rows, y, k=24, method="herding", target=gm.Mean(unit=True), n_jobs=1)
    np.testing.assert_array_equal(picked, given.indices)
    near = [float((rows[picked][y[picked] == code] @ means[code]).mean()) for code in (0, 1)]
    assert min(near) > float((rows * means[y]).sum(axis=1).mean())  # a unit target lies beyond the mean
