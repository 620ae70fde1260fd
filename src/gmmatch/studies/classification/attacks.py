"""Images that a network trained on them gets wrong, made once for all cells."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.studies.classification.cache import Arrays, Cache
from gmmatch.studies.classification.corruptions import CorruptionSpec
from gmmatch.studies.classification.data import ImageData
from gmmatch.studies.classification.downstream import recipe_named, train_network
from gmmatch.studies.classification.proxies import VERSION


def attacked_images(
    data: ImageData,
    corruption: CorruptionSpec,
    *,
    network: str,
    recipe: str,
    seed: int,
    cache: Cache,
    device: str,
) -> NDArray[np.uint8]:
    """Return the training images under an attack on a network that was trained on them."""
    key = {
        "version": VERSION,
        "data": data.fingerprint,
        "corruption": corruption.text,
        "network": network,
        "recipe": repr(recipe_named(recipe)),
        "seed": seed,
    }
    return cache.get("attacks", key, lambda: _attack(data, corruption, network, recipe, seed, device))[
        "images"
    ]


def _attack(
    data: ImageData, corruption: CorruptionSpec, network: str, recipe: str, seed: int, device: str
) -> Arrays:
    import torch

    from gmmatch.corruption import FGSM, PGD
    from gmmatch.training.images import put_images

    trained = train_network(
        network, data.x_train, data.y_train, n_classes=data.n_classes, recipe=recipe, seed=seed, device=device
    )
    where = next(trained.model.parameters()).device
    images = put_images(data.x_train, data.y_train)
    mean, deviation = (one.to(where)[:, None, None] for one in (images.mean, images.deviation))

    class Normalized(torch.nn.Module):
        """The network for images from 0 to 1, which is what an attack changes."""

        def __init__(self, model: torch.nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any) -> Any:
            return self.model((x - mean) / deviation)

    method = {"pgd": PGD, "fgsm": FGSM}[corruption.kind](rate=corruption.rate, seed=seed)
    pixels = torch.as_tensor(data.x_train).permute(0, 3, 1, 2).float() / 255.0
    found = method.apply(pixels, torch.as_tensor(data.y_train), Normalized(trained.model)).data
    return {"images": (found * 255.0).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()}
