"""Changing the size of pictures as Pillow does: by Pillow itself, or on the device of the model, to the last bit.

Pillow resizes along rows, then along columns. A new pixel is a sum of old ones with whole weights, 2²² in total, and
is rounded to a byte after each of the two steps. So a step is a matrix product, and the matrix is what Pillow makes
of single bright pixels. It is cut in two, upper and lower digits, each of at most 11 bits: then every product and
every sum is exact in float32, even in the shorter TF32 of a GPU's matrix units.

On one core Pillow takes 2.1 ms to resize a photograph of 500 × 375 pixels that is decoded in 0.8 ms, and 0.43 ms to
enlarge one of 32 × 32 that is decoded in 0.03 ms; a GPU does either beside the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gmmatch.data.images import load_image
from gmmatch.encoders.base import Items

SHAPES = ((48, 32), (32, 48), (40, 300), (211, 37), (257, 255), (97, 61), (333, 500), (224, 224))
"""Heights and widths on which a short cut is tried before it is taken."""

_WEIGHT_BITS, _LOWER = 22, 12  # bits of Pillow's weights, and how many of them are lower digits
_DIGITS = 1 << (_WEIGHT_BITS - _LOWER)
_MOST_PIXELS = 1 << 19  # of a picture that goes to the device as it is
_MOST_SHRINKING = 4  # sums of lower digits are exact for 32 weights of 11 bits; this makes 25 at most
_PIXELS_AT_ONCE = 1 << 24  # on the device, in float32
_MOST_KNOWN = 500  # matrices, of 1 MB at most for 224 pixels
SELDOM = 4
"""Pictures of a size that came no more often are left to Pillow: a matrix costs as much as resizing them."""

Axis: TypeAlias = tuple[int, int, int, int]
"""Pixels before and after resizing; the first one that is kept after it, and how many."""


@dataclass(frozen=True)
class Recipe:
    """How a processor changes the size of a picture.

    It is small and does not need ``transformers``, so that other processes can do it.
    """

    size: tuple[int, int] | int | None
    resample: int
    crop: tuple[int, int] | None

    def __call__(self, picture: Any) -> NDArray[np.uint8]:
        """Return the bytes of the resized picture, of shape (height, width, 3), by Pillow."""
        (_, _, top, height), (_, _, left, width) = self.axes(picture.height, picture.width)
        return np.asarray(self.resized(picture).crop((left, top, left + width, top + height)))

    def resized(self, picture: Any) -> Any:
        """Return a picture of the new size, of which nothing is cut off."""
        rows, columns = self.axes(picture.height, picture.width)
        return picture if self.size is None else picture.resize((columns[1], rows[1]), self.resample)

    def axes(self, height: int, width: int) -> tuple[Axis, Axis]:
        """Say what becomes of the rows and of the columns of a picture."""
        new = self.size if isinstance(self.size, tuple) else (height, width)
        if isinstance(self.size, int):
            edge = self.size
            new = (
                (int(edge * height / width), edge) if width <= height else (edge, int(edge * width / height))
            )
        kept = self.crop or new
        return (
            (height, new[0], (new[0] - kept[0]) // 2, kept[0]),
            (width, new[1], (new[1] - kept[1]) // 2, kept[1]),
        )


@dataclass(frozen=True)
class Decoding:
    """Decodes pictures for a :class:`Resizer`, and resizes those that it should not get; what other processes do."""

    recipe: Recipe
    exact: bool = True
    counts: Counter[tuple[int, int]] = field(default_factory=Counter, compare=False)

    def __call__(self, items: Items) -> list[NDArray[np.uint8]]:
        """Return the bytes of each picture."""
        return [np.asarray(self._decoded(item)) for item in items]

    def _decoded(self, item: Any) -> Any:
        picture = load_image(item)
        shape = picture.height, picture.width
        self.counts[shape] += 1
        if self.exact and self.counts[shape] > SELDOM and suits_device(self.recipe, *shape):
            return picture
        return self.recipe.resized(picture)  # to a size that is not changed again


def suits_device(recipe: Recipe, height: int, width: int) -> bool:
    """Tell whether a :class:`Resizer` has room for a picture, and Pillow would begin with the rows."""
    rows, columns = recipe.axes(height, width)
    near = all(old <= _MOST_SHRINKING * new for old, new, *_ in (rows, columns))
    # If many rows go and few columns, Pillow begins with the columns from version 13 on.
    rows_first = rows[0] - rows[1] <= max(0, 2 * (columns[0] - columns[1]))
    return near and rows_first and height * width <= _MOST_PIXELS


class Resizer:
    """Follows a recipe on a device, for many pictures at once."""

    def __init__(self, recipe: Recipe, torch: Any, device: str) -> None:
        self.recipe, self.torch, self.device = recipe, torch, device
        self.known: dict[Axis, Any] = {}

    @cached_property
    def decoding(self) -> Decoding:
        """What has to be done before; all of it, if this device turns out to compute less exactly than it should."""
        from PIL import Image

        for shape in SHAPES:
            noise = np.random.default_rng(shape[0]).integers(0, 256, (1, *shape, 3), dtype=np.uint8)
            if suits_device(self.recipe, *shape):
                levels = self(self.torch.from_numpy(noise).to(self.device)).permute(0, 1, 3, 2)[0]
                if not np.array_equal(levels.cpu().numpy(), self.recipe(Image.fromarray(noise[0]))):
                    return Decoding(self.recipe, exact=False)
        return Decoding(self.recipe)

    def __call__(self, pictures: Any) -> Any:
        """Return levels of shape (pictures, height, 3, width), of a tensor of pictures or a list of them.

        Those of a list may have several shapes, as long as they become equally large.
        """
        torch = self.torch
        if torch.is_tensor(pictures):
            return self._alike(pictures)
        axes = [self.recipe.axes(*picture.shape[:2]) for picture in pictures]
        done = np.array([all(old == new for old, new, *_ in both) for both in axes])
        if done.all():
            kept = [
                picture[top : top + height, left : left + width]
                for picture, ((*_, top, height), (*_, left, width)) in zip(pictures, axes, strict=True)
            ]
            return torch.stack(kept).permute(0, 1, 3, 2)
        if done.any():
            order = np.argsort(~done, kind="stable")
            parts = [self([pictures[i] for i in np.flatnonzero(done == which)]) for which in (True, False)]
            return torch.cat(parts)[torch.from_numpy(np.argsort(order))]
        rows, columns = ([both[axis] for both in axes] for axis in (0, 1))
        step = self._at_once(*map(set, (rows, columns)))
        parts = [
            self._padded(pictures[i : i + step], rows[i : i + step], columns[i : i + step])
            for i in range(0, len(axes), step)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _alike(self, pictures: Any) -> Any:
        """Pictures of one shape, by commands that depend on nothing else."""
        rows, columns = self.recipe.axes(*pictures.shape[1:3])
        if all(old == new for old, new, *_ in (rows, columns)):
            (*_, top, height), (*_, left, width) = rows, columns
            return pictures[:, top : top + height, left : left + width].permute(0, 1, 3, 2)
        step = self._at_once({rows}, {columns})
        parts = [self._resized(chunk, [rows], [columns]) for chunk in pictures.split(step)]
        return parts[0] if len(parts) == 1 else self.torch.cat(parts)

    def _at_once(self, rows: set[Axis], columns: set[Axis]) -> int:
        tallest, widest = (max(max(old, kept) for old, _, _, kept in axis) for axis in (rows, columns))
        return max(1, _PIXELS_AT_ONCE // (tallest * widest))

    def _padded(self, pictures: Sequence[Any], rows: list[Axis], columns: list[Axis]) -> Any:
        """Pictures of several shapes; what is missing is black, and has no weight."""
        shape = (len(rows), max(old for old, *_ in rows), max(old for old, *_ in columns), 3)
        levels = self.torch.zeros(shape, dtype=self.torch.uint8, device=self.device)
        for padded, picture in zip(levels, pictures, strict=True):
            padded[: picture.shape[0], : picture.shape[1]] = picture
        return self._resized(levels, rows, columns)

    def _resized(self, levels: Any, rows: list[Axis], columns: list[Axis]) -> Any:
        """Resize pictures; there are axes for each of them, or for all."""
        torch = self.torch
        count, tallest, widest, _ = levels.shape
        lines = levels.permute(0, 1, 3, 2).to(torch.float32).reshape(count, tallest * 3, widest)
        upper, lower = self._weights(columns, count)
        lines = _scaled(self._product(lines, upper), self._product(lines, lower)).floor_()
        lines = lines.view(count, tallest, -1)
        upper, lower = (weights.mT for weights in self._weights(rows, count))
        lines = _scaled(self._product(upper, lines), self._product(lower, lines)).to(torch.uint8)
        return lines.view(count, rows[0][3], 3, columns[0][3])

    def _product(self, first: Any, second: Any) -> Any:
        """An exact product; in TF32, whose 11 bits are enough here, where a GPU has it."""
        torch = self.torch
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if first.is_cuda else "highest")
        try:
            return torch.bmm(first, second)
        finally:
            torch.set_float32_matmul_precision(before)

    def _weights(self, axes: Sequence[Axis], count: int) -> tuple[Any, Any]:
        """Digits of the weights before and after the point, each of shape (pictures, pixels before, pixels kept)."""
        numbers = {axis: number for number, axis in enumerate(dict.fromkeys(axes))}
        most = max(old for old, *_ in axes)
        pad = self.torch.nn.functional.pad
        stacked = self.torch.stack([pad(self._axis(axis), (0, 0, 0, most - axis[0])) for axis in numbers], 1)
        if len(numbers) == 1:
            upper, lower = stacked.expand(-1, count, -1, -1)
        else:
            upper, lower = stacked[:, [numbers[axis] for axis in axes]]
        return upper, lower

    def _axis(self, axis: Axis) -> Any:
        if axis not in self.known:
            from PIL import Image

            if len(self.known) >= _MOST_KNOWN:
                self.known = {}  # not emptied: a recording may read what it has
            old, new, first, count = axis
            bright = Image.fromarray(np.eye(old, dtype=np.int32) << _WEIGHT_BITS)
            weights = np.asarray(bright.resize((new, old), self.recipe.resample))[:, first : first + count]
            upper = np.rint(weights / (1 << _LOWER))
            lower = weights / (1 << _LOWER) - upper
            both = np.stack([upper / _DIGITS, lower]).astype(np.float32)
            self.known[axis] = self.torch.from_numpy(both).to(self.device)
        return self.known[axis]


def _scaled(upper: Any, lower: Any) -> Any:
    """Add the digits up, and half a level, as Pillow does; what follows the point is still to be cut off."""
    return upper.add_(lower.add_(_DIGITS // 2).floor_(), alpha=1 / _DIGITS).clamp_(0, 255)
