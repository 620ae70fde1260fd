"""How a diffusion network lies in memory and is run, by kind of device: decided here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor


@dataclass(frozen=True)
class Execution:
    """What makes a network faster or slower on a device and leaves its numbers as they are, but for rounding.

    Attributes
    ----------
    tuned
        Whether cuDNN tries its kernels and takes the fastest, in place of the one that it expects to be.

    Examples
    --------
    >>> execution_on("cpu").laid_out(torch.zeros(2, 3, 4, 4)).stride()
    (48, 1, 12, 3)
    """

    tuned: bool

    memory_format: ClassVar[torch.memory_format] = torch.channels_last
    """In which order weights and maps lie."""

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


def execution_on(device: str | torch.device) -> Execution:
    """Return how a network is run on a device: cuDNN is on NVIDIA's GPUs alone.

    Examples
    --------
    >>> execution_on("cpu").tuned, execution_on("cuda:1").tuned
    (False, True)
    """
    return Execution(tuned=torch.device(device).type == "cuda")
