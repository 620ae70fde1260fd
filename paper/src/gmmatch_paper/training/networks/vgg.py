"""VGG-16: Simonyan and Zisserman, "Very deep convolutional networks", ICLR 2015, configuration D.

The paper drew the weights of a shallower network from a normal distribution and grew the deep one from
it, and notes (section 3.1) that Glorot and Bengio's initialization needs no such detour. This is what
stands here: uniform with variance 2 / (fan in + fan out), their equation 16, and biases of zero.
"""

from __future__ import annotations

from torch import Tensor, nn

from gmmatch_paper.training.networks.base import ImageClassifier, check_image_size

_WIDTHS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


class VGG16(ImageClassifier):
    """Thirteen 3x3 convolutions with five max-pools between them.

    Above 96 pixels this is the published network: no batch norm, and two hidden layers of 4,096 units with
    dropout, whose output are the features. Up to 96 pixels it is the usual one for CIFAR: batch norm after
    every convolution, and the means of the last 512 maps as features. Pools keep the last pixel of an odd
    row, so that 28x28 images work.
    """

    def __init__(self, n_classes: int, image_size: int = 32, channels: int = 3) -> None:
        check_image_size("vgg16", image_size, halvings=5)
        small = image_size <= 96
        super().__init__(512 if small else 4096, n_classes)
        self.convolutions = _convolutions(channels, batch_norm=small)
        if small:
            self.hidden = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        else:
            # Every pool leaves half, rounded up: together a thirty-second, rounded up.
            side = -(-image_size // 32)
            self.hidden = nn.Sequential(
                nn.Flatten(),
                nn.Linear(512 * side**2, 4096),
                nn.ReLU(),
                nn.Dropout(0.5),
                nn.Linear(4096, 4096),
                nn.ReLU(),
                nn.Dropout(0.5),
            )
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def features(self, x: Tensor) -> Tensor:
        """Return the last hidden layer: (batch, 512) for small images, else (batch, 4096)."""
        return self.hidden(self.convolutions(x))


def _convolutions(channels: int, batch_norm: bool) -> nn.Sequential:
    layers: list[nn.Module] = []
    for widths in _WIDTHS:
        for width in widths:
            layers.append(nn.Conv2d(channels, width, 3, padding=1))
            if batch_norm:
                layers.append(nn.BatchNorm2d(width))
            layers.append(nn.ReLU())
            channels = width
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
    return nn.Sequential(*layers)
