"""The ways to corrupt images, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from gmmatch.errors import InvalidInputError, InvalidTypeError, unknown_name
from gmmatch_paper.corruption.blurring import LowResolution, MotionBlur
from gmmatch_paper.corruption.noise import Distortion, GaussianNoise, RandomImage, UniformNoise
from gmmatch_paper.corruption.patches import Cutout, Occlusion, RandomPatches
from gmmatch_paper.corruption.weather import Fog

ImageKind: TypeAlias = "str | Distortion | Sequence[str | Distortion]"
"""A name, an object with settings of its own, or several of either, of which each image gets one."""

CLASSIFICATION_KINDS = ("gaussian-noise", "occlusion", "low-resolution", "fog", "motion-blur")
"""The five of the paper's ``sec:exp-classification``."""

GENERATION_KINDS = ("gaussian-noise", "uniform-noise", "random-patches", "cutout", "random-image")
"""The five of the paper's ``sec:exp-generation``."""

XIA: tuple[Distortion, ...] = (
    GaussianNoise(deviations=(1.0,) * 5, mean=0.2),
    Cutout(sides=(0.5,) * 5),
    LowResolution(blocks=((2, 2),) * 5),
    Fog(opacities=(0.9,) * 5, brightness=0.5, thinnest=0.95),
    MotionBlur(lengths=(15 / 32,) * 5),
)
"""The five as severe as in Xia et al. (2023), whose setup the paper takes, for images of 32 pixels.

Noise is drawn from N(0.2, 1); a black box has 16 × 16 pixels; 8 × 8 pixels are left; fog is gray and nearly opaque; a
blur has 15 pixels. There is one severity. In Xia et al. the box has one place and the blur one direction, and their
code lets noise below 0 wrap around and writes fog as fractions into bytes, which is black; here both are clipped.
"""

_MIXTURES: dict[str, Sequence[str | Distortion]] = {
    "mixture": CLASSIFICATION_KINDS,
    "xia": XIA,
    "generation-mixture": GENERATION_KINDS,
}
_DISTORTIONS: dict[str, type[Any]] = {
    cls.name: cls
    for cls in (
        GaussianNoise,
        Occlusion,
        LowResolution,
        Fog,
        MotionBlur,
        UniformNoise,
        RandomPatches,
        Cutout,
        RandomImage,
    )
}


def image_kinds() -> tuple[str, ...]:
    """Return the names of all kinds of image corruption, mixtures included.

    Examples
    --------
    >>> image_kinds()[-3:]
    ('mixture', 'xia', 'generation-mixture')
    """
    return (*_DISTORTIONS, *_MIXTURES)


def distortion_class(name: str) -> type[Any]:
    """Return the class of a distortion, by its name."""
    if name not in _DISTORTIONS:
        raise unknown_name("kind", name, image_kinds(), "there is no such corruption of images; there are")
    return _DISTORTIONS[name]


def as_distortions(kind: ImageKind) -> tuple[Distortion, ...]:
    """Return what a kind stands for: one distortion, or those of a mixture."""
    if isinstance(kind, str):
        if kind not in _MIXTURES:
            return (distortion_class(kind)(),)
        kind = _MIXTURES[kind]
    if isinstance(kind, Sequence):
        if not kind:
            raise InvalidInputError("kind is empty: give at least one corruption.")
        return tuple(distortion for one in kind for distortion in as_distortions(one))
    if not (callable(kind) and isinstance(getattr(kind, "name", None), str)):
        raise InvalidTypeError(
            f"kind has type {type(kind).__name__}: give a name ({', '.join(image_kinds())}), a distortion, or "
            "several of them."
        )
    return (kind,)
