"""What generated images are compared in: features of a classifier of the clean images, or of Inception."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import DataFileNotFoundError, InvalidInputError
from gmmatch_paper.frechet import Moments, moments_of, squared_distance
from gmmatch_paper.studies.image_cells.cache import Arrays, Cache
from gmmatch_paper.studies.image_cells.data import ImageData
from gmmatch_paper.training.recipes import Recipe

if TYPE_CHECKING:
    from gmmatch_paper.training.networks.base import ImageClassifier

CLASSIFIER = "classifier"
"""The feature space where no Inception weights are given."""

RECIPE = Recipe(
    "features",
    epochs=4,
    min_steps=300,
    batch_size=128,
    learning_rate=0.05,
    weight_decay=5e-4,
    schedule="one-cycle",
    warmup=0.2,
    nesterov=True,
)
"""How the classifier is trained: on the clean training images, always with seed 0."""

_WIDTH = 128
_AT_ONCE = 500


@dataclass(frozen=True, eq=False)
class FeatureSpace:
    """Turns bytes (n, height, width, channels) into rows, and knows the moments of the clean test images.

    ``fingerprint`` is of the weights, ``accuracy`` of the classifier on the test images, None for Inception.
    """

    name: str
    fingerprint: str
    embed: Callable[[NDArray[np.uint8]], NDArray[np.float32]]
    real: Moments
    accuracy: float | None

    def distance(self, images: NDArray[np.uint8]) -> float:
        """Return the squared Fréchet distance of images to the real ones."""
        return squared_distance(moments_of(self.embed(images)), self.real)


def space_name(spec: str) -> str:
    """Return what results call a feature space: ``classifier``, or a file's name with a hash of it."""
    if spec == CLASSIFIER:
        return spec
    path = Path(spec)
    if not path.is_file():
        raise DataFileNotFoundError(
            f"--downstream {spec}: expected {CLASSIFIER}, or the file of the Inception network of 2015 in "
            "TorchScript (inception-2015-12-05.pt)."
        )
    return f"{path.stem}:{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"


@lru_cache(maxsize=2)  # a worker measures many cells in the same space
def feature_space(spec: str, data: ImageData, cache: Cache, device: str) -> FeatureSpace:
    """Return a feature space: ``"classifier"``, trained if the cache has none, or Inception from a file.

    The classifier learns from the clean training images, the moments are of the test images.
    """
    accuracy = None
    if spec == CLASSIFIER:
        found = cache.get("classifiers", _key(data), lambda: _trained(data, device))
        fingerprint, accuracy = str(found["fingerprint"]), float(found["accuracy"])
        embed = _classifier_features(found, data, device)
    else:
        fingerprint = space_name(spec).rpartition(":")[2]
        embed = inception_features(spec, device)
    real = moments_of(embed(data.x_test))
    return FeatureSpace(space_name(spec).partition(":")[0], fingerprint, embed, real, accuracy)


def inception_features(path: str, device: str) -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
    """Return the features that FIDs are measured in.

    ``path`` is the Inception network of 2015 in TorchScript, as NVIDIA publishes it for StyleGAN: it takes bytes
    (n, 3, height, width) of any size and ``return_features=True``.
    """
    import torch

    try:
        model = torch.jit.load(path, map_location=device).eval()
    except (RuntimeError, ValueError) as error:
        raise InvalidInputError(f"--downstream {path} is not a TorchScript file.") from error

    def embed(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        found = []
        with torch.inference_mode():
            for start in range(0, len(images), _AT_ONCE):
                part = torch.from_numpy(images[start : start + _AT_ONCE]).to(device).permute(0, 3, 1, 2)
                part = part.expand(-1, 3, -1, -1).contiguous()
                found.append(model(part, return_features=True).float().cpu().numpy())
        return np.concatenate(found)

    return embed


def build_classifier(n_classes: int, channels: int) -> ImageClassifier:
    """Return the network of the features, with fresh weights from torch's global generator."""
    from torch import Tensor, nn

    from gmmatch_paper.training.networks.base import ImageClassifier
    from gmmatch_paper.training.networks.layers import conv_norm

    class SmallClassifier(ImageClassifier):
        def __init__(self) -> None:
            super().__init__(_WIDTH, n_classes)
            self.body = nn.Sequential(
                conv_norm(channels, 32, 3),
                nn.ReLU(),
                nn.MaxPool2d(2),
                conv_norm(32, 64, 3),
                nn.ReLU(),
                nn.MaxPool2d(2),
                conv_norm(64, 64, 3),
                nn.ReLU(),
                nn.AdaptiveAvgPool2d(3),
                nn.Flatten(),
                nn.Linear(9 * 64, _WIDTH),
                nn.ReLU(),
            )

        def features(self, x: Tensor) -> Tensor:
            found: Tensor = self.body(x)
            return found

    return SmallClassifier()


def _key(data: ImageData) -> dict[str, Any]:
    return {"version": 1, "data": data.fingerprint, "recipe": repr(RECIPE), "seed": 0}


def _trained(data: ImageData, device: str) -> Arrays:
    """Train the classifier; return its weights, its accuracy and a hash of the weights."""
    from gmmatch_paper.training.loop import train
    from gmmatch_paper.training.networks.base import seeded

    model = seeded(lambda: build_classifier(data.n_classes, data.x_train.shape[3]), seed=0)
    done = train(
        model,
        data.x_train,
        data.y_train,
        test_images=data.x_test,
        test_labels=data.y_test,
        n_classes=data.n_classes,
        recipe=RECIPE,
        device=device,
    )
    weights = {name: value.cpu().numpy() for name, value in done.model.state_dict().items()}
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(name.encode() + np.ascontiguousarray(weights[name]).tobytes())
    return {
        **{f"weight {name}": value for name, value in weights.items()},
        "accuracy": np.array(done.accuracy),
        "fingerprint": np.array(digest.hexdigest()[:12]),
    }


def _classifier_features(
    found: Arrays, data: ImageData, device: str
) -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
    import torch

    from gmmatch_paper.training.images import put_images

    with torch.random.fork_rng(devices=[]):
        model = build_classifier(data.n_classes, data.x_train.shape[3])
    weights = {name[7:]: torch.from_numpy(value) for name, value in found.items() if name[:7] == "weight "}
    model.load_state_dict(weights)
    model.to(device, memory_format=torch.channels_last).eval().requires_grad_(False)
    trained_on = put_images(data.x_train, data.y_train)
    mean, deviation = trained_on.mean, trained_on.deviation

    def embed(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        put = put_images(
            images, np.zeros(len(images), dtype=np.int64), device=device, mean=mean, deviation=deviation
        )
        # In float32 throughout, unlike a prediction: the distances are differences of large numbers.
        with torch.inference_mode():
            rows = [model.features(inputs).float().cpu().numpy() for _, inputs, _ in put.batches(_AT_ONCE)]
        return np.concatenate(rows)

    return embed
