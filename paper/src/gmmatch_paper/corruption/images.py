"""Corrupted images: which of them, by what, and in whatever form the images come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch_paper.arrays import Indices
from gmmatch_paper.corruption.kinds import ImageKind, as_distortions
from gmmatch_paper.corruption.noise import Distortion
from gmmatch_paper.corruption.result import Corrupted
from gmmatch_paper.corruption.seeding import RateAndSeed, row_stream

# Pixels that are worked on at a time: enough to make loops of Python negligible, few enough for the cache.
_BLOCK_NUMBERS = 1 << 20
_MOST_CHANNELS = 4


@dataclass(frozen=True, kw_only=True)
class ImageCorruption(RateAndSeed):
    """Corrupt a share of some images.

    Parameters
    ----------
    kind : str, distortion, or several
        ``"gaussian-noise"``, ``"occlusion"``, ``"low-resolution"``, ``"fog"``, ``"motion-blur"``,
        ``"uniform-noise"``, ``"random-patches"``, ``"cutout"``, ``"random-image"``; an object of these with
        settings of its own, such as ``Occlusion(fill="black")``; or several, of which each corrupted image
        gets one, all equally likely. ``"mixture"``, the default, are the first five, as in the paper's
        classification experiments; ``"xia"`` the same as severe as in Xia et al. (2023);
        ``"generation-mixture"`` the five of its experiments on generation.
    rate : float
        Share of the images. Exactly rate · n of them, rounded half up, are corrupted.
    severity : int
        From 1 (mild) to 5 (severe).
    seed : int
        An image's result depends on the seed, its own pixels and its row number alone. With the same
        seed, a higher rate corrupts the same images and more, and a higher severity in the same way.

    Examples
    --------
    >>> images = np.full((100, 28, 28), 128, dtype=np.uint8)
    >>> result = ImageCorruption(rate=0.2, severity=3, seed=0).apply(images)
    >>> result.data.shape, result.data.dtype, int(result.mask.sum())
    ((100, 28, 28), dtype('uint8'), 20)
    >>> sorted(result.counts)
    ['fog', 'gaussian-noise', 'low-resolution', 'motion-blur', 'occlusion']
    """

    kind: ImageKind = "mixture"
    severity: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        whole = isinstance(self.severity, Integral) and not isinstance(self.severity, bool)
        if not whole or not 1 <= self.severity <= 5:
            raise InvalidInputError(f"severity={self.severity!r}: give an integer from 1 to 5.")
        as_distortions(self.kind)

    def apply(self, images: Any, /) -> Corrupted:
        """Return a copy of the images, some of them corrupted.

        Parameters
        ----------
        images
            An array of shape (n, h, w) or (n, h, w, c), uint8 or floats from 0 to 1; or a list of PIL images or of
            arrays (h, w[, c]), of any sizes. PIL images come back as PIL images, gray ones as mode L and all
            others as RGB.

        Returns
        -------
        Corrupted
        """
        if not isinstance(images, (np.ndarray, Sequence)) or isinstance(images, (str, bytes)):
            raise InvalidTypeError(
                f"images has type {type(images).__name__}: give a NumPy array, or a list of images."
            )
        mask = self.choose(len(images)).copy()
        chosen = np.flatnonzero(mask)
        data: Any
        kinds = np.full(len(images), "", dtype=f"<U{max(len(d.name) for d in self.distortions)}")
        if isinstance(images, np.ndarray):
            check_images(images, "images")
            data = np.array(images)
            data[chosen], kinds[chosen] = self._corrupt_array(images, chosen, chosen)
        else:
            data = []
            for i, (image, corrupt) in enumerate(zip(images, mask.tolist(), strict=True)):
                copy, kinds[i] = self.corrupt(image, i) if corrupt else (image.copy(), "")
                data.append(copy)
        return Corrupted(data, mask, kinds)

    @property
    def distortions(self) -> tuple[Distortion, ...]:
        """What the kind stands for."""
        return as_distortions(self.kind)

    def corrupt(self, image: Any, row: int) -> tuple[Any, str]:
        """Return a corrupted copy of one image, whatever the rate, and the name of what was done to it.

        Parameters
        ----------
        image
            A PIL image, or an array of shape (h, w) or (h, w, c).
        row
            Its number.
        """
        if isinstance(image, np.ndarray):
            check_images(image[None], "image")
            corrupted, names = self._corrupt_array(image[None], np.array([0]), np.array([row]))
            return corrupted[0], str(names[0])
        from PIL import Image

        from gmmatch.data import load_image

        gray = getattr(image, "mode", "") in ("1", "L")
        picture = load_image(image)
        pixels, name = self.corrupt(np.asarray(picture.convert("L") if gray else picture), row)
        return Image.fromarray(pixels), name

    def _corrupt_array(
        self, images: NDArray[Any], places: Indices, rows: Indices
    ) -> tuple[NDArray[Any], NDArray[np.str_]]:
        """Corrupt the images at these places, which have these row numbers."""
        distortions = self.distortions
        streams = [row_stream(self.seed, row) for row in rows.tolist()]
        # The first draw of a stream is the kind, so this comes before anything else.
        count = len(distortions)
        drawn = np.array([stream.integers(count) if count > 1 else 0 for stream in streams], dtype=np.int64)
        out = np.empty((len(places), *images.shape[1:]), dtype=images.dtype)
        at_a_time = max(1, _BLOCK_NUMBERS // max(1, int(np.prod(images.shape[1:]))))
        for number, distortion in enumerate(distortions):
            mine = np.flatnonzero(drawn == number)
            for first in range(0, len(mine), at_a_time):
                part = mine[first : first + at_a_time]
                block = to_unit(images[places[part]])
                corrupted = distortion(block, self.severity, [streams[i] for i in part.tolist()])
                out[part] = from_unit(corrupted, images.dtype).reshape(len(part), *images.shape[1:])
        names = np.array([distortion.name for distortion in distortions])
        return out, names[drawn]


def check_images(images: NDArray[Any], name: str) -> None:
    """Raise unless this is an array of images: uint8, or floats from 0 to 1, with the channels last."""
    shape = images.shape
    if images.ndim not in (3, 4):
        raise InvalidInputError(
            f"{name} has shape {shape}: give images of shape (n, h, w) or (n, h, w, c), as "
            "images.reshape(-1, 28, 28) makes of rows of 784 pixels."
        )
    if images.ndim == 4 and not 1 <= shape[3] <= _MOST_CHANNELS:
        raise InvalidInputError(
            f"{name} has shape {shape}: the channels come last; images.transpose(0, 2, 3, 1) moves them there."
        )
    if 0 in shape[1:]:
        raise InvalidInputError(f"{name} has shape {shape}: an image needs at least one pixel.")
    if images.dtype == np.uint8:
        return
    if images.dtype.kind != "f":
        raise InvalidTypeError(f"{name} has dtype {images.dtype}: give uint8, or floats from 0 to 1.")
    if images.size and not (float(images.min()) >= 0.0 and float(images.max()) <= 1.0):  # NaN fails too
        raise InvalidInputError(
            f"{name} has values from {float(images.min()):.4g} to {float(images.max()):.4g}: floats go from 0 to 1, "
            "so divide them by 255 or undo their normalization."
        )


def to_unit(images: NDArray[Any]) -> NDArray[np.floating[Any]]:
    """Return images as floats from 0 to 1 of shape (b, h, w, c)."""
    block = images[..., None] if images.ndim == 3 else images
    if block.dtype == np.uint8:
        return block.astype(np.float32) / np.float32(255.0)
    return block.astype(np.float64 if block.dtype.itemsize > 4 else np.float32, copy=False)


def from_unit(images: NDArray[np.floating[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return floats from 0 to 1 in the type of the images that they came from."""
    if dtype == np.uint8:
        # No value above 1 gets here, so half up is within 255.
        return (images * 255.0 + 0.5).astype(np.uint8)
    return images.astype(dtype, copy=False)
