"""Images out of noise, by DDIM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmmatch.errors import InvalidInputError
from gmmatch_paper.training.diffusion_schedule import NoiseSchedule
from gmmatch_paper.training.evaluation import evaluating

Denoiser: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Takes noisy images (n, channels, height, width) and their times (n,), and returns the noise in them."""

Progress: TypeAlias = Callable[[int, int], object]
"""Called with what is done, and how much there is."""


def sample_images(
    network: Denoiser,
    count: int,
    shape: tuple[int, ...],
    *,
    schedule: NoiseSchedule,
    steps: int | None = 50,
    seed: int = 0,
    device: str | torch.device = "cpu",
    batch_size: int = 1250,
    progress: Progress | None = None,
) -> Tensor:
    """Draw images from a network that predicts noise.

    From x_t the network's noise ε gives a guess at the image, x̂ = (x_t − √(1 − ᾱ_t) ε) / √ᾱ_t, brought back to
    [−1, 1], and the walk goes on at x_s = √ᾱ_s x̂ + √(1 − ᾱ_s) ε: DDIM (Song et al., 2021), which needs few steps.

    Parameters
    ----------
    network : callable
        See :data:`Denoiser`. A module is run in evaluation mode; on CUDA in bfloat16.
    count : int
        How many images.
    shape : tuple of int
        Of one image: (channels, height, width).
    schedule : NoiseSchedule
        What the network was trained with.
    steps : int, optional
        How many of the schedule's steps to take, evenly spaced; None for all.
    seed : int
        Decides the noise. The images do not depend on ``batch_size``.
    device, batch_size
        Where, and how many at once.
    progress : function, optional
        Told how many network calls are done, and how many there are.

    Returns
    -------
    Tensor
        float32, shape (count, \\*shape), on the device.
    """
    times = walk_times(schedule.steps, steps)
    if count < 1 or batch_size < 1:
        raise InvalidInputError(f"count={count!r}, batch_size={batch_size!r}: expected 1 or more of each.")
    place = torch.device(device)
    # √ᾱ_t and √(1 − ᾱ_t) along the walk, which ends at the image.
    left = np.append(schedule.remaining[times], 1.0)
    signals, spreads = np.sqrt(left).tolist(), np.sqrt(1.0 - left).tolist()
    # Drawn at once and on the CPU: the same images whatever the batches, and nearly so whatever the device.
    start = torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed))
    on_cuda, total = place.type == "cuda", -(-count // batch_size) * len(times)
    found, done = [], 0
    with (
        torch.inference_mode(),
        evaluating(network),
        torch.autocast("cuda", torch.bfloat16, enabled=on_cuda),
        torch.backends.cudnn.flags(enabled=True, benchmark=on_cuda),
    ):
        for first in range(0, count, batch_size):
            x = start[first : first + batch_size].to(place)
            x = x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
            for number, time in enumerate(times.tolist()):
                predicted = network(x, torch.full((len(x),), time, device=place)).float()
                guess = ((x - spreads[number] * predicted) / signals[number]).clamp(-1.0, 1.0)
                predicted = (x - signals[number] * guess) / spreads[number]
                x = signals[number + 1] * guess + spreads[number + 1] * predicted
                done += 1
                if progress is not None:
                    progress(done, total)
            found.append(x)
    return torch.cat(found)


def walk_times(total: int, steps: int | None) -> NDArray[np.int64]:
    """Return the times that a walk of so many steps visits, late ones first."""
    if steps is None:
        steps = total
    if not 1 <= steps <= total:
        raise InvalidInputError(f"steps={steps!r}: expected 1 to {total}, the steps of the schedule.")
    # A single step has to begin where there is nothing but noise.
    return np.linspace(total - 1, 0, steps).round().astype(np.int64)


def as_bytes(images: Tensor) -> NDArray[np.uint8]:
    """Return images of [−1, 1] as bytes of shape (n, height, width, channels)."""
    levels = ((images + 1.0) * 127.5).round().clamp(0, 255).to(torch.uint8)
    found: Any = levels.permute(0, 2, 3, 1).cpu().numpy()
    return np.ascontiguousarray(found)
