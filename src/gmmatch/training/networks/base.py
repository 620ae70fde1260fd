"""What all networks share: features and a head, the size of the stem, and how layers are initialised."""

from __future__ import annotations

import math
from abc import abstractmethod

from torch import Tensor, nn

from gmmatch.errors import InvalidInputError


class ImageClassifier(nn.Module):
    """A network that gives logits for images: ``forward(x) = head(features(x))``.

    Dropout before the last layer, where a network has it, belongs to the features, so that the identity
    holds in training as well.

    Parameters
    ----------
    n_features : int
        The length of the vectors that ``features`` gives.
    n_classes : int
        How many logits there are.

    Attributes
    ----------
    head : torch.nn.Linear
        The last layer, from features to logits.

    Examples
    --------
    >>> import torch
    >>> class Pixels(ImageClassifier):
    ...     def features(self, x):
    ...         return x.flatten(1)
    >>> Pixels(12, 5)(torch.zeros(7, 3, 2, 2)).shape
    torch.Size([7, 5])
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


def stem_stride(image_size: int) -> int:
    """Return by how much the first layers shrink an image of this size: by 1, 2 or 4.

    The networks for ImageNet shrink an image to a quarter before their first block. That leaves little
    of a small one, so up to 48 pixels (CIFAR, MNIST) nothing is lost before the first block, and up to 96
    (Tiny-ImageNet, STL-10) one half: a 64x64 image has maps of the sizes of a 32x32 one, at the same cost.

    Examples
    --------
    >>> [stem_stride(size) for size in (28, 32, 64, 224)]
    [1, 1, 2, 4]
    """
    if image_size <= 48:
        return 1
    return 2 if image_size <= 96 else 4


def check_image_size(network: str, image_size: int, halvings: int) -> None:
    """Raise unless an image is large enough for every halving of it to leave fewer pixels.

    Examples
    --------
    >>> check_image_size("vgg16", 28, halvings=5)
    >>> check_image_size("vgg16", 8, halvings=5)
    Traceback (most recent call last):
    ...
    gmmatch.errors.InvalidInputError: image_size=8 is too small for vgg16, which halves images 5 times: ...
    """
    least = 2 ** (halvings - 1) + 1
    if image_size < least:
        raise InvalidInputError(
            f"image_size={image_size} is too small for {network}, which halves images {halvings} times: "
            f"give images of at least {least} x {least}, or choose a network with fewer halvings."
        )


def he_fan_out(layer: nn.Conv2d | nn.Linear) -> None:
    """Draw a layer's weights as He et al. (2015) do, from what leaves it, and set its bias to zero.

    Normal with mean 0 and variance 2 / n, where n counts the products that one input goes into: kernel
    area times output channels per group. That is equation 14 of "Delving deep into rectifiers", which
    keeps the variance of the gradients.

    Examples
    --------
    >>> layer = nn.Conv2d(64, 128, kernel_size=3)
    >>> he_fan_out(layer)
    >>> round(float(layer.weight.detach().var() * 9 * 128), 1)
    2.0
    """
    groups = layer.groups if isinstance(layer, nn.Conv2d) else 1
    fan_out = layer.weight.shape[0] // groups * math.prod(layer.weight.shape[2:])
    nn.init.normal_(layer.weight, std=math.sqrt(2.0 / fan_out))
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
