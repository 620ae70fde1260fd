"""A Ray cluster of which everything dies that can."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_cluster_without_machines_and_drivers_that_end():
    pytest.importorskip("ray", reason="needs the extra gmmatch[ray]")
    command = [
        sys.executable,
        "-m",
        "tests.reliability.cluster",
        "--deaths",
        "2",
        "--methods",
        "easy",
        "robust",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["deaths"] >= 2 and found["all_dead_error_seconds"] < 60


def test_the_committed_counts_are_of_every_method():
    from tests.reliability.cluster import NAMES

    found = json.loads((Path(__file__).parent / "results" / "cluster.json").read_text())
    assert found["deaths"] >= 100 and set(found["by_method"]) == set(NAMES)
    assert found["all_dead_error_seconds"] < 60
