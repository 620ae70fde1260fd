"""Random views of images for contrastive learning, made where the images are: crop, flip, color."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

_SMALLEST_CROP = 0.2
_WIDEST_CROP = 4 / 3
_COLOUR_STRENGTH = 0.4
_RED_GREEN_BLUE = (0.299, 0.587, 0.114)


def random_views(pixels: Tensor, random: torch.Generator) -> Tensor:
    """Return one random view of every image: a resized crop, maybe flipped, its colors changed.

    SimCLR's views but for blur and hue: a crop of 20 to 100% of the area; brightness, contrast and
    saturation by up to 40%, with a chance of 80%; gray with one of 20%.

    Parameters
    ----------
    pixels : uint8 tensor of shape (m, height, width, channels)
    random : torch.Generator
        On the same device.

    Returns
    -------
    float32 tensor of the same shape, from 0 to 255
    """
    images = pixels.permute(0, 3, 1, 2).float()
    images = recoloured(cropped(images, random), random)
    return images.permute(0, 2, 3, 1)


def cropped(images: Tensor, random: torch.Generator) -> Tensor:
    """Return a random part of every image (m, c, h, w), stretched to the full size, half of them mirrored."""
    count, device = len(images), images.device
    area = _uniform(_SMALLEST_CROP, 1.0, count, random, device)
    stretch = torch.exp(_uniform(-math.log(_WIDEST_CROP), math.log(_WIDEST_CROP), count, random, device))
    width, height = ((area * stretch).sqrt().clamp(max=1.0), (area / stretch).sqrt().clamp(max=1.0))
    mirrored = torch.where(torch.rand(count, generator=random, device=device) < 0.5, -1.0, 1.0)
    # In the coordinates of a grid the image spans -1 to 1, and so does the crop after stretching.
    across = (1.0 - width) * _uniform(-1.0, 1.0, count, random, device)
    down = (1.0 - height) * _uniform(-1.0, 1.0, count, random, device)
    zero = torch.zeros_like(width)
    rows = torch.stack([width * mirrored, zero, across, zero, height, down], dim=1)
    grid = functional.affine_grid(rows.reshape(count, 2, 3), list(images.shape), align_corners=False)
    return functional.grid_sample(
        images, grid, mode="bilinear", padding_mode="reflection", align_corners=False
    )


def recoloured(images: Tensor, random: torch.Generator) -> Tensor:
    """Return images (m, c, h, w) with brightness, contrast and saturation changed, some made gray."""
    count, device = len(images), images.device
    changed = torch.rand(count, generator=random, device=device) < 0.8

    def factor() -> Tensor:
        amount = _uniform(1.0 - _COLOUR_STRENGTH, 1.0 + _COLOUR_STRENGTH, count, random, device)
        return torch.where(changed, amount, 1.0)[:, None, None, None]

    images = (images * factor()).clamp(0.0, 255.0)
    middle = _gray(images).mean(dim=(1, 2, 3), keepdim=True)
    images = (middle + (images - middle) * factor()).clamp(0.0, 255.0)
    if images.shape[1] == 1:
        return images
    gray = _gray(images)
    images = (gray + (images - gray) * factor()).clamp(0.0, 255.0)
    drained = torch.rand(count, generator=random, device=device) < 0.2
    return torch.where(drained[:, None, None, None], _gray(images), images)


def _gray(images: Tensor) -> Tensor:
    if images.shape[1] == 1:
        return images
    weights = torch.tensor(_RED_GREEN_BLUE, device=images.device)[None, :, None, None]
    return (images * weights).sum(dim=1, keepdim=True)


def _uniform(low: float, high: float, count: int, random: torch.Generator, device: torch.device) -> Tensor:
    return low + (high - low) * torch.rand(count, generator=random, device=device)
