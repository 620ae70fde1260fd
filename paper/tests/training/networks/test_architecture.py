"""The networks are the published ones: parameters, multiplications, sizes of maps, features and head.

On torch's meta device, where tensors have shapes and no values, large networks cost nothing.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from gmmatch_paper.training.networks import build_network, networks

# With ImageNet's stem and 1,000 classes. SE-ResNets: timm's legacy_seresnet18 and 50, the latter the
# authors' release (biases in both layers of the excitation). ViT-S/16: timm's, DeiT-S.
PUBLISHED = {
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "shufflenetv2": 2_278_604,
    "senet18": 11_778_592,
    "senet50": 28_088_024,
    "efficientnet-b0": 5_288_548,
    "vit-s": 22_050_664,
}

# Colour 32x32 with 10 classes, colour 64x64 with 200 classes, grey 28x28 with 10 classes.
SMALL = {
    "resnet18": (11_173_962, 11_271_432, 11_172_810),
    "resnet50": (23_520_842, 23_910_152, 23_519_690),
    "vgg16": (14_728_266, 14_825_736, 14_727_114),
    "shufflenetv2": (1_263_854, 1_458_604, 1_263_422),
    "senet18": (11_263_042, 11_360_512, 11_261_890),
    "senet50": (26_051_834, 26_441_144, 26_050_682),
    "efficientnet-b0": (4_020_358, 4_263_748, 4_019_782),
    "vit-s": (21_342_346, 21_470_792, 21_324_298),
}

# Billions of multiply-adds for one 224x224 image, as torchvision lists them; ViT-S: DeiT-S in table 1 of the
# Swin paper.
MULTIPLY_ADDS = {
    "resnet18": 1.814,
    "resnet50": 4.089,
    "shufflenetv2": 0.145,
    "efficientnet-b0": 0.386,
    "vit-s": 4.6,
}

N_FEATURES = {
    "resnet18": 512,
    "resnet50": 2048,
    "vgg16": 512,
    "shufflenetv2": 1024,
    "senet18": 512,
    "senet50": 2048,
    "efficientnet-b0": 1280,
    "vit-s": 384,
}


def count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.fixture(autouse=True)
def shapes_only(request):
    if "settled" in request.fixturenames:  # these tests need values
        yield
    else:
        with torch.device("meta"):
            yield


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_as_many_as_published(name):
    assert count(build_network(name, 1000, image_size=224)) == PUBLISHED[name]


@pytest.mark.parametrize("name", networks())
def test_parameters_for_small_images_are_as_recorded(name):
    small = build_network(name, 10), build_network(name, 200, 64), build_network(name, 10, 28, channels=1)
    assert tuple(count(network) for network in small) == SMALL[name]


@pytest.mark.parametrize("name", MULTIPLY_ADDS)
def test_multiplications_are_as_many_as_published(name):
    network = build_network(name, 1000, image_size=224)
    with FlopCounterMode(display=False) as counter:
        network(torch.empty(1, 3, 224, 224))
    # The counter counts a multiply-add as two, and no more than matrix products and convolutions.
    assert counter.get_total_flops() / 2e9 == pytest.approx(MULTIPLY_ADDS[name], rel=0.015)


@pytest.mark.grid
@pytest.mark.parametrize("name", networks())
@pytest.mark.parametrize(("size", "channels"), [(32, 3), (64, 3), (28, 1), (224, 3), (32, 7)])
def test_features_and_logits_are_flat(name, size, channels):
    network = build_network(name, 13, size, channels)
    images = torch.empty(2, channels, size, size)
    assert network.features(images).shape == (2, N_FEATURES[name])
    assert network(images).shape == (2, 13)
    assert type(network.head) is nn.Linear


@pytest.mark.parametrize("name", networks())
def test_the_gradient_reaches_every_parameter(name, settled, images):
    network = settled(name)
    loss = nn.functional.cross_entropy(network(images[:2]), torch.tensor([0, 1]))
    gradients = torch.autograd.grad(loss, list(network.parameters()))
    untouched = [
        parameter
        for (parameter, _), gradient in zip(network.named_parameters(), gradients, strict=True)
        if not torch.isfinite(gradient).all() or gradient.abs().max() == 0.0
    ]
    assert untouched == []
