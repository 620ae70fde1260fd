"""A compact U-Net that predicts the noise in a small image, for diffusion models."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from gmmatch.errors import InvalidInputError
from gmmatch_paper.checks import check_whole_number

_GROUPS = 8


class UNet(nn.Module):
    """A U-Net for images of about 28 to 64 pixels, after Ho et al. (2020) in small.

    Every level has residual blocks with group normalization and an embedding of the time step; the lowest
    level attends over all of its pixels. The sides of an image need not be divisible: what a level
    halves and rounds up, it cuts off again on the way back.

    It is no classifier, so it is not among :func:`gmmatch_paper.training.networks.networks`.

    Parameters
    ----------
    channels : int
        1 for gray images, 3 for color.
    width : int
        Channels of the first level, a multiple of 8; every further level has twice as many.
    levels : int
        How many sizes there are: three take 28 pixels to 14 and 7.
    blocks : int
        Residual blocks of a level, on the way down and again on the way up.

    References
    ----------
    Ho, Jain and Abbeel, "Denoising diffusion probabilistic models", NeurIPS 2020.
    """

    def __init__(self, channels: int = 1, width: int = 32, levels: int = 3, blocks: int = 1) -> None:
        super().__init__()
        for name, value in (("levels", levels), ("blocks", blocks), ("channels", channels)):
            check_whole_number(value, name)
        if width < _GROUPS or width % _GROUPS:
            raise InvalidInputError(f"width={width!r}: expected a multiple of {_GROUPS}.")
        self.width = width
        embedded = 4 * width
        self.embed = nn.Sequential(
            nn.Linear(width, embedded), nn.SiLU(), nn.Linear(embedded, embedded), nn.SiLU()
        )
        widths = [width * 2**level for level in range(levels)]
        self.first = nn.Conv2d(channels, width, 3, padding=1)
        self.down, self.shrink = nn.ModuleList(), nn.ModuleList()
        before = width
        for level, wide in enumerate(widths):
            self.down.append(_blocks(before, wide, embedded, blocks))
            if level + 1 < levels:
                self.shrink.append(nn.Conv2d(wide, wide, 3, stride=2, padding=1))
            before = wide
        self.middle = nn.ModuleList([ResidualBlock(before, before, embedded) for _ in range(2)])
        self.attention = Attention(before)
        self.up = nn.ModuleList()
        for wide in reversed(widths):
            self.up.append(_blocks(before + wide, wide, embedded, blocks))
            before = wide
        self.last = _normed(width, nn.Conv2d(width, channels, 3, padding=1))
        # The best constant guess at noise of mean zero: training starts from a loss of one.
        _start_at_zero(self.last[1])

    def forward(self, x: Tensor, times: Tensor) -> Tensor:
        """Return the noise in noisy images: (batch, channels, height, width) and (batch,) to the first shape."""
        embedding = self.embed(embed_times(times, self.width).to(self.first.weight.dtype))
        x = self.first(x)
        seen = []
        for level, blocks in enumerate(self.down):
            if level:
                x = self.shrink[level - 1](x)
            for block in blocks:
                x = block(x, embedding)
            seen.append(x)
        x = self.middle[1](self.attention(self.middle[0](x, embedding)), embedding)
        for blocks in self.up:
            earlier = seen.pop()
            if x.shape[2:] != earlier.shape[2:]:
                height, width = earlier.shape[2:]
                x = functional.interpolate(x, scale_factor=2.0, mode="nearest")[:, :, :height, :width]
            x = torch.cat([x, earlier], dim=1)
            for block in blocks:
                x = block(x, embedding)
        found: Tensor = self.last(x)
        return found


class ModulatedNorm(nn.GroupNorm):
    """Group normalization in the type of its input, then a scale and a shift per image, then SiLU.

    Automatic casting would return float32, which the convolution after it casts back: two more passes over
    memory. The sums inside are in float32 either way.
    """

    def __init__(self, groups: int, channels: int, *, silu: bool = False) -> None:
        super().__init__(groups, channels)
        self.silu = silu

    def forward(self, x: Tensor, modulation: Tensor | None = None) -> Tensor:
        """Return maps like x, (n, channels, height, width); the modulation has shape (n, 2 channels)."""
        kind = x.dtype
        with torch.autocast(x.device.type, enabled=False):
            maps = functional.group_norm(
                x, self.num_groups, self.weight.to(kind), self.bias.to(kind), self.eps
            )
            if modulation is not None:
                scale, shift = modulation.to(kind)[:, :, None, None].chunk(2, dim=1)
                maps = torch.addcmul(shift, maps, scale + 1.0)
            return functional.silu(maps) if self.silu else maps


class ResidualBlock(nn.Module):
    """Two convolutions beside a short cut; the time step shifts and scales what is between them."""

    def __init__(self, inputs: int, outputs: int, embedded: int) -> None:
        super().__init__()
        self.before = _normed(inputs, nn.Conv2d(inputs, outputs, 3, padding=1))
        self.time = nn.Linear(embedded, 2 * outputs)
        self.norm = ModulatedNorm(_GROUPS, outputs, silu=True)
        self.after = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()
        # A block that starts as its short cut lets the gradient through from the first step on.
        _start_at_zero(self.after)

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        """Return maps of the same size with other channels."""
        found: Tensor = self.skip(x) + self.after(self.norm(self.before(x), self.time(embedding)))
        return found


class Attention(nn.Module):
    """Every pixel attends to all others, in heads of 32 channels or one head of fewer."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.heads = channels // 32 if channels % 32 == 0 else 1
        self.norm = ModulatedNorm(_GROUPS, channels)
        self.project = nn.Conv2d(channels, 3 * channels, 1)
        self.gather = nn.Conv2d(channels, channels, 1)
        _start_at_zero(self.gather)

    def forward(self, x: Tensor) -> Tensor:
        """Return maps of the same shape."""
        batch, channels, height, width = x.shape
        parts = self.project(self.norm(x)).flatten(2).transpose(1, 2)
        parts = parts.reshape(batch, height * width, 3, self.heads, channels // self.heads)
        # The fused kernels want the channels of a head next to each other, whatever the layout of the maps.
        query, key, value = parts.permute(2, 0, 3, 1, 4).contiguous().unbind(0)
        found = functional.scaled_dot_product_attention(query, key, value)
        found = found.transpose(1, 2).reshape(batch, height * width, channels).transpose(1, 2)
        gathered: Tensor = self.gather(found.reshape(batch, channels, height, width))
        return x + gathered


def embed_times(times: Tensor, width: int) -> Tensor:
    """Return sines and cosines of time steps at frequencies from 1 down to 1/10,000: (n,) to (n, width)."""
    half = width // 2
    steps = torch.arange(half, device=times.device, dtype=torch.float32) / max(half - 1, 1)
    angles = times[:, None].float() * torch.exp(-math.log(10_000.0) * steps)
    return torch.cat([angles.cos(), angles.sin()], dim=1)


def _blocks(inputs: int, outputs: int, embedded: int, count: int) -> nn.ModuleList:
    return nn.ModuleList(
        ResidualBlock(inputs if number == 0 else outputs, outputs, embedded) for number in range(count)
    )


def _normed(inputs: int, convolution: nn.Conv2d) -> nn.Sequential:
    return nn.Sequential(ModulatedNorm(_GROUPS, inputs, silu=True), convolution)


def _start_at_zero(layer: nn.Module) -> None:
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
