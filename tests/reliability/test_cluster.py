"""A Ray cluster of which everything dies that can."""

from __future__ import annotations

import pytest

from tests.reliability.counts import committed, counted


@pytest.mark.slow
def test_a_cluster_without_machines_and_drivers_that_end():
    pytest.importorskip("ray", reason="needs the extra gmmatch[ray]")
    found = counted("cluster", "--deaths", 4, "--methods", "easy", "kernel-herding", "robust")
    assert found["deaths"] >= 2 and found["all_dead_error_seconds"] < 60


def test_the_committed_counts_are_of_every_method():
    from tests.reliability.cluster import NAMES

    found = committed("cluster")
    assert found["deaths"] >= 100 and set(found["by_method"]) == set(NAMES)
    assert found["all_dead_error_seconds"] < 60
