"""Threads over chunks: order, nesting, forks, and what n_jobs means."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from gmmatch.errors import InvalidInputError
from gmmatch.rows.parallel import available_cores, map_in_order, resolve_jobs


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_results_come_in_order_whoever_finishes_first(threads):
    later = threading.Event()

    def work(number):
        # The first piece of work waits for a later one, where there is another thread to do it.
        if number == 0 and threads > 1:
            assert later.wait(10)
        if number == 1:
            later.set()
        return number

    assert map_in_order(work, 7, threads) == list(range(7))


def test_nothing_to_do():
    assert map_in_order(lambda number: number, 0, 4) == []


def test_an_error_reaches_the_caller():
    def work(number):
        if number == 3:
            raise KeyError("row 3")
        return number

    with pytest.raises(KeyError, match="row 3"):
        map_in_order(work, 5, 2)
    assert map_in_order(lambda number: number, 3, 2) == [0, 1, 2]


def test_nobody_is_at_work_any_more_when_an_error_arrives():
    started, failed, at_work = threading.Event(), threading.Event(), []

    def work(number):
        if number == 0:
            assert started.wait(10)
            failed.set()
            raise KeyError("row 0")
        at_work.append(number)
        started.set()
        assert failed.wait(10)
        time.sleep(0.05)
        at_work.remove(number)

    with pytest.raises(KeyError, match="row 0"):
        map_in_order(work, 50, 2)
    assert at_work == []
    time.sleep(0.1)
    assert at_work == []


def run_python(code):
    """Run code in a process of its own, so that a deadlock fails a test instead of hanging them all."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


def test_calls_within_calls_do_not_wait_for_each_other():
    done = run_python(
        "from gmmatch.rows.parallel import map_in_order as m\n"
        "print(m(lambda i: sum(m(lambda j: i * j, 5, 2)), 6, 2))"
    )
    assert done.stdout.strip() == str([10 * i for i in range(6)]), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are a thing of Unix")
def test_a_forked_child_makes_threads_of_its_own():
    done = run_python(
        "import os, sys\n"
        "from gmmatch.rows.parallel import map_in_order as m\n"
        "m(abs, 4, 2)\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(sum(m(abs, 5, 2)))\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    assert done.stdout.strip() == "10", done.stderr


def test_n_jobs_follows_joblib():
    assert resolve_jobs(None) == 1
    assert resolve_jobs(3) == 3
    assert resolve_jobs(np.int64(3)) == 3
    assert resolve_jobs(-1) == available_cores()
    assert resolve_jobs(-2) == max(1, available_cores() - 1)
    assert resolve_jobs(-10_000) == 1


@pytest.mark.parametrize("n_jobs", [0, 1.5, "2", True])
def test_what_is_no_number_of_threads(n_jobs):
    with pytest.raises(InvalidInputError, match=r"n_jobs=.*-1 for every core"):
        resolve_jobs(n_jobs)
