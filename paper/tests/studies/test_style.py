"""Figures have the colours of the report's page."""

from __future__ import annotations

from gmmatch_paper.studies import style
from tests.report.test_colors import LIGHT


def test_methods_have_the_colors_that_they_have_in_all_figures():
    assert LIGHT["--kept"] == style.COLORS["gm-matching"].lower()
    assert LIGHT["--c1"] == style.COLORS["herding"].lower()
    assert LIGHT["--c2"] == style.COLORS["easy"].lower()
    assert LIGHT["--c3"] == style.COLORS["moderate"].lower()
    assert LIGHT["--c5"] == style.COLORS["hard"].lower()
    assert LIGHT["--muted"] == style.COLORS["random"].lower()
