"""How a diffusion network lies in memory and is run, by kind of device: decided here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor


class Execution(NamedTuple):
    """What makes a network faster or slower on a device and leaves its numbers as they are, but for rounding.

    Attributes
    ----------
    memory_format
        In which order weights and maps lie: ``torch.channels_last`` or ``torch.contiguous_format``.
    tuned
        Whether cuDNN tries its kernels and takes the fastest, in place of the one that it expects to be.

    Examples
    --------
    >>> plain = Execution(torch.contiguous_format, tuned=False)
    >>> images = torch.zeros(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    >>> plain.laid_out(images).is_contiguous()
    True
    """

    memory_format: torch.memory_format
    tuned: bool

    def laid_out(self, x: Tensor) -> Tensor:
        """Return images as the network wants them; what has other than four dimensions stays as it is."""
        return x.contiguous(memory_format=self.memory_format) if x.dim() == 4 else x

    @contextmanager
    def choosing_kernels(self) -> Iterator[None]:
        """Let cuDNN try its kernels within the context, if it is to; the global setting is put back."""
        before = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = before or self.tuned
        try:
            yield
        finally:
            torch.backends.cudnn.benchmark = before


ON_CUDA = Execution(torch.channels_last, tuned=True)
"""On NVIDIA's GPUs."""

ELSEWHERE = Execution(torch.channels_last, tuned=False)
"""On CPUs and other devices."""


def execution_on(device: str | torch.device) -> Execution:
    """Return how a network is run on a device, unless a caller says otherwise.

    Examples
    --------
    >>> execution_on("cpu") == ELSEWHERE, execution_on("cuda:1") == ON_CUDA
    (True, True)
    """
    return ON_CUDA if torch.device(device).type == "cuda" else ELSEWHERE
