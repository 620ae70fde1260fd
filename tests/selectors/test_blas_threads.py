"""Threads of BLAS do not spin over small matrices while a method works."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import gmmatch as gm
from gmmatch.rows import parallel


def blas_threads() -> int:
    return max(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")


class Watching(gm.Easy):
    """Notes the threads that are there for a group's products."""

    seen: list[int]

    def _run(self, tasks):
        self.seen.append(blas_threads())
        return super()._run(tasks)


@pytest.mark.parametrize(("small", "expected"), [(True, 1), (False, 2)])
def test_small_products_have_one_thread_and_large_ones_their_own(small, expected, monkeypatch):
    monkeypatch.setattr(parallel, "_SMALL_PRODUCT", 60 if small else 59)
    Watching.seen = []
    with threadpool_limits(2, user_api="blas"):
        # The largest of three classes has 30 rows of two numbers.
        Watching(k=6).select(np.arange(120.0).reshape(60, 2), y=np.repeat([0, 1, 2], [30, 20, 10]))
        assert blas_threads() == 2
    assert Watching.seen == [expected]
