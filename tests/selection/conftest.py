"""A worked example."""

from __future__ import annotations

import pytest

import gmmatch as gm


@pytest.fixture
def pets():
    """Five picks of ten rows in two classes, with ids and residuals."""
    return gm.Selection(
        [7, 8, 1, 0, 3], 10, classes=["cat", "dog"], group_of_pick=[0, 1, 0, 1, 0], group_sizes=[6, 4],
        residuals=[0.9, 0.7, 0.5, 0.034, 0.012], ids=["id7", "id8", "id1", "id0", "id3"],
        provenance={"method": "gm-matching"},
    )  # fmt: skip
