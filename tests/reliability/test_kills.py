"""Killed at any moment and repeated, a command ends with the bytes of an undisturbed run."""

from __future__ import annotations

import os

import pytest

from tests.reliability.counts import committed, counted
from tests.reliability.killed_commands import STORES

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")


@pytest.mark.slow
def test_every_command_at_steps_and_at_random():
    found = counted("kills", "--kills", 60, "--stride", 3)
    assert found["killed_at_random"] == 60 and found["killed_at_a_step"] >= 100


@pytest.mark.slow
def test_a_store_at_every_step_and_at_random():
    whole, each = counted("kills", "--kills", 40, "--commands", *(one.name for one in STORES))[
        "commands"
    ].values()
    assert each["killed_at_a_step"] == each["steps"] > whole["steps"] > 20


def test_the_committed_counts_are_of_a_full_run():
    found = committed("kills")
    assert found["killed_at_random"] >= 500
    assert all(one["killed_at_a_step"] == one["steps"] for one in found["commands"].values())
