"""Images with noise in every pixel, and images of nothing but noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError

Images: TypeAlias = NDArray[np.floating[Any]]
"""Images of one size with values from 0 to 1, shape (b, h, w, c)."""

Streams: TypeAlias = "Sequence[np.random.Generator]"
"""One generator per image."""

Levels: TypeAlias = "tuple[float, float, float, float, float]"
"""A setting for each of the severities 1 to 5."""


class Distortion(Protocol):
    """One way to corrupt images.

    An image's result may depend on its own pixels and its own generator only, so that it does not
    depend on the other images. The first random draws should not depend on the severity, so that a higher
    severity does the same to an image, only more strongly.
    """

    @property
    def name(self) -> str:
        """What it is called in masks and on the command line."""
        ...

    def __call__(self, images: Images, severity: int, streams: Streams, /) -> Images:
        """Return corrupted copies of the images, of shape (b, h, w, c), with values from 0 to 1."""
        ...


def drawn(streams: Streams, draw: Callable[[np.random.Generator], Any]) -> NDArray[Any]:
    """Return what is drawn for each image, one after another along the first axis."""
    return np.stack([np.asarray(draw(stream)) for stream in streams])


def at_severity(levels: Sequence[Any], severity: int) -> Any:
    """Return the setting for a severity."""
    if len(levels) != 5:
        raise InvalidInputError(f"{levels!r}: give five settings, one for each of the severities 1 to 5.")
    return levels[severity - 1]


def clipped(images: Images) -> Images:
    """Bring new images back to values from 0 to 1, in place."""
    np.clip(images, 0.0, 1.0, out=images)
    return images


@dataclass(frozen=True)
class GaussianNoise:
    """Add white Gaussian noise to every pixel, as a sensor in poor light does.

    Parameters
    ----------
    deviations : tuple of 5 floats
        Standard deviation for each severity, on the scale from 0 to 1. By default those of ImageNet-C
        (Hendrycks and Dietterich, 2019).
    mean : float
        Of the noise: 0.2 brightens the image by a fifth.

    Examples
    --------
    >>> GaussianNoise()(np.full((1, 2, 2, 1), 0.5), 5, [np.random.default_rng(0)]).shape
    (1, 2, 2, 1)
    """

    deviations: Levels = (0.08, 0.12, 0.18, 0.26, 0.38)
    mean: float = 0.0

    name = "gaussian-noise"

    def __call__(self, images: Images, severity: int, streams: Streams) -> Images:
        """Return noisy copies of the images."""
        shape = images.shape[1:]
        noise = drawn(streams, lambda random: random.standard_normal(shape, dtype=np.float32))
        noise *= np.float32(at_severity(self.deviations, severity))
        if self.mean:
            noise += np.float32(self.mean)
        return clipped(images + noise)


@dataclass(frozen=True)
class UniformNoise:
    """Add noise to every pixel that is uniform between minus and plus some width.

    Parameters
    ----------
    widths : tuple of 5 floats
        For each severity, on the scale from 0 to 1.

    Examples
    --------
    >>> noisy = UniformNoise(widths=(0.1,) * 5)(np.full((1, 9, 9, 1), 0.5), 3, [np.random.default_rng(0)])
    >>> bool(np.abs(noisy - 0.5).max() <= 0.1)
    True
    """

    widths: Levels = (0.14, 0.21, 0.31, 0.45, 0.66)

    name = "uniform-noise"

    def __call__(self, images: Images, severity: int, streams: Streams) -> Images:
        """Return noisy copies of the images."""
        shape = images.shape[1:]
        noise = drawn(streams, lambda random: random.random(shape, dtype=np.float32))
        noise -= np.float32(0.5)
        noise *= np.float32(2.0 * at_severity(self.widths, severity))
        return clipped(images + noise)


@dataclass(frozen=True)
class RandomImage:
    """Replace the image by one of uniform noise; the severity makes no difference.

    Examples
    --------
    >>> noise = RandomImage()(np.zeros((1, 4, 4, 3)), 1, [np.random.default_rng(0)])
    >>> noise.shape, bool(noise.min() >= 0.0), bool(noise.max() <= 1.0)
    ((1, 4, 4, 3), True, True)
    """

    name = "random-image"

    def __call__(self, images: Images, severity: int, streams: Streams) -> Images:
        """Return as many images of noise."""
        shape = images.shape[1:]
        noise = drawn(streams, lambda random: random.random(shape, dtype=np.float32))
        return noise.astype(images.dtype, copy=False)
