"""ResNet-18 and 50 (He et al., CVPR 2016) and SE-ResNet-18 and 50 (Hu et al., CVPR 2018).

Weights of convolutions are He et al.'s (2015), by fan-out; batch norms start as the identity; the head is
torch's default, uniform within 1 / sqrt(512 or 2048), with a bias of zero. The stride of a bottleneck is
in its 3x3 convolution ("v1.5"), where all common implementations have it, and not in the first 1x1.

In an SE-ResNet blocks weigh their channels before the shortcut is added (figure 3 of the paper), squeezed to a
sixteenth. Both linear layers have biases, as in timm's ``legacy_seresnet50``, the port of what the authors released.
SE-ResNet-18 is not in the paper; with the same layout it has as many parameters as timm's ``legacy_seresnet18``.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from gmmatch_paper.training.networks.base import ImageClassifier, choose_stem_stride
from gmmatch_paper.training.networks.layers import SqueezeExcitation, conv_norm, he_fan_out


class ResidualBlock(nn.Module):
    """A residual block: two 3x3 convolutions, or 1x1, 3x3, 1x1 with a bottleneck, beside a shortcut.

    ``width`` is that of the 3x3 convolutions; with a bottleneck four times as many channels leave. With ``squeeze``
    a squeeze-and-excitation weighs the channels before the shortcut is added.
    """

    def __init__(
        self, inputs: int, width: int, stride: int, *, bottleneck: bool, squeeze: bool = False
    ) -> None:
        super().__init__()
        outputs = 4 * width if bottleneck else width
        if bottleneck:
            layers = [conv_norm(inputs, width, 1), nn.ReLU(), conv_norm(width, width, 3, stride), nn.ReLU()]
            layers.append(conv_norm(width, outputs, 1))
        else:
            layers = [conv_norm(inputs, width, 3, stride), nn.ReLU(), conv_norm(width, outputs, 3)]
        self.residual = nn.Sequential(*layers)
        self.excitation = SqueezeExcitation(outputs, outputs // 16) if squeeze else nn.Identity()
        changes = stride != 1 or inputs != outputs
        self.shortcut = conv_norm(inputs, outputs, 1, stride) if changes else nn.Identity()
        self.activation = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output, of shape (batch, outputs, height / stride, width / stride)."""
        return self.activation(self.excitation(self.residual(x)) + self.shortcut(x))


class ResNet(ImageClassifier):
    """A residual network of four stages; its subclasses say how deep and of which blocks.

    The stem for ImageNet is a 7x7 convolution with stride 2 and a max-pool. For small images it is one 3x3
    convolution without a pool: with stride 1 up to 48 pixels, as the paper has it for CIFAR, and with
    stride 2 up to 96.
    """

    depths: ClassVar[tuple[int, ...]]
    bottleneck: ClassVar[bool]
    squeeze: ClassVar[bool] = False

    def __init__(self, n_classes: int, image_size: int = 32, channels: int = 3) -> None:
        expansion = 4 if self.bottleneck else 1
        super().__init__(512 * expansion, n_classes)
        self.stem = _stem(channels, choose_stem_stride("a ResNet", image_size))
        kind = {"bottleneck": self.bottleneck, "squeeze": self.squeeze}
        blocks: list[ResidualBlock] = []
        inputs = 64
        for stage, depth in enumerate(self.depths):
            width = 64 * 2**stage
            for number in range(depth):
                stride = 2 if stage > 0 and number == 0 else 1
                blocks.append(ResidualBlock(inputs, width, stride, **kind))
                inputs = width * expansion
        self.blocks = nn.Sequential(*blocks)
        for module in [*self.stem.modules(), *self.blocks.modules()]:
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                he_fan_out(module)
        nn.init.zeros_(self.head.bias)

    def features(self, x: Tensor) -> Tensor:
        """Return the means of the last maps: (batch, 512), with bottlenecks (batch, 2048)."""
        return self.blocks(self.stem(x)).mean(dim=(2, 3))


class ResNet18(ResNet):
    """ResNet-18."""

    depths, bottleneck = (2, 2, 2, 2), False


class ResNet50(ResNet):
    """ResNet-50."""

    depths, bottleneck = (3, 4, 6, 3), True


class SENet18(ResNet18):
    """SE-ResNet-18."""

    squeeze = True


class SENet50(ResNet50):
    """SE-ResNet-50."""

    squeeze = True


def _stem(channels: int, stride: int) -> nn.Sequential:
    if stride < 4:
        return nn.Sequential(conv_norm(channels, 64, 3, stride), nn.ReLU())
    return nn.Sequential(
        conv_norm(channels, 64, 7, stride=2), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)
    )
