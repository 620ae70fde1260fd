"""ViT-S: Dosovitskiy et al., "An image is worth 16x16 words", ICLR 2021.

Twelve layers of width 384 with six heads, the size that Touvron et al. (DeiT, ICML 2021) call small.
Weights are theirs: truncated normal with standard deviation 0.02 in all linear layers, the class token and
the positions, and biases of zero. The projection of the patches has variance 1 / (values per patch), as in
the ViT authors' code, since 0.02 suits an input of 384 values and a patch has 48 to 768.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from gmmatch.errors import InvalidInputError
from gmmatch_paper.training.networks.base import ImageClassifier

_WIDTH, _DEPTH, _HEADS = 384, 12, 6


def choose_patch(image_size: int) -> int:
    """Return the side of the patches: the largest of 16, 8, 4, 2 and 1 that leaves 7 to 32 of them per side.

    Examples
    --------
    >>> [choose_patch(size) for size in (8, 28, 32, 64, 224)]
    [1, 4, 4, 8, 16]
    """
    for side in (16, 8, 4, 2, 1):
        if image_size % side == 0 and 7 <= image_size // side <= 32:
            return side
    raise InvalidInputError(
        f"image_size={image_size} cannot be cut into 7 to 32 patches per side of 16, 8, 4, 2 or 1 pixels: "
        "resize the images, to 32 for example."
    )


class Attention(nn.Module):
    """Self-attention with several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the mixed tokens: (batch, tokens, width) to the same shape."""
        parts = self.queries_keys_values(x).unflatten(-1, (3, self.heads, -1))
        queries, keys, values = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(queries, keys, values)
        return self.projection(mixed.transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    """Attention and a two-layer perceptron, each after a layer norm and beside a shortcut.

    Equations 2 and 3 of the paper.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(width, eps=1e-6), Attention(width, heads))
        self.perceptron = nn.Sequential(
            nn.LayerNorm(width, eps=1e-6),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the tokens one layer on: (batch, tokens, width) to the same shape."""
        x = x + self.attention(x)
        return x + self.perceptron(x)


class VisionTransformer(ImageClassifier):
    """ViT-S with a class token and learned positions."""

    def __init__(self, n_classes: int, image_size: int = 32, channels: int = 3) -> None:
        super().__init__(_WIDTH, n_classes)
        patch = choose_patch(image_size)
        self.image_size = image_size
        self.patches = nn.Conv2d(channels, _WIDTH, patch, stride=patch)
        self.class_token = nn.Parameter(torch.empty(1, 1, _WIDTH))
        self.positions = nn.Parameter(torch.empty(1, 1 + (image_size // patch) ** 2, _WIDTH))
        self.layers = nn.Sequential(*(EncoderLayer(_WIDTH, _HEADS) for _ in range(_DEPTH)))
        self.norm = nn.LayerNorm(_WIDTH, eps=1e-6)
        self._initialise()

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
        nn.init.trunc_normal_(self.class_token, std=0.02)
        nn.init.trunc_normal_(self.positions, std=0.02)
        nn.init.trunc_normal_(self.patches.weight, std=1.0 / math.sqrt(self.patches.weight[0].numel()))
        nn.init.zeros_(self.patches.bias)

    def features(self, x: Tensor) -> Tensor:
        """Return the class token after the last layer, normalized: (batch, 384)."""
        if x.shape[-2:] != (self.image_size, self.image_size):
            raise InvalidInputError(
                f"x has images of {x.shape[-2]} x {x.shape[-1]}; this network has positions for "
                f"{self.image_size} x {self.image_size}: resize the images, or build it for their size."
            )
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat((self.class_token.expand(len(tokens), -1, -1), tokens), dim=1)
        return self.norm(self.layers(tokens + self.positions)[:, 0])
