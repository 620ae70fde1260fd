"""Networks so small that a study can be tried on a CPU in seconds."""

from __future__ import annotations

from torch import Tensor, nn

from gmmatch_paper.training.networks.base import ImageClassifier

SMALL_NETWORKS = {"tiny": 8, "tiny-wide": 16}
"""Names, and the channels of their first layer."""


class TinyNetwork(ImageClassifier):
    """Two convolutions and a mean over the picture."""

    def __init__(self, n_classes: int, channels: int, width: int) -> None:
        super().__init__(2 * width * 4, n_classes)
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )

    def features(self, x: Tensor) -> Tensor:
        """Return the second convolution's means over the quarters of the picture."""
        found: Tensor = self.body(x)
        return found
