"""Squeeze-and-excitation: Hu et al., "Squeeze-and-excitation networks", CVPR 2018."""

from __future__ import annotations

from torch import Tensor, nn


class SqueezeExcitation(nn.Module):
    """Weigh every channel of an image by a gate between 0 and 1 that the whole image decides.

    The channels' means z (equation 2 of the paper) go through two linear layers with biases to
    s = sigmoid(W2 relu(W1 z)) (equation 3), and channel c of the output is s_c times the input's
    (equation 4).

    Parameters
    ----------
    channels : int
        Channels of the image.
    squeezed : int
        Units between the two layers.
    activation : torch.nn.Module, optional
        What stands between the layers, ReLU by default.

    Examples
    --------
    >>> import torch
    >>> gate = SqueezeExcitation(32, 2)
    >>> images = torch.rand(4, 32, 8, 8)
    >>> bool((gate(images) < images).all())
    True
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
