"""Synthetic corruption, which remembers what was done to which row.

Every corruption is a small frozen object with a seed; its ``apply`` returns a :class:`Corrupted`: a copy of
the data, the mask of the rows that were touched, and what touched each. The attacks on a model
(:class:`PGD`, :class:`FGSM`) are loaded when they are first used: torch takes seconds to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gmmatch_paper.corruption.adversaries import FarCluster, HeavyTail, Shell, adversaries
from gmmatch_paper.corruption.blurring import LowResolution, MotionBlur
from gmmatch_paper.corruption.gross import GrossCorruption, MeanAttack
from gmmatch_paper.corruption.images import ImageCorruption
from gmmatch_paper.corruption.kinds import CLASSIFICATION_KINDS, GENERATION_KINDS, image_kinds
from gmmatch_paper.corruption.labels import PairFlip, SymmetricNoise, TransitionNoise
from gmmatch_paper.corruption.noise import Distortion, GaussianNoise, RandomImage, UniformNoise
from gmmatch_paper.corruption.patches import Cutout, Occlusion, RandomPatches
from gmmatch_paper.corruption.result import Corrupted
from gmmatch_paper.corruption.weather import Fog

if TYPE_CHECKING:
    from gmmatch_paper.corruption.adversarial import FGSM, PGD

__all__ = [
    "CLASSIFICATION_KINDS",
    "FGSM",
    "GENERATION_KINDS",
    "PGD",
    "Corrupted",
    "Cutout",
    "Distortion",
    "FarCluster",
    "Fog",
    "GaussianNoise",
    "GrossCorruption",
    "HeavyTail",
    "ImageCorruption",
    "LowResolution",
    "MeanAttack",
    "MotionBlur",
    "Occlusion",
    "PairFlip",
    "RandomImage",
    "RandomPatches",
    "Shell",
    "SymmetricNoise",
    "TransitionNoise",
    "UniformNoise",
    "adversaries",
    "image_kinds",
]


def __getattr__(name: str) -> Any:
    if name not in ("PGD", "FGSM"):
        raise AttributeError(f"module 'gmmatch_paper.corruption' has no attribute {name!r}")
    from gmmatch_paper.corruption import adversarial

    return getattr(adversarial, name)
