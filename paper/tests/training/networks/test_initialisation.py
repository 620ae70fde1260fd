"""Weights are drawn as the papers say: the variance of every layer is that of its formula."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from gmmatch_paper.training.networks import build_network

Layer = nn.Conv2d | nn.Linear


def he_fan_out(layer: Layer) -> float:
    if isinstance(layer, nn.Linear):
        return 2.0 / layer.out_features
    return 2.0 / (layer.kernel_size[0] ** 2 * layer.out_channels / layer.groups)


def glorot(layer: Layer) -> float:
    area = layer.kernel_size[0] ** 2 if isinstance(layer, nn.Conv2d) else 1
    return 2.0 / (area * (layer.weight.shape[0] + layer.weight.shape[1]))


def shuffle(layer: Layer) -> float:
    if layer.weight.shape == (24, 3, 3, 3) or isinstance(layer, nn.Linear):
        return 0.01**2
    return (layer.groups / layer.in_channels) ** 2


def transformer(layer: Layer) -> float:
    return 1.0 / (3 * 4 * 4) if isinstance(layer, nn.Conv2d) else 0.02**2


# The formula of all layers but the head, and that of the head where it is another (d features, c classes).
FORMULAS: dict[str, tuple[Callable[[Layer], float], Callable[[int, int], float] | None]] = {
    "resnet18": (he_fan_out, lambda d, c: 1.0 / (3.0 * d)),
    "senet18": (he_fan_out, lambda d, c: 1.0 / (3.0 * d)),
    "vgg16": (glorot, None),
    "shufflenetv2": (shuffle, None),
    "efficientnet-b0": (he_fan_out, lambda d, c: 1.0 / (3.0 * max(c, 1000))),
    "vit-s": (transformer, None),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_the_variance_of_every_layer_is_that_of_its_formula(name):
    torch.manual_seed(0)
    network = build_network(name, 10)
    formula, of_head = FORMULAS[name]
    for layer in network.modules():
        if not isinstance(layer, (nn.Conv2d, nn.Linear)):
            continue
        expected = formula(layer)
        if layer is network.head and of_head is not None:
            expected = of_head(layer.in_features, layer.out_features)
        weights = layer.weight.detach().double().flatten()
        n = len(weights)
        # Six standard errors: of the mean, and of a variance, which is largest for a normal distribution.
        assert abs(weights.mean()) < 6 * math.sqrt(expected / n), layer
        assert abs(weights.square().mean() / expected - 1.0) < 6 * math.sqrt(2.0 / n), layer
        assert layer.bias is None or (layer.bias == 0.0).all(), layer


@pytest.mark.parametrize(("size", "momentum"), [(224, 0.01), (32, 0.1)])
def test_batch_norms_of_efficientnet_are_the_papers_on_imagenet_and_faster_on_small_images(size, momentum):
    with torch.device("meta"):
        network = build_network("efficientnet-b0", 10, image_size=size)
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    assert {(norm.eps, norm.momentum) for norm in norms} == {(1e-3, momentum)}
