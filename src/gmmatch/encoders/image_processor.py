"""A vision model's own image processor, called in the cheapest way that gives the same numbers.

Most processors end with two steps that treat every pixel alike: rescale to 0..1, subtract a mean and divide
by a deviation. A pixel has 256 levels, so both steps are one look-up in a table of 256 numbers per
colour, which the processor itself fills. That is faster, and what is not looked up yet is a quarter of
the size: what a GPU gets is bytes. A processor that does anything else, as shown by a few pictures when
it is loaded, is called in full.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError

_LEVELS = 256


class ImageProcessor:
    """Turns a picture into what the model takes, as the model's processor would.

    Parameters
    ----------
    processor
        An image processor of ``transformers``.

    Attributes
    ----------
    table : array of shape (3, 256) or None
        The number that stands for each level of each colour; None if the processor is called in full.
    """

    def __init__(self, processor: Any) -> None:
        self.processor = processor
        self.table = self._find_table()

    def __call__(self, picture: Any) -> NDArray[np.float32]:
        """Return the model's input, float32 of shape (3, height, width)."""
        return self.look_up(self.levels(picture))

    def levels(self, picture: Any) -> NDArray[Any]:
        """Return bytes for :meth:`look_up`, or the model's input itself if there is no table."""
        if self.table is None:
            return self._in_full(picture)
        return self._call(picture, do_rescale=False, do_normalize=False)

    def look_up(self, levels: NDArray[Any]) -> NDArray[np.float32]:
        """Return the model's input that belongs to what :meth:`levels` returned."""
        if self.table is None:
            return levels
        values = np.empty(levels.shape, dtype=np.float32)
        for channel, table in enumerate(self.table):
            # "clip" never clips a byte here; it spares NumPy a second pass that looks for bad indices.
            np.take(table, levels[channel], out=values[channel], mode="clip")
        return values

    def settings(self) -> dict[str, Any]:
        """Return what the processor was set up with, without what a version of transformers adds to it."""
        settings: dict[str, Any] = self.processor.to_dict()
        return {key: value for key, value in settings.items() if value is not None and key[0] != "_"}

    def _call(self, picture: Any, **options: Any) -> NDArray[Any]:
        pixels = np.asarray(self.processor(images=[picture], return_tensors="np", **options)["pixel_values"])
        if pixels.ndim != 4 or len(pixels) != 1:
            raise InvalidInputError(
                f"encoder: {type(self.processor).__name__} makes {pixels.shape} numbers of one picture; gmmatch "
                "handles processors that make one picture of it, of shape (1, channels, height, width)."
            )
        image: NDArray[Any] = pixels[0]
        return image

    def _in_full(self, picture: Any) -> NDArray[np.float32]:
        return self._call(picture).astype(np.float32, copy=False)

    def _find_table(self) -> NDArray[np.float32] | None:
        from PIL import Image

        ramp = np.arange(_LEVELS, dtype=np.uint8).reshape(16, 16, 1).repeat(3, axis=2)
        as_is = {"do_resize": False, "do_center_crop": False, "do_pad": False}
        try:
            values = self._call(Image.fromarray(ramp), **as_is)
            if values.shape != (3, 16, 16):
                return None
            self.table = values.reshape(3, _LEVELS).astype(np.float32)
            for height, width in ((48, 32), (40, 300), (257, 255)):
                # Noise has every level in it, and the resizing overshoots at its edges.
                noise = np.random.default_rng(height).integers(0, _LEVELS, (height, width, 3), dtype=np.uint8)
                picture = Image.fromarray(noise)
                levels = self.levels(picture)
                if levels.dtype != np.uint8 or not np.array_equal(
                    self.look_up(levels), self._in_full(picture)
                ):
                    return None
        except (TypeError, ValueError, KeyError, IndexError):  # it does not know these options
            return None
        return self.table
