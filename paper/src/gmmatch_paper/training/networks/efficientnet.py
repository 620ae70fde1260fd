"""EfficientNet-B0: Tan and Le, "EfficientNet: rethinking model scaling", ICML 2019.

Weights are those of the authors' code: He et al.'s by fan-out in the convolutions and in squeeze-and-
excitation, all biases zero. Their head is uniform within 1 / sqrt(n_classes); here within 1 / sqrt(1000)
where there are fewer classes than ImageNet's, since few classes would start with large, wrong logits.
Batch norms are theirs too: running statistics keep 99% per step, and 0.001 is added to the variance.
"""

from __future__ import annotations

import math

from torch import Tensor, nn

from gmmatch_paper.training.networks.base import ImageClassifier, choose_stem_stride
from gmmatch_paper.training.networks.layers import SqueezeExcitation, StochasticDepth, conv_norm, he_fan_out

# Table 1 of the paper, stages 2 to 8: expansion, kernel, channels, blocks, stride of the first block.
_STAGES = (
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 5, 40, 2, 2),
    (6, 3, 80, 3, 2),
    (6, 5, 112, 3, 1),
    (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
)

_DROPPED = 0.2


class InvertedBottleneck(nn.Module):
    """MBConv: expand the channels, convolve each, weigh them, project them back, add the input."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int, drop: float = 0.0
    ) -> None:
        super().__init__()
        width = inputs * expansion
        self.branch = nn.Sequential()
        if expansion != 1:
            self.branch.extend([conv_norm(inputs, width, 1), nn.SiLU()])
        self.branch.extend([conv_norm(width, width, kernel, stride, groups=width), nn.SiLU()])
        self.branch.append(SqueezeExcitation(width, max(1, inputs // 4), nn.SiLU()))
        self.branch.append(conv_norm(width, outputs, 1))
        self.adds = stride == 1 and inputs == outputs
        if self.adds:
            self.branch.append(StochasticDepth(drop))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output, of shape (batch, outputs, height / stride, width / stride)."""
        return x + self.branch(x) if self.adds else self.branch(x)


class EfficientNetB0(ImageClassifier):
    """EfficientNet-B0.

    For ImageNet the first convolution has stride 2, and so has the first block with 24 channels. Up to 96
    pixels that block has stride 1, and up to 48 the first convolution as well. A fifth of the pooled features is
    dropped before the head; the rate of stochastic depth grows from 0 in the first block to a fifth.
    """

    def __init__(self, n_classes: int, image_size: int = 32, channels: int = 3) -> None:
        super().__init__(1280, n_classes)
        stem_stride = choose_stem_stride("efficientnet-b0", image_size)
        self.stem = nn.Sequential(conv_norm(channels, 32, 3, min(stem_stride, 2)), nn.SiLU())
        self.blocks = nn.Sequential()
        n_blocks = sum(depth for *_, depth, _ in _STAGES)
        inputs = 32
        for expansion, kernel, outputs, depth, first_stride in _STAGES:
            for number in range(depth):
                stride = first_stride if number == 0 else 1
                if outputs == 24 and stem_stride < 4:
                    stride = 1
                drop = _DROPPED * len(self.blocks) / n_blocks
                self.blocks.append(InvertedBottleneck(inputs, outputs, kernel, stride, expansion, drop))
                inputs = outputs
        self.last = nn.Sequential(conv_norm(inputs, 1280, 1), nn.SiLU())
        self.dropout = nn.Dropout(_DROPPED)
        self._initialise(momentum=0.01 if stem_stride == 4 else 0.1)

    def _initialise(self, momentum: float) -> None:
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                # The authors' 0.01 is for ImageNet's hundreds of thousands of steps: after the few of a small
                # set, averages that slow are still near where they started (10% right against 30% in training).
                module.eps, module.momentum = 1e-3, momentum
            elif isinstance(module, (nn.Conv2d, nn.Linear)) and module is not self.head:
                he_fan_out(module)
        limit = 1.0 / math.sqrt(max(1000, self.head.out_features))
        nn.init.uniform_(self.head.weight, -limit, limit)
        nn.init.zeros_(self.head.bias)

    def features(self, x: Tensor) -> Tensor:
        """Return the means of the last maps, some of them dropped in training: (batch, 1280)."""
        return self.dropout(self.last(self.blocks(self.stem(x))).mean(dim=(2, 3)))
