"""Networks that classify images, by name: the ones of the paper, in plain PyTorch.

Every network is an :class:`~gmmatch_paper.training.networks.base.ImageClassifier`: ``features(x)`` gives one
flat vector per image, ``head`` is the last, linear layer, and ``forward(x)`` is ``head(features(x))``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gmmatch.errors import unknown_name
from gmmatch_paper.checks import check_whole_number

if TYPE_CHECKING:
    from gmmatch_paper.training.networks.base import ImageClassifier

__all__ = ["build_network", "networks"]

_NETWORKS = {
    "resnet18": "resnet:ResNet18",
    "resnet50": "resnet:ResNet50",
    "vgg16": "vgg:VGG16",
    "shufflenetv2": "shufflenetv2:ShuffleNetV2",
    "senet18": "resnet:SENet18",
    "senet50": "resnet:SENet50",
    "efficientnet-b0": "efficientnet:EfficientNetB0",
    "vit-s": "vit:VisionTransformer",
}


def networks() -> tuple[str, ...]:
    """Return the names of all networks.

    Examples
    --------
    >>> "resnet18" in networks()
    True
    """
    return tuple(_NETWORKS)


def build_network(name: str, n_classes: int, image_size: int = 32, channels: int = 3) -> ImageClassifier:
    """Return a network with freshly drawn weights.

    The weights come from torch's global generator, as the network's paper draws them: call
    ``torch.manual_seed`` first for the same ones again.

    Parameters
    ----------
    name : str
        One of :func:`networks`.
    n_classes : int
        How many logits the network gives.
    image_size : int
        Height and width of the images. 224 gives the network as it was published for ImageNet. Smaller
        images keep more of their pixels: see
        :func:`~gmmatch_paper.training.networks.base.choose_stem_stride`.
    channels : int
        3 for color, 1 for gray.

    Returns
    -------
    ImageClassifier

    Examples
    --------
    >>> import torch
    >>> network = build_network("resnet18", n_classes=10)
    >>> images = torch.zeros(2, 3, 32, 32)
    >>> network(images).shape, network.features(images).shape
    (torch.Size([2, 10]), torch.Size([2, 512]))
    """
    key = str(name).lower().replace("_", "-")
    if key not in _NETWORKS:
        raise unknown_name("network", name, _NETWORKS, "there is no such network; there are")
    for argument, value in (("n_classes", n_classes), ("image_size", image_size), ("channels", channels)):
        check_whole_number(value, argument)
    module, _, attribute = _NETWORKS[key].partition(":")
    build = getattr(import_module(f"gmmatch_paper.training.networks.{module}"), attribute)
    network: ImageClassifier = build(int(n_classes), int(image_size), int(channels))
    return network
