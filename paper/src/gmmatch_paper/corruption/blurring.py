"""Images that lost detail: too few pixels, or a camera that moved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch_paper.corruption.noise import Images, Levels, Streams, at_severity, clipped, drawn

# Directions of motion are whole degrees, so that images with the same one are worked on together.
_DIRECTIONS = 180


@dataclass(frozen=True)
class LowResolution:
    """Reduce the image to few pixels and enlarge it again, which leaves visible blocks.

    Blocks of each severity are made of whole blocks of the one before, so that every step loses detail:
    the distance to the original grows for each single image.

    Parameters
    ----------
    blocks : tuple of 5 pairs
        Sides of a block for each severity, in units of the smallest, which has a thirty-second of the
        image's shorter side and at least 2 pixels. Which of the two is the height, a coin decides.

    Examples
    --------
    >>> image = np.arange(16.0).reshape(1, 4, 4, 1) / 16
    >>> LowResolution()(image, 1, [np.random.default_rng(0)])[0, ::2, ::2, 0]
    array([[0.15625, 0.28125],
           [0.65625, 0.78125]])
    """

    blocks: tuple[tuple[int, int], ...] = ((1, 1), (2, 1), (2, 2), (4, 2), (4, 4))

    name = "low-resolution"

    def __call__(self, images: Images, severity: int, streams: Streams) -> Images:
        """Return coarse copies of the images."""
        unit = max(2, round(min(images.shape[1:3]) / 32))
        upright = drawn(streams, lambda random: random.random() < 0.5)
        coarse = np.empty_like(images)
        for way in (False, True):
            sides = at_severity(self.blocks, severity)[:: -1 if way else 1]
            coarse[upright == way] = _block_means(images[upright == way], sides[0] * unit, sides[1] * unit)
        return clipped(coarse)


def _block_means(images: Images, height: int, width: int) -> Images:
    """Every pixel becomes the mean of its block; blocks at the far borders may be smaller."""
    planes = np.ascontiguousarray(np.moveaxis(images, 3, 1))
    shrink_rows, rows = _reduction(images.shape[1], height, images.dtype)
    shrink_columns, columns = _reduction(images.shape[2], width, images.dtype)
    small = np.matmul(np.matmul(shrink_rows, planes), shrink_columns.T)
    return np.moveaxis(small[:, :, rows[:, None], columns[None, :]], 1, 3)


def _reduction(
    length: int, block: int, dtype: np.dtype[np.floating]
) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
    """A matrix that averages blocks of pixels, and which block each pixel is in."""
    block_of = np.arange(length) // block
    member = (np.arange(block_of[-1] + 1)[:, None] == block_of).astype(dtype)
    return member / member.sum(axis=1, keepdims=True), block_of


@dataclass(frozen=True)
class MotionBlur:
    """Smear the image along a line in a random direction, as a moving camera does.

    Parameters
    ----------
    lengths : tuple of 5 floats
        Length of the line for each severity, as a share of the image's shorter side.

    Examples
    --------
    >>> flat = np.full((1, 8, 8, 3), 0.25)
    >>> bool(np.allclose(MotionBlur()(flat, 5, [np.random.default_rng(0)]), flat))
    True
    """

    lengths: Levels = (0.09, 0.15, 0.22, 0.31, 0.43)

    name = "motion-blur"

    def __call__(self, images: Images, severity: int, streams: Streams) -> Images:
        """Return smeared copies of the images; beyond its border an image goes on as its border is."""
        length = at_severity(self.lengths, severity) * min(images.shape[1:3])
        degrees = drawn(streams, lambda random: random.integers(_DIRECTIONS))
        blurred = np.empty_like(images)
        for degree in np.unique(degrees).tolist():
            together = np.flatnonzero(degrees == degree)
            blurred[together] = _convolved(images[together], line_kernel(length, degree))
        return clipped(blurred)


def line_kernel(length: float, degrees: float) -> dict[tuple[int, int], float]:
    """Return the weights of the pixels along a line through the middle, by (down, right); they sum to 1.

    Examples
    --------
    >>> {offset: round(weight, 3) for offset, weight in line_kernel(2.0, 0.0).items()}
    {(0, -1): 0.265, (0, 0): 0.471, (0, 1): 0.265}
    """
    # Points along the line, each shared among the four pixels around it.
    steps = np.linspace(-0.5, 0.5, 8 * int(np.ceil(length)) + 1) * length
    angle = np.deg2rad(degrees)
    down, right = np.round(steps * np.sin(angle), 9), np.round(steps * np.cos(angle), 9)
    top, left = np.floor(down).astype(np.int64), np.floor(right).astype(np.int64)
    below, beside = down - top, right - left
    weights: dict[tuple[int, int], float] = {}
    for dy, dx, share in (
        (0, 0, (1 - below) * (1 - beside)),
        (0, 1, (1 - below) * beside),
        (1, 0, below * (1 - beside)),
        (1, 1, below * beside),
    ):
        for y, x, weight in zip((top + dy).tolist(), (left + dx).tolist(), share.tolist(), strict=True):
            if weight > 0.0:
                weights[y, x] = weights.get((y, x), 0.0) + weight / len(steps)
    return dict(sorted(weights.items()))


def _convolved(images: Images, kernel: dict[tuple[int, int], float]) -> Images:
    """Images smeared by a kernel that is the same seen from both ends."""
    height, width = images.shape[1:3]
    reach = max(max(abs(y), abs(x)) for y, x in kernel)
    padded = np.pad(images, ((0, 0), (reach, reach), (reach, reach), (0, 0)), mode="edge")
    total = np.zeros_like(images)
    for (y, x), weight in kernel.items():
        shifted = padded[:, reach + y : reach + y + height, reach + x : reach + x + width]
        total += shifted * images.dtype.type(weight)
    return total
