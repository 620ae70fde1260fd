"""Calls drawn at random: exactly k distinct rows, the reference's picks, and errors that name the argument."""

from __future__ import annotations

import sys
from dataclasses import fields

import pytest

import gmmatch as gm
from tests.reliability import fuzz
from tests.reliability.counts import counted
from tests.reliability.fuzz_calls import SHARES, make_call
from tests.reliability.fuzz_values import PARAMETERS, WRONG

# The full run, of which results/fuzz.json has the counts, begins after these.
QUICK, SLOW = 150, 4000


def test_every_parameter_of_every_method_is_drawn():
    assert set(SHARES) == set(gm.methods())
    parameters = {field.name for name in gm.methods() for field in fields(gm.method_class(name))}
    assert parameters - {"k", "per_class", "random_state", "n_jobs", "dynamics"} == set(PARAMETERS)
    assert parameters - {"k", "per_class"} == set(WRONG)


def test_calls_drawn_at_random():
    failed = [found for found in map(fuzz.judged, range(QUICK)) if found["outcome"] == "failed"]
    assert not failed, failed[:3]


@pytest.mark.slow
def test_many_calls_in_processes_of_their_own():
    failed = [found for found in fuzz.run_calls(QUICK, QUICK + SLOW) if found["outcome"] == "failed"]
    assert not failed, failed[:3]


@pytest.mark.slow
def test_compiled_loops_stay_within_their_arrays(tmp_path):
    """The same calls with every index checked; code compiled so has a cache of its own."""
    environment = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    found = counted("fuzz", "--calls", 400, environment=environment)
    assert found["outcomes"].get("failed", 0) == 0


def test_a_worker_that_dies_is_noticed(monkeypatch):
    """The call that it was at is a failure, with the command that repeats it; the next is made by another worker."""
    script = """
import os, sys
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    if number == 7:
        os.abort()
    print('{"end": %d, "outcome": "picked"}' % number, flush=True)
"""
    monkeypatch.setattr(fuzz, "_COMMAND", [sys.executable, "-c", script, "-"])
    found = {one["end"]: one for one in fuzz.run_calls(6, 9)}
    assert {number: one["outcome"] for number, one in found.items()} == {
        6: "picked",
        7: "failed",
        8: "picked",
    }
    assert found[7]["why"] == "the process died, exit status -6"
    counts = fuzz.summary([{"method": "", "layout": "", **one} for one in found.values()], 1.0)
    assert counts["failures"][0]["repeat"] == "python -m tests.reliability.fuzz --only 7"


def test_a_worker_that_hangs_is_noticed(monkeypatch):
    monkeypatch.setattr(fuzz, "_COMMAND", [sys.executable, "-c", "import time; time.sleep(60)", "-"])
    monkeypatch.setattr(fuzz, "HANGS_AFTER", 0.2)
    (found,) = fuzz.run_calls(3, 4)
    assert found["why"].startswith("no answer for") and found["end"] == 3


def test_a_call_is_made_of_its_number_alone():
    assert repr(make_call(5)) == repr(make_call(5)) != repr(make_call(6))
