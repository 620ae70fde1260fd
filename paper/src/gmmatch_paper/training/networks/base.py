"""What all networks share: features and a head, and how much of an image the first layers leave."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from gmmatch.errors import InvalidInputError

AnyModule = TypeVar("AnyModule", bound=nn.Module)


class ImageClassifier(nn.Module):
    """A network that gives logits for images: ``forward(x) = head(features(x))``.

    Dropout before the last layer, where a network has it, belongs to the features.
    """

    head: nn.Linear

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(n_features, n_classes)

    @abstractmethod
    def features(self, x: Tensor) -> Tensor:
        """Return one flat vector per image: (batch, channels, height, width) to (batch, n_features)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits: (batch, channels, height, width) to (batch, n_classes)."""
        return self.head(self.features(x))


def seeded(make: Callable[[], AnyModule], seed: int) -> AnyModule:
    """Make a module whose weights are drawn from the seed alone, and leave torch's own generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def choose_stem_stride(network: str, image_size: int) -> int:
    """Return by how much the first layers shrink an image of a size.

    The convolutional networks for ImageNet shrink an image to a quarter before their first block, and
    halve it three times more. That leaves little of a small one. So up to 48 pixels (CIFAR, MNIST)
    nothing is lost before the first block, and up to 96 (Tiny-ImageNet, STL-10) one half: a 64x64 image
    then has maps of the same sizes, at the same cost, as a 32x32 one.

    Examples
    --------
    >>> [choose_stem_stride("resnet18", size) for size in (28, 32, 64, 224)]
    [1, 1, 2, 4]
    """
    stem_stride = 1 if image_size <= 48 else 2 if image_size <= 96 else 4
    check_image_size(network, image_size, halvings=3 + (stem_stride.bit_length() - 1))
    return stem_stride


def check_image_size(network: str, image_size: int, halvings: int) -> None:
    """Raise unless an image is so large that every halving of it leaves fewer pixels than before."""
    least = 2 ** (halvings - 1) + 1
    if image_size < least:
        raise InvalidInputError(
            f"image_size={image_size} is too small for {network}, which halves images {halvings} times: "
            f"enlarge the images to at least {least} x {least}, or choose a network with fewer halvings."
        )
