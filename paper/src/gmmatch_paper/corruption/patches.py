"""Images of which rectangles are missing or replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch_paper.arrays import Mask
from gmmatch_paper.corruption.noise import Images, Levels, Streams, at_severity, drawn

Fill: TypeAlias = Literal["black", "noise", "either"]
"""What a patch is filled with; "either" tosses a coin for each image."""


@dataclass(frozen=True)
class Occlusion:
    """Hide a random rectangle behind black or random pixels, as an object in front of the scene does.

    Parameters
    ----------
    fill : {"either", "black", "noise"}
        What the rectangle is filled with; by default one or the other, equally likely for each image, as
        the paper says "black or noisy pixels".
    areas : tuple of 5 floats
        Share of the image that is hidden, for each severity.

    Examples
    --------
    >>> hidden = Occlusion(fill="black")(np.ones((1, 10, 10, 1)), 5, [np.random.default_rng(0)])
    >>> bool(0.3 < (hidden == 0.0).mean() < 0.5)
    True
    """

    fill: Fill = "either"
    areas: Levels = (0.06, 0.12, 0.20, 0.30, 0.42)

    name = "occlusion"

    def __post_init__(self) -> None:
        if self.fill not in ("black", "noise", "either"):
            raise InvalidInputError(f"fill={self.fill!r}: give 'black', 'noise' or 'either'.")

    def __call__(self, images: Images, severity: int, streams: Streams) -> Images:
        """Return partly hidden copies of the images."""
        # Where, how tall for its width, and the coin.
        numbers = drawn(streams, lambda random: random.random(4))
        aspects = 2.0 ** (2.0 * numbers[:, 2:3] - 1.0)
        side = np.sqrt(at_severity(self.areas, severity))
        hidden = rectangles(
            images.shape[1:3], numbers[:, None, :2], side * np.sqrt(aspects), side / np.sqrt(aspects)
        )
        if self.fill == "black":
            return _filled(images, hidden, np.zeros(1, dtype=images.dtype))
        noise = _random_pixels(images, streams)
        if self.fill == "either":
            noise[numbers[:, 3] < 0.5] = 0.0
        return _filled(images, hidden, noise)


@dataclass(frozen=True)
class RandomPatches:
    """Put several small squares of random pixels at random places.

    Parameters
    ----------
    patches : int
        How many there are; they may overlap.
    sides : tuple of 5 floats
        Side of a square for each severity, as a share of the image's.

    Examples
    --------
    >>> corrupted = RandomPatches(patches=1)(np.zeros((1, 10, 10, 1)), 4, [np.random.default_rng(0)])
    >>> int((corrupted > 0.0).sum())
    9
    """

    patches: int = 4
    sides: Levels = (0.13, 0.19, 0.26, 0.34, 0.44)

    name = "random-patches"

    def __call__(self, images: Images, severity: int, streams: Streams) -> Images:
        """Return copies of the images with patches."""
        places = drawn(streams, lambda random: random.random((self.patches, 2)))
        side = np.full((len(images), 1), at_severity(self.sides, severity))
        covered = rectangles(images.shape[1:3], places, side, side)
        return _filled(images, covered, _random_pixels(images, streams))


@dataclass(frozen=True)
class Cutout:
    """Black out one square (DeVries and Taylor, 2017).

    Parameters
    ----------
    sides : tuple of 5 floats
        Side of the square for each severity, as a share of the image's.

    Examples
    --------
    >>> cut = Cutout()(np.ones((1, 10, 10, 3)), 3, [np.random.default_rng(0)])
    >>> int((cut[..., 0] == 0.0).sum())
    16
    """

    sides: Levels = (0.22, 0.32, 0.42, 0.53, 0.65)

    name = "cutout"

    def __call__(self, images: Images, severity: int, streams: Streams) -> Images:
        """Return copies of the images with a square cut out."""
        places = drawn(streams, lambda random: random.random((1, 2)))
        side = np.full((len(images), 1), at_severity(self.sides, severity))
        covered = rectangles(images.shape[1:3], places, side, side)
        return _filled(images, covered, np.zeros(1, dtype=images.dtype))


def rectangles(
    size: tuple[int, int],
    places: NDArray[np.float64],
    heights: NDArray[np.float64],
    widths: NDArray[np.float64],
) -> Mask:
    """Return which pixels lie in the rectangles of each image.

    ``places``, of shape (b, p, 2), go from 0 (at the top, at the left) to 1, ``heights`` and ``widths`` are shares of
    the image; the result has shape (b, h, w). A larger rectangle at the same place covers a smaller one.

    Examples
    --------
    >>> corner = rectangles((3, 4), np.array([[[0.0, 0.99]]]), np.array([[0.3]]), np.array([[0.5]]))
    >>> corner[0].astype(int)
    array([[0, 0, 1, 1],
           [0, 0, 0, 0],
           [0, 0, 0, 0]])
    """
    rows = _intervals(size[0], places[..., 0], heights)
    columns = _intervals(size[1], places[..., 1], widths)
    return np.asarray((rows[..., :, None] & columns[..., None, :]).any(axis=1))


def _intervals(length: int, places: NDArray[np.float64], shares: NDArray[np.float64]) -> Mask:
    """Which of ``length`` pixels each interval covers, shape (b, p, length)."""
    lengths = np.clip(np.rint(shares * length), 1, length)
    starts = np.floor(places * (length - lengths + 1))
    pixels = np.arange(length)
    inside: Mask = (pixels >= starts[..., None]) & (pixels < (starts + lengths)[..., None])
    return inside


def _random_pixels(images: Images, streams: Streams) -> Images:
    # For the whole image, so that a larger patch has the same pixels as a smaller one and more.
    shape = images.shape[1:]
    return drawn(streams, lambda random: random.random(shape, dtype=np.float32)).astype(
        images.dtype, copy=False
    )


def _filled(images: Images, covered: Mask, filling: Images) -> Images:
    return np.where(covered[..., None], filling, images)
