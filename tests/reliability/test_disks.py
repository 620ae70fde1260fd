"""Disks that are full, read-only, forbidden, removed or slow, and stores of which a file was damaged."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reliability.disks import damaged

ROOT = Path(__file__).parents[2]


def test_a_damaged_file_of_a_store_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    counts = damaged(tmp_path, 12, random.Random(1))
    assert counts["refused by info --verify"] == 12 and counts["refused by select"] >= 8


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounting a small disk needs root"
)
def test_every_command_on_bad_disks():
    command = [sys.executable, "-m", "tests.reliability.disks", "--removals", "3", "--damages", "60"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if "mount: " in done.stderr:
        pytest.skip("file systems cannot be mounted here")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["read_only"] == found["forbidden"] == found["slow"] == len(found["commands"]) == 10


def test_the_committed_counts_are_of_every_command():
    found = json.loads((Path(__file__).parent / "results" / "disks.json").read_text())
    assert found["damaged"] >= 300 and found["full"] >= 50 and found["removed"] >= 50
    assert found["read_only"] == found["forbidden"] == found["slow"] == len(found["commands"]) == 10
