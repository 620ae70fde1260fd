"""Fog."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch_paper.corruption.noise import Images, Levels, Streams, at_severity, clipped, drawn


@dataclass(frozen=True)
class Fog:
    """Lay fog over the image, which reduces its contrast.

    A pixel x becomes (1 − a) x + a · brightness. Its opacity a is the severity's, times something from
    ``thinnest`` to 1 that a random field of fractal clouds says.

    Parameters
    ----------
    opacities : tuple of 5 floats
        Of the thickest fog, for each severity.
    brightness : float
        Of the fog, from 0 to 1.
    thinnest : float
        Opacity where the fog is thinnest, as a share of the thickest.
    roughness : float
        How fast the clouds' amplitude falls with their frequency, as frequency to the power of minus
        this: smaller is rougher.

    Examples
    --------
    >>> foggy = Fog(brightness=1.0)(np.zeros((1, 8, 8, 1)), 5, [np.random.default_rng(0)])
    >>> round(float(foggy.max()), 3), round(float(foggy.min()), 3)
    (0.9, 0.36)
    """

    opacities: Levels = (0.35, 0.50, 0.65, 0.78, 0.90)
    brightness: float = 0.92
    thinnest: float = 0.4
    roughness: float = 1.6

    name = "fog"

    def __call__(self, images: Images, severity: int, streams: Streams) -> Images:
        """Return copies of the images in fog."""
        field = clouds(images.shape[1:3], streams, self.roughness)
        thickness = at_severity(self.opacities, severity) * (self.thinnest + (1.0 - self.thinnest) * field)
        opacity = thickness.astype(images.dtype)[..., None]
        return clipped(images + opacity * (images.dtype.type(self.brightness) - images))


def clouds(size: tuple[int, int], streams: Streams, roughness: float = 1.6) -> NDArray[np.float64]:
    """Return fields from 0 to 1, (b, h, w), whose amplitude falls with a power of the frequency, as fractals' does.

    White noise is filtered in Fourier space, which works for every size, where the usual midpoint
    displacement needs a power of two.
    """
    # On twice the size, as the fields repeat themselves at their borders.
    height, width = 2 * size[0], 2 * size[1]
    frequency = np.hypot(
        np.fft.fftfreq(height)[:, None] * height, np.fft.rfftfreq(width)[None, :] * width * (height / width)
    )
    frequency[0, 0] = np.inf
    noise = drawn(streams, lambda random: random.standard_normal((height, width), dtype=np.float32))
    spectrum = np.fft.rfft2(noise.astype(np.float64)) * frequency**-roughness
    field = np.fft.irfft2(spectrum, s=(height, width))[:, : size[0], : size[1]]
    low, high = field.min(axis=(1, 2), keepdims=True), field.max(axis=(1, 2), keepdims=True)
    return np.asarray((field - low) / np.maximum(high - low, 1e-300))
