"""Numbers of any size that can be squared: the picks are the reference's, and no loop leaves its arrays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.matching.match import match
from gmmatch.matching.reference import reference_picks
from gmmatch.rows.rows import Rows

STRATEGIES = ["direct", "coded"]
SCALES = [5e-324, 1e-310, 1e-200, 1e-155, 1e-100, 1.0, 1e100, 1e149]


def assert_reference_picks(X: np.ndarray, strategy: str, k: int, target: np.ndarray | None = None) -> None:
    point = X.mean(axis=0) if target is None else target
    with np.errstate(all="ignore"):
        expected = reference_picks(X, point, k)
        for threads in (1, 2):
            picks = match(Rows(X), point, k, strategy=strategy, threads=threads)
            np.testing.assert_array_equal(picks.order, expected)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rows_of_one_magnitude(strategy: str, scale: float) -> None:
    X = np.random.default_rng(0).normal(size=(60, 7)).clip(-3, 3) / 3 * scale
    assert_reference_picks(X, strategy, 30)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rows_of_mixed_magnitudes(strategy: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    exponents = (
        random.uniform(-320, 149, size=(50, 1)) if seed % 2 else random.uniform(-320, 149, size=(1, 5))
    )
    X = random.normal(size=(50, 5)).clip(-1, 1) * 10.0**exponents
    assert_reference_picks(X, strategy, 20, target=np.median(X, axis=0))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_huge_row_among_tiny_ones(strategy: str) -> None:
    X = np.random.default_rng(1).normal(size=(40, 3)) * 1e-200
    X[7] = 1e149
    assert_reference_picks(X, strategy, 20, target=np.zeros(3))


@pytest.mark.parametrize("scale", [1e-310, 1e-40])
def test_subnormal_rows_give_k_distinct_picks(scale: float) -> None:
    X = np.random.default_rng(0).normal(size=(5000, 64)) * scale
    picks = gm.select(X, k=500, method="gm-matching")
    assert len(set(picks.order.tolist())) == 500


@pytest.mark.slow
def test_compiled_loops_stay_within_their_arrays(tmp_path: Path) -> None:
    """The calls that once ended in a segmentation fault, in a process that checks every index."""
    code = (
        "import numpy as np, gmmatch as gm\n"
        "R = np.random.default_rng(0)\n"
        "for shape, k in [((300, 8), 30), ((50, 3), 10)]:\n"
        "    for scale in (5e-324, 1e-310, 1.0, 1e149):\n"
        "        X = R.normal(size=shape).clip(-1, 1) * scale\n"
        "        for strategy in ('direct', 'coded'):\n"
        "            assert len(gm.GMMatching(k=k, strategy=strategy).select(X).indices) == k\n"
    )
    # A cache of its own: code compiled with checks must not be taken for the other.
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
