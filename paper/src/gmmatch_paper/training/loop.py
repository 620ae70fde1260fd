"""Training a network on images, from a recipe and a seed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from gmmatch.errors import InvalidInputError
from gmmatch_paper.training.devices import choose_device
from gmmatch_paper.training.evaluation import accuracy
from gmmatch_paper.training.images import Images, put_images
from gmmatch_paper.training.networks import build_network
from gmmatch_paper.training.recipes import Recipe, find_recipe
from gmmatch_paper.training.step import TrainingStep, make_optimizer

OnBatch: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor | None], object]
"""Called with row numbers, logits, class numbers and features of every batch: a recorder's ``update``."""

Progress: TypeAlias = Callable[[int, int], object]
"""Called with the epochs that are done, and how many there are."""


@dataclass(frozen=True)
class Epoch:
    """What one epoch came to: mean loss and accuracy on the (augmented) training images, and seconds."""

    loss: float
    accuracy: float
    seconds: float


@dataclass(frozen=True)
class Trained:
    """A trained network and how it got there.

    Attributes
    ----------
    model
        The network, in evaluation mode, on the device it was trained on.
    accuracies
        Of the test images, by ``t`` for top-t; empty if there were none.
    history
        One entry per epoch.
    best
        The best top-1 accuracy of any epoch, where all were tested.
    seconds
        Time in the loop, without setting up and testing; on CUDA the capture of the step is counted in.
    n_rows
        Images trained on.
    """

    model: nn.Module
    accuracies: dict[int, float]
    history: tuple[Epoch, ...]
    seconds: float
    n_rows: int
    best: float | None = None

    @property
    def accuracy(self) -> float:
        """Top-1 accuracy on the test images."""
        return self.accuracies[1]


def train(
    network: str | nn.Module,
    images: Any,
    labels: Any,
    *,
    test_images: Any = None,
    test_labels: Any = None,
    recipe: str | Recipe = "fast",
    n_classes: int | None = None,
    seed: int = 0,
    device: str = "auto",
    on_batch: OnBatch | None = None,
    progress: Progress | None = None,
    test_epochs: bool = False,
) -> Trained:
    """Train a network from scratch.

    The images are kept on the device as bytes and augmented there; on CUDA the step runs in bfloat16,
    channels last, replayed from a graph. The same seed on the same machine gives the same run on a CPU;
    on CUDA sums whose order is not fixed make runs differ in the last digits. No global random state is
    touched.

    Parameters
    ----------
    network
        A name of :func:`gmmatch_paper.training.networks.networks`, or a module, which is trained further as it is.
    images, labels
        As :func:`~gmmatch_paper.training.images.put_images` takes them; or ``Images``, and None for the labels.
    test_images, test_labels
        Images to measure accuracy on at the end.
    recipe
        A name of :func:`~gmmatch_paper.training.recipes.recipes`, or a recipe.
    n_classes
        Classes; by default one more than the largest label.
    seed
        Decides the initial weights, the order of rows and the augmentation.
    device
        ``"auto"``, ``"cpu"``, ``"cuda"``, …; ignored if ``images`` are on one already.
    on_batch
        Called with ``(row numbers, logits, labels, features)`` of every batch, the last being the input of the
        model's ``head``, or None. Logits and features are overwritten by the next batch: copy what you keep.
    progress
        Called after every epoch with the epochs done and their number.
    test_epochs
        Measure accuracy after every epoch, for the best one. It is chosen on the test images, as the paper's
        reference repositories do, and therefore flatters.

    Examples
    --------
    >>> import numpy as np
    >>> images = np.random.default_rng(0).integers(0, 255, (8, 8, 8, 3), dtype=np.uint8)
    >>> recipe = Recipe("tiny", epochs=1, batch_size=4, learning_rate=0.1, weight_decay=0.0)
    >>> done = train("resnet18", images, [0, 1] * 4, recipe=recipe, device="cpu")
    >>> len(done.history), done.n_rows
    (1, 8)
    """
    plan = find_recipe(recipe)
    data = _on_device(images, labels, device)
    if len(data) < 2:
        raise InvalidInputError("images holds one image: batch normalization needs two or more to train on.")
    classes = int(data.codes.max()) + 1 if n_classes is None else n_classes
    if int(data.codes.max()) >= classes:
        raise InvalidInputError(
            f"labels holds {int(data.codes.max())}: with n_classes={classes} expected less."
        )
    with torch.random.fork_rng(devices=[data.device] if data.device.type == "cuda" else []):
        torch.manual_seed(seed)
        if isinstance(network, str):
            network = build_network(network, classes, image_size=data.size, channels=data.channels)
        model = network.to(data.device, memory_format=torch.channels_last).train()
        epochs = plan.epochs_for(len(data))
        tested = test_images
        if test_images is not None and not isinstance(tested, Images):
            tested = put_images(
                test_images, test_labels, device=data.device, mean=data.mean, deviation=data.deviation
            )
        step = TrainingStep(model, make_optimizer(model, plan, data.device), plan)
        history, of_epochs = [], []
        for number in range(epochs):
            history.append(_train_epoch(step, plan, data, seed, number, on_batch))
            if test_epochs and tested is not None:
                of_epochs.append(accuracy(model, tested)[1])
            if progress is not None:
                progress(number + 1, epochs)
        step.close()
    model.eval()
    accuracies = {} if tested is None else accuracy(model, tested, plan.top)
    seconds = sum(each.seconds for each in history)
    return Trained(model, accuracies, tuple(history), seconds, len(data), max(of_epochs, default=None))


def _train_epoch(
    step: TrainingStep, recipe: Recipe, data: Images, seed: int, number: int, on_batch: OnBatch | None
) -> Epoch:
    started = time.perf_counter()
    size, steps = recipe.rows_per_step(len(data)), recipe.steps_per_epoch(len(data))
    epoch_seed = (seed * 1_000_003 + number) % 2**62
    torch.manual_seed(epoch_seed)
    random = torch.Generator(data.device).manual_seed(epoch_seed)
    shuffled = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch_seed))
    order = torch.cat([shuffled, shuffled[: steps * size - len(data)]]).to(data.device)
    dtype = torch.bfloat16 if data.device.type == "cuda" else torch.float32
    batches = data.augmented(order, recipe, random, dtype)
    for place, (rows, inputs, codes) in enumerate(batches, number * steps):
        logits = step(inputs, codes, recipe.rate_at(place, len(data)))
        if on_batch is not None:
            on_batch(rows, logits, codes, step.features)
    loss, correct = step.totals()
    return Epoch(loss / len(order), correct / len(order), time.perf_counter() - started)


def _on_device(images: Any, labels: Any, device: str) -> Images:
    if isinstance(images, Images):
        return images
    return put_images(images, labels, device=choose_device(device))
