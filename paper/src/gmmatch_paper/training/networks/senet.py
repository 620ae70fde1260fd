"""SE-ResNet-18 and 50: Hu et al., "Squeeze-and-excitation networks", CVPR 2018.

A ResNet whose blocks weigh their channels before the shortcut is added (figure 3 of the paper), squeezed
to a sixteenth. Both linear layers have biases, as in timm's ``legacy_seresnet50``, the port of what the
authors released: 28,088,024 parameters with 1,000 classes. Unlike there, the stride of a bottleneck is in
its 3x3 convolution, as in the ResNets here. SE-ResNet-18 is not in the paper; with the same layout it has
11,778,592 parameters, as has timm's ``legacy_seresnet18``. Weights are drawn as the ResNets'.
"""

from __future__ import annotations

from gmmatch_paper.training.networks.resnet import ResNet18, ResNet50


class SENet18(ResNet18):
    """SE-ResNet-18.

    Examples
    --------
    >>> sum(p.numel() for p in SENet18(1000, image_size=224).parameters())
    11778592
    """

    squeeze = True


class SENet50(ResNet50):
    """SE-ResNet-50.

    Examples
    --------
    >>> sum(p.numel() for p in SENet50(1000, image_size=224).parameters())
    28088024
    """

    squeeze = True
