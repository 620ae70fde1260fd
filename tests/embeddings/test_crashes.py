"""Killed at any moment, a store stays valid, goes on, and ends the same byte for byte."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")

PROGRAM = Path(__file__).with_name("crashing.py")


@pytest.fixture
def folder():
    """A folder in memory where there is one: the disk's flushing is not what is tested here."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as name:
        yield name


def run(*arguments):
    command = [sys.executable, PROGRAM, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [int(number) for number in re.findall(r"\d+", done.stdout)]


def test_killed_at_some_of_its_steps(folder):
    whole_shards, every_batch = run("every-step", folder, 7)
    assert every_batch > whole_shards > 50


@pytest.mark.slow
def test_killed_at_every_single_step(folder):
    whole_shards, every_batch = run("every-step", folder, 1)
    assert every_batch > whole_shards > 50


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_random_moments(folder, seed):
    (kills,) = run("at-random", folder, seed, 20)
    assert kills >= 20
