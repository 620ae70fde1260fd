"""The page's colors: those of the project's figures, and different for color-blind eyes too."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from gmmatch import report

ASSETS = Path(report.__file__).parent / "assets"
CSS = (ASSETS / "style.css").read_text(encoding="utf-8")
BLOCKS = [
    dict(re.findall(r"(--[a-z0-9-]+): (#[0-9a-f]{6})", block))
    for block in re.findall(r":root[^{]*\{([^}]*--paper[^}]*)\}", CSS)
]
LIGHT, DARK = BLOCKS[0], BLOCKS[1]
CLASSES = ["--picked", "--c1", "--c2", "--c3", "--c5", "--c4", "--c6"]
# Machado, Oliveira and Fernandes, A physiologically-based model for simulation of color vision deficiency,
# 2009, table 1, at full severity.
EYES = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def seen(color: str, eyes: str) -> np.ndarray:
    """A color as these eyes see it, in CIELAB."""
    values = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    )
    xyz = to_xyz @ np.clip(EYES[eyes] @ linear, 0.0, 1.0) / [0.95047, 1.0, 1.08883]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(one: str, other: str, eyes: str) -> float:
    return float(np.linalg.norm(seen(one, eyes) - seen(other, eyes)))


def test_both_ways_to_the_dark_theme_have_the_same_colors():
    assert len(BLOCKS) == 3 and BLOCKS[1] == BLOCKS[2]
    assert set(LIGHT) == set(DARK)


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_seven_classes_can_be_told_apart(theme, eyes):
    # A difference of 2 or 3 can just be noticed side by side; dots apart from each other need several times that.
    closest = min(difference(theme[one], theme[other], eyes) for one, other in combinations(CLASSES, 2))
    assert closest > 13.0


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_picked_rest_and_suspects_can_be_told_apart(theme, eyes):
    for one, other in combinations(("--picked", "--rest", "--wrong"), 2):
        assert difference(theme[one], theme[other], eyes) > 25.0
    # Doubtful rows differ from wrong ones by their shape as well.
    assert difference(theme["--doubtful"], theme["--rest"], eyes) > 20.0
    assert difference(theme["--doubtful"], theme["--wrong"], eyes) > 15.0


def test_every_color_that_is_used_is_defined():
    used = set(re.findall(r"var\((--[a-z0-9-]+)\)", CSS)) - {"--tone"}
    used |= set(re.findall(r'"(--[a-z0-9-]+)"', (ASSETS / "canvas.js").read_text(encoding="utf-8")))
    assert used <= set(LIGHT)
