"""Images that a network trained on them gets wrong, made once for all cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gmmatch_paper.studies.image_cells.cache import Arrays, Cache
from gmmatch_paper.studies.image_cells.corruptions import CorruptionSpec
from gmmatch_paper.studies.image_cells.data import ImageData
from gmmatch_paper.studies.image_cells.downstream import recipe_named, train_network, untrained_network
from gmmatch_paper.studies.image_cells.proxies import VERSION

if TYPE_CHECKING:
    from torch import nn


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
        "network": network,
        "recipe": repr(recipe_named(recipe)),
        "seed": seed,
    }

    def attack() -> Arrays:
        return _attack(data, corruption, seed, _target(data, key, network, recipe, cache, device))

    # Numbered on their own: since 2 the network is attacked as it was trained, in bfloat16 on a GPU.
    return cache.get("attacks", {**key, "corruption": corruption.text, "attack": 2}, attack)["images"]


def _target(
    data: ImageData, key: dict[str, Any], network: str, recipe: str, cache: Cache, device: str
) -> nn.Module:
    """Return the network to attack, trained once for all attacks."""
    import torch

    model = untrained_network(network, data.n_classes, data.image_size, data.x_train.shape[3], key["seed"])

    def train() -> Arrays:
        trained = train_network(
            model, data.x_train, data.y_train, n_classes=data.n_classes, recipe=recipe, seed=key["seed"],
            device=device,
        )  # fmt: skip
        return {name: value.cpu().numpy() for name, value in trained.model.state_dict().items()}

    weights = cache.get("targets", key, train)
    model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    return model.to(device, memory_format=torch.channels_last).eval()


def _attack(data: ImageData, corruption: CorruptionSpec, seed: int, target: nn.Module) -> Arrays:
    import torch

    from gmmatch_paper.corruption import FGSM, PGD
    from gmmatch_paper.training.images import put_images

    where = next(target.parameters()).device
    images = put_images(data.x_train, data.y_train)
    mean, deviation = (one.to(where)[:, None, None] for one in (images.mean, images.deviation))

    class Normalized(torch.nn.Module):
        """The network for images from 0 to 1, which is what an attack changes."""

        def __init__(self, model: torch.nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any) -> Any:
            # As it was trained: in bfloat16 where that is fast.
            with torch.autocast(where.type, torch.bfloat16, enabled=where.type == "cuda"):
                return self.model((x - mean) / deviation).float()

    method = {"pgd": PGD, "fgsm": FGSM}[corruption.kind](rate=corruption.rate, seed=seed)
    pixels = torch.as_tensor(data.x_train).permute(0, 3, 1, 2).float() / 255.0
    found = method.apply(pixels, torch.as_tensor(data.y_train), Normalized(target)).data
    return {"images": (found * 255.0).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()}
