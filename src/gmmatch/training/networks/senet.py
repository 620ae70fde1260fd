"""SE-ResNet-18 and 50: Hu et al., "Squeeze-and-excitation networks", CVPR 2018.

A ResNet whose blocks weigh their channels before the shortcut is added (figure 3 of the paper), squeezed
to a sixteenth. Both linear layers have biases, as in the networks that the authors released: 28,088,024
parameters for SE-ResNet-50 with 1,000 classes. SE-ResNet-18 is not in the paper; with the same layout it
has 11,778,592, which is timm's ``legacy_seresnet18``. Weights are drawn as the ResNet's.
"""

from __future__ import annotations

from gmmatch.training.networks.resnet import ResNet


def senet18(
    n_classes: int,
    image_size: int = 32,
    channels: int = 3,
    *,
    stem_stride: int | None = None,
    zero_init_last: bool = False,
) -> ResNet:
    """Return an SE-ResNet-18, see :class:`~gmmatch.training.networks.resnet.ResNet`.

    Examples
    --------
    >>> sum(p.numel() for p in senet18(1000, image_size=224).parameters())
    11778592
    """
    return ResNet(
        (2, 2, 2, 2),
        n_classes,
        image_size,
        channels,
        bottleneck=False,
        squeeze=True,
        stem_stride=stem_stride,
        zero_init_last=zero_init_last,
    )


def senet50(
    n_classes: int,
    image_size: int = 32,
    channels: int = 3,
    *,
    stem_stride: int | None = None,
    zero_init_last: bool = False,
) -> ResNet:
    """Return an SE-ResNet-50, see :class:`~gmmatch.training.networks.resnet.ResNet`.

    Examples
    --------
    >>> sum(p.numel() for p in senet50(1000, image_size=224).parameters())
    28088024
    """
    return ResNet(
        (3, 4, 6, 3),
        n_classes,
        image_size,
        channels,
        bottleneck=True,
        squeeze=True,
        stem_stride=stem_stride,
        zero_init_last=zero_init_last,
    )
