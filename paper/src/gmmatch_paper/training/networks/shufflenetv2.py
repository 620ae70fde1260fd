"""ShuffleNetV2 x1.0: Ma et al., "ShuffleNet V2: practical guidelines", ECCV 2018.

The paper does not say how weights are drawn. These are the authors' released ones: normal with standard
deviation 0.01 in the first convolution and the head, and 1 / (input channels per group) in all others;
batch norms have a bias of 0.0001.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gmmatch_paper.training.networks.base import ImageClassifier, choose_stem_stride
from gmmatch_paper.training.networks.layers import conv_norm

# Table 5 of the paper, the column for 1x: channels and blocks of stages 2 to 4.
_STAGES = ((116, 4), (232, 8), (464, 4))


def interleave(left: Tensor, right: Tensor) -> Tensor:
    """Return two images as one whose channels alternate between theirs: the channel shuffle.

    Done with the channels last in memory, where the shuffle keeps that layout; the plain way, through a
    five-dimensional view, loses it and makes the convolutions after it convert.
    """
    pairs = torch.stack((left.permute(0, 2, 3, 1), right.permute(0, 2, 3, 1)), dim=-1)
    return pairs.flatten(-2).permute(0, 3, 1, 2)


class ShuffleBlock(nn.Module):
    """A block that leaves half of the channels alone, or (with stride 2) takes them all on both sides.

    Figure 3c and 3d of the paper.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        width = outputs // 2
        self.splits = stride == 1
        self.branch = nn.Sequential(
            conv_norm(width if self.splits else inputs, width, 1),
            nn.ReLU(),
            conv_norm(width, width, 3, stride, groups=width),
            conv_norm(width, width, 1),
            nn.ReLU(),
        )
        self.shortcut = (
            nn.Identity()
            if self.splits
            else nn.Sequential(
                conv_norm(inputs, inputs, 3, stride, groups=inputs), conv_norm(inputs, width, 1), nn.ReLU()
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output, of shape (batch, outputs, height / stride, width / stride)."""
        left, right = x.chunk(2, dim=1) if self.splits else (x, x)
        return interleave(self.shortcut(left), self.branch(right))


class ShuffleNetV2(ImageClassifier):
    """ShuffleNetV2 at width 1.0.

    The stem for ImageNet is a 3x3 convolution with stride 2 and a max-pool; for small images there is no
    pool, and up to 48 pixels the convolution has stride 1.
    """

    def __init__(self, n_classes: int, image_size: int = 32, channels: int = 3) -> None:
        super().__init__(1024, n_classes)
        stem_stride = choose_stem_stride("shufflenetv2", image_size)
        self.stem = nn.Sequential(conv_norm(channels, 24, 3, min(stem_stride, 2)), nn.ReLU())
        if stem_stride == 4:
            self.stem.append(nn.MaxPool2d(3, stride=2, padding=1))
        self.blocks = nn.Sequential()
        inputs = 24
        for outputs, depth in _STAGES:
            for number in range(depth):
                self.blocks.append(ShuffleBlock(inputs, outputs, stride=2 if number == 0 else 1))
                inputs = outputs
        self.last = nn.Sequential(conv_norm(inputs, 1024, 1), nn.ReLU())
        self._initialise()

    def _initialise(self) -> None:
        first = self.stem[0][0]
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                std = 0.01 if module is first else 1.0 / module.weight.shape[1]
                nn.init.normal_(module.weight, std=std)
            elif isinstance(module, nn.BatchNorm2d):
                nn.init.constant_(module.bias, 0.0001)
        nn.init.normal_(self.head.weight, std=0.01)
        nn.init.zeros_(self.head.bias)

    def features(self, x: Tensor) -> Tensor:
        """Return the means of the last maps: (batch, 1024)."""
        return self.last(self.blocks(self.stem(x))).mean(dim=(2, 3))
