from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import nn

from gmmatch_paper.training.networks import build_network
from gmmatch_paper.training.networks.base import ImageClassifier


@cache
def _settled(name: str) -> ImageClassifier:
    torch.manual_seed(0)
    network = build_network(name, n_classes=10)
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = None  # running statistics become those of the one batch
    with torch.no_grad():
        network.train()(torch.randn(8, 3, 32, 32))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    return network.eval()


@pytest.fixture
def settled() -> Callable[[str], ImageClassifier]:
    """Networks for 32x32 images, in evaluation, whose batch norms have seen a batch. Not to be changed."""
    return _settled


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))
