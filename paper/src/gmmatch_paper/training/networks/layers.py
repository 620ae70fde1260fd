"""Layers that several networks are made of."""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn import functional


def conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Return a convolution that keeps the image's size, but for its stride, and a batch norm after it."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    )


def he_fan_out(layer: nn.Conv2d | nn.Linear) -> None:
    """Draw a layer's weights as He et al. (2015) do, from what leaves it, and set its bias to zero.

    Normal with mean 0 and variance 2 / n, where n counts the outputs that one input has a weight in:
    kernel area times output channels per group. That is equation 14 of "Delving deep into rectifiers",
    which keeps the gradients' variance.
    """
    groups = layer.groups if isinstance(layer, nn.Conv2d) else 1
    fan_out = layer.weight.shape[0] // groups * math.prod(layer.weight.shape[2:])
    nn.init.normal_(layer.weight, std=math.sqrt(2.0 / fan_out))
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


class SqueezeExcitation(nn.Module):
    """Weigh every channel of an image by a gate between 0 and 1 that the whole image decides.

    From Hu et al., "Squeeze-and-excitation networks", CVPR 2018. The channels' means z (their equation 2)
    go through two linear layers with biases to s = sigmoid(W2 relu(W1 z)) (equation 3), and channel c of
    the output is s_c times the input's (equation 4).
    """

    def __init__(self, channels: int, squeezed: int, activation: nn.Module | None = None) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.Linear(channels, squeezed),
            nn.ReLU() if activation is None else activation,
            nn.Linear(squeezed, channels),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the weighted image, of the same shape."""
        return x * self.gate(x.mean(dim=(2, 3)))[:, :, None, None]


class StochasticDepth(nn.Module):
    """In training, replace a random share of the images by zeros, and scale the others to make up for it.

    From Huang et al., "Deep networks with stochastic depth", ECCV 2016: at the end of a residual branch it
    leaves out the branch.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Return the images, some of them zero, in the same shape."""
        if not self.training or self.rate == 0.0:
            return x
        return x * functional.dropout(x.new_ones(x.shape[0], 1, 1, 1), self.rate)
