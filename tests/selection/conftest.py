"""Lets the tests of this folder import their neighbors, and a worked example."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gmmatch.selection.selection import SelectedGroup, Selection, interleave

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def pets():
    """Five picks of ten rows in two classes, with ids and residuals."""
    groups = [
        SelectedGroup("cat", [7, 1, 3], n_rows=6, residuals=[0.9, 0.5, 0.012]),
        SelectedGroup("dog", [8, 0], n_rows=4, residuals=[0.7, 0.034]),
    ]
    order = interleave(groups)
    ids = [f"id{row}" for row in order]
    return Selection(order, n_rows=10, groups=groups, ids=ids, provenance={"method": "gm-matching"})
