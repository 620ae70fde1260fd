"""What is trained on the picks: a network from scratch, or a linear probe on the embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gmmatch_paper.studies.image_cells.heads import HEAD
from gmmatch_paper.training.recipes import Recipe, find_recipe

if TYPE_CHECKING:
    from gmmatch_paper.training.loop import OnBatch, Trained

QUICK = Recipe(
    "quick",
    epochs=4,
    batch_size=32,
    learning_rate=0.1,
    weight_decay=5e-4,
    schedule="one-cycle",
    warmup=0.25,
)
"""For trying a study on small images; its accuracies mean nothing."""

LINEAR = "linear"
"""The 'network' of a linear probe."""

WITHOUT_IMAGES = {"probe": LINEAR, "head": HEAD}
"""What is trained on the features of the picks, and what tables call its network."""

# Fewer strengths than the probe's own, as a study fits it hundreds of times.
PROBE_STRENGTHS = (1e-1, 1e-2, 1e-3)
PROBE_ITERATIONS = 100


def study_recipe(name: str, network: str, image_size: int) -> str:
    """Return the name of the recipe that ``fast`` or ``paper`` stands for."""
    if name == "fast":
        return "fast-adamw" if network.startswith("vit") else "fast"
    if name == "paper":
        if image_size <= 32:
            return "paper-cifar"
        return "paper-tiny-imagenet" if image_size <= 64 else "paper-imagenet"
    recipe_named(name)  # raises for a name that there is not
    return name


def recipe_named(name: str | Recipe) -> Recipe:
    """Return a recipe, the quick one included."""
    return QUICK if name == QUICK.name else find_recipe(name)


def untrained_network(network: str, n_classes: int, image_size: int, channels: int, seed: int) -> Any:
    """Return a network by its name, the small ones of the studies included, with fresh weights."""
    from gmmatch_paper.studies.image_cells.small_networks import SMALL_NETWORKS, TinyNetwork
    from gmmatch_paper.training.networks import build_network
    from gmmatch_paper.training.networks.base import seeded

    if network in SMALL_NETWORKS:
        return seeded(lambda: TinyNetwork(n_classes, channels, SMALL_NETWORKS[network]), seed)
    return seeded(lambda: build_network(network, n_classes, image_size, channels), seed)


def train_network(
    network: Any,
    images: Any,
    labels: Any,
    *,
    n_classes: int,
    recipe: str | Recipe,
    seed: int,
    device: str,
    test: tuple[Any, Any] = (None, None),
    on_batch: OnBatch | None = None,
    test_epochs: bool = False,
) -> Trained:
    """Train a network by its name, or a module, on images."""
    from gmmatch_paper.training.loop import train

    if isinstance(network, str):
        network = untrained_network(network, n_classes, max(images.shape[1:3]), images.shape[3], seed)
    return train(
        network, images, labels, test_images=test[0], test_labels=test[1], recipe=recipe_named(recipe),
        n_classes=n_classes, seed=seed, device=device, on_batch=on_batch, test_epochs=test_epochs,
    )  # fmt: skip


def probe_accuracy(
    train_rows: Any, train_labels: Any, test_rows: Any, test_labels: Any, *, seed: int, device: str
) -> float:
    """Return the test accuracy of a linear probe; fitted on a GPU if the device is one."""
    from gmmatch_paper.training.probe import fit_linear_probe

    rows = train_rows
    if device.startswith("cuda"):
        import torch

        rows = torch.as_tensor(train_rows, device=device).float()
    probe = fit_linear_probe(
        rows, train_labels, strengths=PROBE_STRENGTHS, max_iter=PROBE_ITERATIONS, random_state=seed
    )
    return probe.accuracy(test_rows, test_labels)


def pick_device(device: str) -> str:
    """Return a device by its name, or the best one for ``"auto"``; torch takes seconds to import."""
    from gmmatch_paper.training.devices import choose_device

    return choose_device(device)


def device_name(device: str) -> str:
    """Return what to call a device in results."""
    if not device.startswith("cuda"):
        return device
    import torch

    return str(torch.cuda.get_device_name(device))
