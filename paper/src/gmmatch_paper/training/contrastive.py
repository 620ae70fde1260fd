"""A compact SimCLR: a network that learns from images without labels (Chen et al., 2020, arXiv:2002.05709)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gmmatch.errors import InvalidInputError
from gmmatch_paper.checks import check_number, check_whole_number
from gmmatch_paper.training.devices import choose_device
from gmmatch_paper.training.images import put_images
from gmmatch_paper.training.networks import build_network
from gmmatch_paper.training.networks.base import seeded
from gmmatch_paper.training.views import random_views

_PROJECTED = 64


class CompactNetwork(nn.Module):
    """Four convolutions, each halving the image after the first: 256 features at a CPU's pace."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs, stride in ((channels, 32, 1), (32, 64, 2), (64, 128, 2), (128, 256, 2)):
            layers += [
                nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(),
            ]
        self.body = nn.Sequential(*layers)

    def features(self, x: Tensor) -> Tensor:
        """Return one vector per image."""
        return self.body(x).mean(dim=(2, 3))


def nt_xent(first: Tensor, second: Tensor, temperature: float = 0.5) -> Tensor:
    """Return SimCLR's loss of two views of m images each.

    Every view is to tell its partner from the 2m − 2 others: the mean over all 2m views of
    −log(exp(s⁺/τ) / Σ exp(s/τ)), s being cosines and the sum over all views but the one itself.

    Parameters
    ----------
    first, second : tensors of shape (m, s)
        Row i of both comes from the same image.
    temperature : float
        τ.
    """
    views = functional.normalize(torch.cat([first, second]).float(), dim=1)
    scores = views @ views.T / temperature
    scores.fill_diagonal_(-torch.inf)
    count = len(first)
    partners = torch.arange(2 * count, device=views.device).roll(count)
    return functional.cross_entropy(scores, partners)


def train_simclr(
    images: Any,
    *,
    network: str = "compact",
    epochs: int = 50,
    batch_size: int = 256,
    temperature: float = 0.5,
    learning_rate: float = 1e-3,
    seed: int = 0,
    device: str = "auto",
) -> tuple[nn.Module, tuple[float, ...]]:
    """Train a network on images alone: two views of an image should be alike, and unlike all others.

    Views are random crops, flips and changes of color, made on the device. The network's features go through a
    projection, which is thrown away afterwards, to SimCLR's loss; Adam with a cosine schedule.

    Parameters
    ----------
    images : array of shape (n, height, width) or (n, height, width, channels)
        Bytes, or floats between 0 and 1; gray or color. At least two.
    network : str
        ``"compact"``, four convolutions; or a name of :func:`gmmatch_paper.training.networks.networks`.
    epochs, batch_size, temperature, learning_rate
        Of the training. A last batch that is not full is left out.
    seed : int
        Decides the weights, the order and the views; no global random state is touched.
    device : str
        ``"auto"``, ``"cpu"``, ``"cuda"``, ...

    Returns
    -------
    network : torch.nn.Module
        In evaluation mode; its ``features(x)`` are what was learned.
    losses : tuple of float
        The mean loss of every epoch. Without learning it stays near log(2 · batch_size − 1).

    Examples
    --------
    >>> images = np.random.default_rng(0).integers(0, 255, (16, 12, 12, 3), dtype=np.uint8)
    >>> network, losses = train_simclr(images, epochs=2, device="cpu")
    >>> network.features(torch.zeros(5, 3, 12, 12)).shape, len(losses)
    (torch.Size([5, 256]), 2)
    """
    check_whole_number(epochs, "epochs")
    check_whole_number(batch_size, "batch_size")
    check_number(temperature, "temperature", above_zero=True)
    check_number(learning_rate, "learning_rate", above_zero=True)
    if len(images) < 2:
        raise InvalidInputError(
            f"images has {len(images)} of them: at least 2 are needed, to tell them apart."
        )
    data = put_images(images, np.zeros(len(images), dtype=np.int64), device=choose_device(device))
    if network == "compact":
        model: Any = seeded(lambda: CompactNetwork(data.channels), seed)
    else:
        model = seeded(lambda: build_network(network, 1, data.size, data.channels), seed)
    model = model.to(data.device).train()
    random = torch.Generator(data.device).manual_seed(seed)
    with torch.no_grad():
        width = model.features(data.normalized(data.pixels[:2])).shape[1]
    projection = seeded(lambda: _projection(width), seed + 1).to(data.device)
    parameters = [*model.parameters(), *projection.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=1e-4)
    size = min(batch_size, len(data))
    steps = len(data) // size
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * steps)
    losses = []
    for _ in range(epochs):
        order = torch.randperm(len(data), generator=random, device=data.device)
        total = torch.zeros((), device=data.device)
        for step in range(steps):
            pixels = data.pixels[order[step * size : (step + 1) * size]]
            first, second = (
                projection(model.features(data.normalized(random_views(pixels, random)))) for _ in range(2)
            )
            loss = nt_xent(first, second, temperature)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.detach()
        losses.append(float(total) / steps)
    return model.eval(), tuple(losses)


def _projection(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, _PROJECTED))
