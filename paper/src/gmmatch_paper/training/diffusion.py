"""Training a diffusion model on images: a network learns to see the noise in them."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gmmatch_paper.training.devices import choose_device
from gmmatch_paper.training.diffusion_recipes import FAST, PAPER, DiffusionRecipe
from gmmatch_paper.training.diffusion_sampling import Progress, as_bytes, sample_images
from gmmatch_paper.training.diffusion_step import DiffusionStep
from gmmatch_paper.training.images import Images, put_images
from gmmatch_paper.training.networks.unet import UNet
from gmmatch_paper.training.step import make_optimizer

__all__ = ["FAST", "PAPER", "DiffusionRecipe", "TrainedDiffusion", "train_diffusion"]

_STRETCH = 100
_AVERAGE_EVERY = 10


@dataclass(frozen=True)
class TrainedDiffusion:
    """A diffusion model and how it got there.

    Attributes
    ----------
    model
        The network with the averaged weights, in evaluation mode.
    recipe
        What it was trained with.
    shape
        Of one image: (channels, height, width).
    losses
        Mean squared error of the predicted noise, one number for every stretch of 100 updates.
    seconds
        Time in the loop.
    n_rows
        Images trained on.
    """

    model: nn.Module
    recipe: DiffusionRecipe
    shape: tuple[int, int, int]
    losses: tuple[float, ...]
    seconds: float
    n_rows: int

    def sample(
        self,
        count: int,
        *,
        steps: int | None = 50,
        seed: int = 0,
        batch_size: int = 1250,
        progress: Progress | None = None,
    ) -> NDArray[np.uint8]:
        """Draw images, as bytes of shape (count, height, width, channels); see :func:`sample_images`."""
        found = sample_images(
            self.model,
            count,
            self.shape,
            schedule=self.recipe.noise,
            steps=steps,
            seed=seed,
            device=next(self.model.parameters()).device,
            batch_size=batch_size,
            progress=progress,
        )
        return as_bytes(found)


def train_diffusion(
    images: Any,
    *,
    recipe: DiffusionRecipe = FAST,
    network: nn.Module | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
) -> TrainedDiffusion:
    """Train a network to predict the noise in images, as Ho et al. (2020) do.

    The images stay on the device as bytes. On CUDA an update, the drawing of its noise included, runs in
    bfloat16 and is replayed from one graph. The same seed on the same machine gives the same model on a CPU;
    on CUDA sums whose order is not fixed make runs differ in the last digits. No global
    random state is touched.

    Parameters
    ----------
    images : array of shape (n, height, width) or (n, height, width, channels)
        Bytes, or floats between 0 and 1.
    recipe
        How; by default :data:`FAST`, while :data:`PAPER` has the paper's settings.
    network
        Called with noisy images and their times, on CUDA as a copy in bfloat16; by default the recipe's U-Net
        with fresh weights.
    seed
        Decides the initial weights, the batches and the noise.
    device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ….
    progress
        Called every 100 updates with how many are done and how many there are.

    Examples
    --------
    >>> squares = np.zeros((4, 8, 8), dtype=np.uint8)
    >>> squares[:, 2:6, 2:6] = 255
    >>> tiny = DiffusionRecipe("tiny", steps=2, batch_size=4, width=8, levels=2)
    >>> done = train_diffusion(squares, recipe=tiny, device="cpu")
    >>> done.sample(3, steps=2).shape
    (3, 8, 8, 1)
    """
    chosen = choose_device(device)
    data = put_images(images, np.zeros(len(images), dtype=np.int64), device=chosen)
    place = data.device
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        torch.manual_seed(seed)
        model = network or UNet(data.channels, recipe.width, recipe.levels, recipe.blocks)
        run, losses, began = _Run(model, recipe, data, seed), [], time.perf_counter()
        for number in range(-(-recipe.steps // _STRETCH)):
            losses.append(run.stretch(number))
            if progress is not None:
                progress(min(recipe.steps, (number + 1) * _STRETCH), recipe.steps)
        seconds = time.perf_counter() - began
    _, height, width, channels = map(int, data.pixels.shape)
    shape = (channels, height, width)
    return TrainedDiffusion(run.average.eval(), recipe, shape, tuple(losses), seconds, len(data))


class _Run:
    """One training, stretch by stretch."""

    def __init__(self, model: nn.Module, recipe: DiffusionRecipe, data: Images, seed: int) -> None:
        self.model = model.to(data.device, memory_format=torch.channels_last).train()
        self.recipe, self.data, self.seed = recipe, data, seed
        self.average = copy.deepcopy(self.model).requires_grad_(False)
        optimizer = make_optimizer(self.model, recipe.updates, data.device)
        self.step = DiffusionStep(self.model, optimizer, recipe, data.pixels)

    def stretch(self, number: int) -> float:
        """Make up to 100 updates; return their mean loss."""
        done = min(self.recipe.steps, (number + 1) * _STRETCH)
        steps = done - number * _STRETCH
        seed = (self.seed * 1_000_003 + number) % 2**62
        random = torch.Generator().manual_seed(seed)
        size, device = self.recipe.batch_size, self.data.device
        rows = torch.randint(len(self.data), (steps, size), generator=random).to(device)
        times = torch.randint(self.recipe.noise.steps, (steps, size), generator=random).to(device)
        self.step.prepare(rows[0], times[0])
        torch.manual_seed(seed)
        for index in range(steps):
            step = number * _STRETCH + index
            self.step(rows[index], times[index], self.recipe.rate_at(step))
            if (step + 1) % _AVERAGE_EVERY == 0 or step + 1 == self.recipe.steps:
                self._update_average(step + 1)
        return self.step.totals()[0] / (steps * size)

    def _update_average(self, step: int) -> None:
        # At the beginning a long memory would be a memory of the initial weights.
        kept = min(self.recipe.average**_AVERAGE_EVERY, step / (step + 9.0 * _AVERAGE_EVERY))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), list(self.model.parameters()), 1.0 - kept)
            for mine, theirs in zip(self.average.buffers(), self.model.buffers(), strict=True):
                mine.copy_(theirs)
