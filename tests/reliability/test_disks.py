"""Disks that are full, read-only, forbidden, removed or slow, and stores of which a file was damaged."""

from __future__ import annotations

import json
import os
import random

import pytest

from tests.reliability.counts import committed, run
from tests.reliability.disks import damaged


def test_a_damaged_file_of_a_store_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    counts = damaged(tmp_path, 12, random.Random(1))
    # What selecting does not read are the two files for other libraries.
    assert counts["refused by info --verify"] == 12 and counts["refused by select"] >= 6


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounting a small disk needs root"
)
def test_every_command_on_bad_disks():
    done = run("disks", "--removals", 3, "--damages", 60)
    if "mount: " in done.stderr:
        pytest.skip("file systems cannot be mounted here")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["read_only"] == found["forbidden"] == found["slow"] == len(found["commands"]) == 9


def test_the_committed_counts_are_of_every_command():
    found = committed("disks")
    assert found["damaged"] >= 300 and found["full"] >= 50 and found["removed"] >= 50
    assert found["read_only"] == found["forbidden"] == found["slow"] == len(found["commands"]) == 9
