"""The table of kinds in the documentation says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from gmmatch_paper.corruption import (
    Cutout,
    Fog,
    GaussianNoise,
    LowResolution,
    MotionBlur,
    Occlusion,
    RandomPatches,
    UniformNoise,
)

REFERENCE = (Path(__file__).parents[3] / "docs/api/corruption.md").read_text(encoding="utf-8")


def test_the_settings_in_the_reference_are_those_of_the_code():
    table = dict(re.findall(r"^\| `([\w-]+)` \| .*? \| (.*?) \|$", REFERENCE, flags=re.MULTILINE))
    settings = {
        "gaussian-noise": [f"{value:.2f}" for value in GaussianNoise().deviations],
        "occlusion": [f"{value:.0%}"[:-1] for value in Occlusion().areas],
        "low-resolution": [f"{2 * tall}×{2 * wide}" for tall, wide in LowResolution().blocks],
        "fog": [f"{value:.2f}" for value in Fog().opacities],
        "motion-blur": [f"{value:.0%}"[:-1] for value in MotionBlur().lengths],
        "uniform-noise": [f"{value:.2f}" for value in UniformNoise().widths],
        "random-patches": [f"{value:.0%}"[:-1] for value in RandomPatches().sides],
        "cutout": [f"{value:.0%}"[:-1] for value in Cutout().sides],
    }
    assert [*settings, "random-image"] == list(table)
    for kind, values in settings.items():
        assert ", ".join(values) in table[kind], kind
