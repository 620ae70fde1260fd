"""Picks that must not change: those of version 0.2, in the order in which they are made."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm

pytest.importorskip("torch")

PICKS = {
    "el2n": [
        69, 37, 14, 39, 4, 83, 15, 40, 11, 42, 73, 47, 51, 88, 8, 21, 61, 86, 27, 49, 17, 24, 43,
        59, 57, 52, 5, 87, 82, 20,
    ],
    "forgetting": [
        15, 37, 2, 21, 88, 5, 39, 4, 8, 42, 40, 11, 69, 1, 14, 18, 7, 17, 27, 10, 20, 57, 13, 23, 0,
        16, 26, 3, 19, 29,
    ],
    "grand": [
        51, 40, 83, 57, 85, 14, 69, 43, 11, 24, 4, 5, 39, 52, 20, 42, 31, 17, 18, 67, 86, 30, 73, 8,
        66, 88, 71, 81, 55, 53,
    ],
    "optimization": [
        9, 25, 68, 63, 34, 59, 27, 70, 77, 45, 28, 71, 69, 49, 20, 12, 46, 80, 48, 43, 62, 54, 37,
        14, 30, 67, 86, 42, 19, 23,
    ],
    "self-supervised": [
        57, 79, 44, 6, 67, 77, 51, 10, 53, 24, 28, 89, 81, 40, 5, 30, 85, 83, 18, 46, 20, 84, 43,
        35, 66, 64, 32, 36, 55, 41,
    ],
}  # fmt: skip


@pytest.mark.parametrize("method", PICKS)
def test_picks_are_those_that_were_recorded(method):
    random = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = (random.normal(size=(3, 5))[y] + random.normal(size=(90, 5))).round(3)
    assert gm.select(X, y, k=30, method=method, random_state=0).order.tolist() == PICKS[method]
