"""A vision model's own image processor, called in the cheapest way that gives the same numbers.

Most processors do two things. They resize a picture and cut out its middle, which Pillow does in one call
each. And they rescale every pixel to 0..1, subtract a mean and divide by a deviation; as a pixel has 256
levels, that is one look-up in a table of 256 numbers per color, which the processor itself fills. Both
short cuts are tried on pictures of many shapes when a processor is loaded, and taken only if every bit is
the same: a processor that does anything else is called in full.

Besides time, this saves room: bytes are a quarter of the size of the numbers that they stand for, and a
GPU can resize pictures and look them up by itself (:mod:`gmmatch.encoders.resizing`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.encoders.resizing import SHAPES, Recipe
from gmmatch.errors import InvalidInputError

_LEVELS = 256


class ImageProcessor:
    """Turns a picture into what the model takes, as the model's processor would."""

    def __init__(self, processor: Any) -> None:
        self.processor = processor
        self.recipe: Recipe | None = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some complain of options that they do not have
            self.table = self._table()
            if self.table is not None:
                self._find_recipe()

    def __call__(self, picture: Any) -> NDArray[np.float32]:
        """Return the model's input, float32 of shape (3, height, width)."""
        if self.table is None:
            return self._call(picture).astype(np.float32, copy=False)
        return self.look_up(self.levels(picture))

    def levels(self, picture: Any) -> NDArray[np.uint8]:
        """Return bytes for :meth:`look_up`, of shape (height, width, 3); there must be a table."""
        if self.recipe is not None:
            return self.recipe(picture)
        return self._call(picture, do_rescale=False, do_normalize=False).transpose(1, 2, 0)

    def look_up(self, levels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the model's input that belongs to what :meth:`levels` returned."""
        assert self.table is not None
        values = np.empty((3, *levels.shape[:2]), dtype=np.float32)
        for channel, table in enumerate(self.table):
            # "clip" never clips a byte here; it spares NumPy a second pass that looks for bad indices.
            np.take(table, levels[:, :, channel], out=values[channel], mode="clip")
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

    def _table(self) -> NDArray[np.float32] | None:
        from PIL import Image

        ramp = np.arange(_LEVELS, dtype=np.uint8).reshape(16, 16, 1).repeat(3, axis=2)
        try:
            values = self._call(Image.fromarray(ramp), do_resize=False, do_center_crop=False, do_pad=False)
        except (TypeError, ValueError, KeyError):  # it does not know these options
            return None
        return values.reshape(3, _LEVELS).astype(np.float32) if values.shape == (3, 16, 16) else None

    def _find_recipe(self) -> None:
        for recipe in (*_recipes(self.settings()), None):  # None: it changes sizes by itself
            self.recipe = recipe
            if self._is_exact():
                return
        self.table = None

    def _is_exact(self) -> bool:
        """Tell whether the short cuts give the processor's own numbers."""
        from PIL import Image

        for height, width in SHAPES:
            # Noise has every level in it, and resizing overshoots at its edges.
            noise = np.random.default_rng(height).integers(0, _LEVELS, (height, width, 3), dtype=np.uint8)
            picture = Image.fromarray(noise)
            try:
                levels = self.levels(picture)
            except (TypeError, ValueError, KeyError):
                return False
            if levels.dtype != np.uint8 or not np.array_equal(self.look_up(levels), self._call(picture)):
                return False
        return True


def _recipes(settings: Mapping[str, Any]) -> Iterator[Recipe]:
    """Yield what a processor with these settings probably does."""
    resample = int(settings.get("resample", 2))
    size = _size(settings.get("size")) if settings.get("do_resize") else None
    crop = _size(settings.get("crop_size")) if settings.get("do_center_crop") else None
    crop = (crop, crop) if isinstance(crop, int) else crop
    edges = size if isinstance(size, tuple) else (size, size)
    # A middle that is larger than the picture would have to be padded, which Pillow does differently.
    if crop is None or all(edge is not None and cut <= edge for cut, edge in zip(crop, edges, strict=True)):
        yield Recipe(size, resample, crop)
    if isinstance(size, int) and settings.get("crop_pct"):  # ConvNeXT and ResNet
        yield Recipe(int(size / settings["crop_pct"]), resample, (size, size))
        yield Recipe((size, size), resample, None)


def _size(value: Any) -> tuple[int, int] | int | None:
    if isinstance(value, int):
        return value
    given = {key: edge for key, edge in dict(value or {}).items() if edge is not None}
    if set(given) == {"height", "width"}:
        return int(given["height"]), int(given["width"])
    return int(given["shortest_edge"]) if set(given) == {"shortest_edge"} else None
