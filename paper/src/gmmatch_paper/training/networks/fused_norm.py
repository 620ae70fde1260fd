"""A group norm with what follows it in a U-Net: on CUDA one Triton kernel, elsewhere torch's operations."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from gmmatch.errors import GMMatchWarning

_ELEMENTS, _WARPS = 2048, 4
"""Of the tile that a program of the kernels holds, and what works on it."""


class FusedNorm(nn.GroupNorm):
    """Group normalization in the type of its input, then a scale and a shift per image, then SiLU.

    Automatic casting would return float32, which the convolution after it casts back: two more passes over
    memory. The sums inside are in float32 either way. On CUDA all is done in one pass, and the result has its
    channels last: torch's own norm would copy maps that lie so into another order and back.

    Parameters
    ----------
    groups, channels : int
        As in :class:`torch.nn.GroupNorm`.
    silu : bool
        Whether SiLU comes last.

    Examples
    --------
    >>> norm = FusedNorm(2, 4, silu=True)
    >>> maps = torch.randn(3, 4, 5, 5)
    >>> scale_and_shift = torch.zeros(3, 8)  # one is added to the scale
    >>> torch.equal(norm(maps, scale_and_shift), norm(maps))
    True
    """

    def __init__(self, groups: int, channels: int, *, silu: bool = False) -> None:
        super().__init__(groups, channels)
        self.silu = silu

    def forward(self, x: Tensor, modulation: Tensor | None = None) -> Tensor:
        """Return maps like x, (n, channels, height, width); the modulation has shape (n, 2 channels)."""
        with torch.autocast(x.device.type, enabled=False):
            if uses_kernels(x):
                return self._by_kernels(x, modulation)
            kind = x.dtype
            found = functional.group_norm(
                x, self.num_groups, self.weight.to(kind), self.bias.to(kind), self.eps
            )
            if modulation is not None:
                scale, shift = modulation.to(kind)[:, :, None, None].chunk(2, dim=1)
                found = torch.addcmul(shift, found, scale + 1.0)
            return functional.silu(found) if self.silu else found

    def _by_kernels(self, x: Tensor, modulation: Tensor | None) -> Tensor:
        scale, shift = self.weight, self.bias
        if modulation is not None:
            factor, summand = modulation.float().chunk(2, dim=1)
            factor = factor + 1.0
            # Two affine maps, one after another, are one.
            scale, shift = scale.float() * factor, torch.addcmul(summand, shift.float(), factor)
        found: Tensor = KernelNorm.apply(x, scale, shift, self.num_groups, self.eps, self.silu)
        return found


def uses_kernels(x: Tensor) -> bool:
    """Return whether maps are normalized by the Triton kernels: on CUDA, where Triton works.

    Examples
    --------
    >>> uses_kernels(torch.zeros(2, 8, 4, 4))
    False
    """
    return x.is_cuda and x.dtype in (torch.bfloat16, torch.float32) and triton_works(x.device)


class TritonWarning(GMMatchWarning):
    """Triton's kernels do not run on a device; plain torch operations take their place, more slowly."""


@cache
def triton_works(device: torch.device) -> bool:
    """Return whether the kernels compile and run on a device: tried once, with a warning where they do not.

    Triton compiles a kernel when it is first used, with a C compiler: that it is installed says little.
    """
    try:
        _try_kernels(device)
    except Exception as error:  # compilers, drivers and caches on disk fail in many ways
        warnings.warn(
            f"Triton's kernels do not run here ({type(error).__name__}: {error}): norms are computed by plain torch, "
            "more slowly. Install a C compiler and the Triton version that your torch was made for.",
            TritonWarning,
            stacklevel=4,
        )
        return False
    return True


def _try_kernels(device: torch.device) -> None:
    maps, ones = torch.ones(1, 2, 2, 2, device=device), torch.ones(2, device=device)
    KernelNorm.apply(maps, ones, ones, 1, 1e-5, False).sum().item()


class KernelNorm(torch.autograd.Function):
    """The kernels as one operation: silu(scale · normalized(x) + shift), with its gradients.

    Called with x of shape (n, channels, height, width), the scale and the shift of shape (channels,) or
    (n, channels), the number of groups, what is added to a variance, and whether there is a SiLU. The result
    has the type of x and its channels last.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, scale: Tensor, shift: Tensor, groups: int, eps: float, silu: bool
    ) -> Tensor:
        """Return the result, and keep what the gradients need."""
        from gmmatch_paper.training.networks.norm_kernels import normalise  # which needs Triton

        x = x.contiguous(memory_format=torch.channels_last)
        scale, shift = scale.contiguous(), shift.contiguous()
        n, channels, height, width = x.shape
        size, pixels = channels // groups, height * width
        padded = _power_of_two(size)
        rows = min(max(1, _ELEMENTS // padded), _power_of_two(pixels))
        options = {"SIZE": size, "PADDED": padded, "ROWS": rows, "SILU": silu, "num_warps": _WARPS}
        row = channels if scale.dim() == 2 else 0
        y = torch.empty_like(x)
        means, inverses = torch.empty(2, n, groups, device=x.device).unbind(0)
        with torch.cuda.device_of(x):  # Triton launches on the current device
            normalise[(n, groups)](x, scale, shift, y, means, inverses, row, eps, pixels, channels, **options)
        ctx.save_for_backward(x, scale, shift, means, inverses)
        ctx.row, ctx.groups, ctx.options = row, groups, options
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of x, scale and shift."""
        from gmmatch_paper.training.networks.norm_kernels import differentiate

        x, scale, shift, means, inverses = ctx.saved_tensors
        dy = dy.contiguous(memory_format=torch.channels_last)
        n, channels, height, width = x.shape
        dx = torch.empty_like(x)
        found = torch.empty(2, n, channels, device=x.device)
        with torch.cuda.device_of(x):
            differentiate[(n, ctx.groups)](
                x, scale, shift, dy, means, inverses, dx, found[0], found[1], ctx.row, height * width, channels,
                **ctx.options,
            )  # fmt: skip
        if ctx.row == 0:
            found = found.sum(dim=1)
        return dx, found[0].to(scale.dtype), found[1].to(shift.dtype), None, None, None


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()
