"""A few steps of gradient descent lower the loss of every network."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gmmatch_paper.training.networks import build_network, networks

DEEP = ("efficientnet-b0", "resnet50", "senet50", "vgg16", "vit-s")

# What differs from 8x8 images and a learning rate of 0.01: VGG-16 takes no such small ones, and ViT-S cuts them into
# single pixels; EfficientNet-B0 learns slowly at first because of its dropout, and the losses of ResNet-50 and ViT-S
# jump about at 0.01.
SIZES = {"vgg16": 17, "vit-s": 28}
RATES = {"efficientnet-b0": 0.02, "resnet50": 0.005, "vit-s": 0.005}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in DEEP else name for name in networks()]
)
def test_sixteen_random_images_are_learned(name):
    torch.manual_seed(0)
    size = SIZES.get(name, 8)
    network = build_network(name, 4, image_size=size).train()
    images, labels = torch.randn(16, 3, size, size), torch.arange(16) % 4
    optimizer = torch.optim.SGD(network.parameters(), lr=RATES.get(name, 0.01), momentum=0.9)
    losses = []
    for _ in range(10):
        loss = nn.functional.cross_entropy(network(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-3:]) / 3 < 0.7 * losses[0]
