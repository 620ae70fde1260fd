# mypy: ignore-errors
# Triton compiles these functions from their source; its types are not Python's.
"""Triton kernels of a group norm, an affine map per image and channel, and SiLU: one pass forward, one backward.

A program has one group of one image, which lies with its channels last. It fits a cache: the second loop over
it in a kernel reads nothing from memory.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _place(pixels: tl.constexpr, channels: tl.constexpr, SIZE: tl.constexpr, PADDED: tl.constexpr):
    """The image of this program, where it begins, the channels of the group and which exist, and its number."""
    image, group = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = tl.arange(0, PADDED)
    number = image * tl.num_programs(1) + group
    return image, image * pixels * channels, group * SIZE + column, column < SIZE, number


@triton.jit
def _affine(scale, shift, row, image, channel, inside):
    """The group's scales and shifts."""
    a = tl.load(scale + image * row + channel, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(shift + image * row + channel, mask=inside, other=0.0).to(tl.float32)
    return a, b


@triton.jit
def _tile(
    first, base, channel, inside, pixels: tl.constexpr, channels: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    """Where the group's numbers at ROWS pixels lie, and which of them exist."""
    pixel = first + tl.arange(0, ROWS)
    mask = (pixel < pixels)[:, None] & inside[None, :]
    return base + pixel[:, None] * channels + channel[None, :], mask


@triton.jit
def _normalised(x, dy, where, mask, mean, inverse, a, b, SILU: tl.constexpr):
    """A tile's normalized numbers, and the gradient of what the affine map made of them."""
    value = (tl.load(x + where, mask=mask, other=0.0).to(tl.float32) - mean) * inverse
    d = tl.load(dy + where, mask=mask, other=0.0).to(tl.float32)
    if SILU:
        z = value * a[None, :] + b[None, :]
        s = 1.0 / (1.0 + tl.exp(-z))
        d = d * s * (1.0 + z * (1.0 - s))
    return value, d


@triton.jit
def normalise(
    x, scale, shift, y, means, inverses, row, eps,
    pixels: tl.constexpr, channels: tl.constexpr,
    SIZE: tl.constexpr, PADDED: tl.constexpr, ROWS: tl.constexpr, SILU: tl.constexpr,
):  # fmt: skip
    """Write one group's result, and its mean and inverse deviation for the way back."""
    image, base, channel, inside, number = _place(pixels, channels, SIZE, PADDED)
    # Sums of differences to one of the values: squares of the values themselves would drown a small variance
    # beside a large mean.
    pivot = tl.load(x + base + tl.program_id(1) * SIZE).to(tl.float32)
    total = tl.zeros([ROWS, PADDED], dtype=tl.float32)
    squares = tl.zeros([ROWS, PADDED], dtype=tl.float32)
    for first in range(0, pixels, ROWS):
        where, mask = _tile(first, base, channel, inside, pixels, channels, ROWS)
        value = tl.load(x + where, mask=mask, other=0.0)
        away = tl.where(mask, value.to(tl.float32) - pivot, 0.0)
        total += away
        squares += away * away
    count = pixels * SIZE
    mean = tl.sum(tl.sum(total, axis=1), axis=0) / count
    variance = tl.maximum(tl.sum(tl.sum(squares, axis=1), axis=0) / count - mean * mean, 0.0)
    mean += pivot
    inverse = 1.0 / tl.sqrt(variance + eps)
    tl.store(means + number, mean)
    tl.store(inverses + number, inverse)
    a, b = _affine(scale, shift, row, image, channel, inside)
    for first in range(0, pixels, ROWS):
        where, mask = _tile(first, base, channel, inside, pixels, channels, ROWS)
        value = tl.load(x + where, mask=mask, other=0.0).to(tl.float32)
        z = (value - mean) * inverse * a[None, :] + b[None, :]
        if SILU:
            z = z / (1.0 + tl.exp(-z))
        tl.store(y + where, z.to(y.dtype.element_ty), mask=mask)


@triton.jit
def differentiate(
    x, scale, shift, dy, means, inverses, dx, da, db, row,
    pixels: tl.constexpr, channels: tl.constexpr,
    SIZE: tl.constexpr, PADDED: tl.constexpr, ROWS: tl.constexpr, SILU: tl.constexpr,
):  # fmt: skip
    """Write one group's gradient, and those of its scales and shifts in this image."""
    image, base, channel, inside, number = _place(pixels, channels, SIZE, PADDED)
    mean, inverse = tl.load(means + number), tl.load(inverses + number)
    a, b = _affine(scale, shift, row, image, channel, inside)
    along = tl.zeros([ROWS, PADDED], dtype=tl.float32)
    plain = tl.zeros([ROWS, PADDED], dtype=tl.float32)
    for first in range(0, pixels, ROWS):
        where, mask = _tile(first, base, channel, inside, pixels, channels, ROWS)
        value, d = _normalised(x, dy, where, mask, mean, inverse, a, b, SILU)
        along += d * value
        plain += d
    grad_a, grad_b = tl.sum(along, axis=0), tl.sum(plain, axis=0)
    tl.store(da + image * channels + channel, grad_a, mask=inside)
    tl.store(db + image * channels + channel, grad_b, mask=inside)
    count = pixels * SIZE
    by_value, by_one = tl.sum(grad_a * a, axis=0) / count, tl.sum(grad_b * a, axis=0) / count
    for first in range(0, pixels, ROWS):
        where, mask = _tile(first, base, channel, inside, pixels, channels, ROWS)
        value, d = _normalised(x, dy, where, mask, mean, inverse, a, b, SILU)
        found = inverse * (d * a[None, :] - by_one - value * by_value)
        tl.store(dx + where, found.to(dx.dtype.element_ty), mask=mask)
