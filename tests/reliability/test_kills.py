"""Killed at any moment and repeated, a command ends with the bytes of an undisturbed run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
ROOT = Path(__file__).parents[2]


def killed(*arguments: object) -> dict[str, int]:
    command = [sys.executable, "-m", "tests.reliability.kills", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_some_kills():
    found = killed("--kills", 2, "--stride", 5, "--commands", "corrupt, vectors")
    assert found["killed_at_random"] == 2 and found["killed_at_a_step"] >= 3


@pytest.mark.slow
def test_every_command_at_steps_and_at_random():
    found = killed("--kills", 60, "--stride", 3)
    assert found["killed_at_random"] == 60 and found["killed_at_a_step"] >= 100


def test_the_committed_counts_are_of_a_full_run():
    found = json.loads((Path(__file__).parent / "results" / "kills.json").read_text())
    assert found["killed_at_random"] >= 500
    assert all(one["killed_at_a_step"] == one["steps"] for one in found["commands"].values())
