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
    """Thirteen 3x3 convolutions with five max-pools between them, as is usual for CIFAR.

    Batch norm stands after every convolution, and the means of the last 512 maps are the features, where the
    published network for ImageNet has two hidden layers of 4,096 units. Pools keep the last pixel of an odd row, so
    that 28x28 images work.
    """

    def __init__(self, n_classes: int, image_size: int = 32, channels: int = 3) -> None:
        check_image_size("vgg16", image_size, halvings=5)
        super().__init__(512, n_classes)
        layers: list[nn.Module] = []
        for widths in _WIDTHS:
            for width in widths:
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
                channels = width
            layers.append(nn.MaxPool2d(2, ceil_mode=True))
        self.convolutions = nn.Sequential(*layers)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def features(self, x: Tensor) -> Tensor:
        """Return the means of the last maps: (batch, 512)."""
        return self.convolutions(x).mean(dim=(2, 3))
