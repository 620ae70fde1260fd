"""Images on the device that trains on them: stored as bytes, augmented there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gmmatch.errors import InvalidInputError
from gmmatch_paper.training.recipes import Recipe

# Images that are augmented at once: enough for a GPU to work in large strokes, few enough to fit beside
# the data.
_AT_ONCE = 16384


@dataclass(frozen=True)
class Images:
    """Images and labels on one device.

    ``pixels`` is uint8 of shape (n, height, width, channels); ``codes`` holds one class number per image.
    ``mean`` and ``deviation`` are per channel, of pixels between 0 and 1.
    """

    pixels: Tensor
    codes: Tensor
    mean: Tensor
    deviation: Tensor

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def device(self) -> torch.device:
        """Where the images are."""
        return self.pixels.device

    @property
    def size(self) -> int:
        """The longer side of an image."""
        return int(max(self.pixels.shape[1:3]))

    @property
    def channels(self) -> int:
        """1 for gray images, 3 for color."""
        return int(self.pixels.shape[3])

    def normalized(self, pixels: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return bytes (n, h, w, c) as the network wants them: (n, c, h, w), channels last in memory."""
        scale = (1.0 / (255.0 * self.deviation)).to(torch.float32)
        offset = (-self.mean / self.deviation).to(torch.float32)
        return torch.addcmul(offset, pixels.to(torch.float32), scale).to(dtype).permute(0, 3, 1, 2)

    def batches(
        self, size: int, dtype: torch.dtype = torch.float32
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield all images in order, not augmented: ``(row numbers, inputs, codes)``."""
        for start in range(0, len(self), size):
            rows = torch.arange(start, min(start + size, len(self)), device=self.device)
            yield (
                rows,
                self.normalized(self.pixels[start : start + size], dtype),
                self.codes[start : start + size],
            )

    def augmented(
        self,
        order: Tensor,
        recipe: Recipe,
        random: torch.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield batches of a training epoch: ``(row numbers, inputs, codes)``.

        ``order`` is cut into batches of the recipe's size; its length must be a multiple of that.
        """
        size = recipe.rows_per_step(len(self))
        at_once = max(size, _AT_ONCE // size * size)
        for start in range(0, len(order), at_once):
            rows = order[start : start + at_once]
            inputs = self.normalized(augment(self.pixels, rows, recipe, random), dtype)
            codes = self.codes[rows]
            for first in range(0, len(rows), size):
                yield rows[first : first + size], inputs[first : first + size], codes[first : first + size]


def put_images(
    images: Any,
    labels: Any,
    *,
    device: str | torch.device = "cpu",
    mean: Any = None,
    deviation: Any = None,
) -> Images:
    """Put images and labels on a device.

    Parameters
    ----------
    images : array of shape (n, height, width) or (n, height, width, channels)
        Bytes, or floats between 0 and 1, which are rounded to bytes.
    labels : array of shape (n,)
        Class numbers from 0.
    device
        Where to keep them.
    mean, deviation : one number per channel, optional
        For the normalization; by default those of these images. Test images need the training images'.

    Examples
    --------
    >>> data = put_images(np.zeros((2, 8, 8), dtype=np.uint8), [0, 1])
    >>> data.pixels.shape
    torch.Size([2, 8, 8, 1])
    """
    pixels = torch.as_tensor(_as_bytes(images)).to(device)
    codes = torch.as_tensor(np.asarray(labels)).to(device)
    if codes.shape != (len(pixels),):
        raise InvalidInputError(
            f"labels has shape {tuple(codes.shape)} for {len(pixels)} images: expected one label for each."
        )
    if codes.dtype.is_floating_point or (len(codes) and int(codes.min()) < 0):
        raise InvalidInputError("labels must be class numbers from 0: integers, none of them negative.")
    if mean is None or deviation is None:
        found_mean, found_deviation = _channel_statistics(pixels)
        mean = found_mean if mean is None else mean
        deviation = found_deviation if deviation is None else deviation
    return Images(
        pixels,
        codes.long(),
        torch.as_tensor(mean, dtype=torch.float32, device=device),
        torch.as_tensor(deviation, dtype=torch.float32, device=device),
    )


def augment(pixels: Tensor, rows: Tensor, recipe: Recipe, random: torch.Generator) -> Tensor:
    """Return bytes of the images ``rows``, cropped, flipped and cut as the recipe says.

    Every pixel is looked up once where the crop and the flip send it, so nothing is padded or copied.
    """
    height, width = pixels.shape[1:3]
    device, count, padding = pixels.device, len(rows), recipe.crop_padding
    y = torch.arange(height, device=device).expand(count, height)
    x = torch.arange(width, device=device).expand(count, width)
    if recipe.flip:
        by_chance = torch.rand(count, 1, generator=random, device=device) < 0.5
        x = torch.where(by_chance, width - 1 - x, x)
    if padding:
        shifts = torch.randint(-padding, padding + 1, (2, count, 1), generator=random, device=device)
        y, x = y + shifts[0], x + shifts[1]
        if recipe.crop_fill == "mirrored":
            y, x = _mirror(y, height), _mirror(x, width)
    inside = ((y >= 0) & (y < height))[:, :, None] & ((x >= 0) & (x < width))[:, None, :]
    if recipe.cutout:
        # A square that suits CIFAR would be all of a small image.
        side = max(1, min(recipe.cutout, min(height, width) // 4))
        inside &= ~_squares(count, height, width, side, random, device)
    y, x = y.clamp(0, height - 1), x.clamp(0, width - 1)
    found = pixels[rows[:, None, None], y[:, :, None], x[:, None, :]]
    return found * inside[..., None] if padding or recipe.cutout else found


def _mirror(places: Tensor, length: int) -> Tensor:
    """Return places within an image for places beyond its border, mirrored at its outermost pixels."""
    last = length - 1
    return last - (last - places.abs()).abs()


def _squares(
    count: int, height: int, width: int, side: int, random: torch.Generator, device: torch.device
) -> Tensor:
    """Return where the squares to cut lie, one per image, clipped at the border."""
    centers = torch.rand(2, count, 1, generator=random, device=device)
    rows = torch.arange(height, device=device) - (centers[0] * height).floor() + side // 2
    columns = torch.arange(width, device=device) - (centers[1] * width).floor() + side // 2
    return ((rows >= 0) & (rows < side))[:, :, None] & ((columns >= 0) & (columns < side))[:, None, :]


def _as_bytes(images: Any) -> Any:
    found = images if isinstance(images, Tensor) else np.asarray(images)
    if found.ndim == 3:
        found = found[..., None]
    if found.ndim != 4 or found.shape[3] not in (1, 3):
        raise InvalidInputError(
            f"images has shape {tuple(found.shape)}: expected (n, height, width) or (n, height, width, 1 or 3)."
        )
    if len(found) == 0:
        raise InvalidInputError("images is empty: there is nothing to train on.")
    if str(found.dtype).rpartition(".")[2] == "uint8":
        return found
    if not (float(found.min()) >= 0 and float(found.max()) <= 1):
        raise InvalidInputError(
            f"images holds {found.dtype} from {float(found.min()):g} to {float(found.max()):g}: "
            "expected bytes (uint8), or floats between 0 and 1."
        )
    scaled = found * 255 + 0.5
    return scaled.to(torch.uint8) if isinstance(scaled, Tensor) else scaled.astype(np.uint8)


def _channel_statistics(pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and deviation per channel, from how often each byte occurs."""
    levels = torch.arange(256, dtype=torch.float64)
    means, deviations = [], []
    for channel in range(pixels.shape[3]):
        counts = torch.bincount(pixels[..., channel].flatten(), minlength=256).double().cpu()
        share = counts / counts.sum()
        mean = (share * levels).sum()
        means.append(mean / 255)
        deviations.append(((share * (levels - mean) ** 2).sum().sqrt() / 255).clamp(min=1e-3))
    return torch.stack(means), torch.stack(deviations)
