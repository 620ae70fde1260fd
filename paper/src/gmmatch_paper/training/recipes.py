"""How a network is trained, as data: the paper's recipes and a fast one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from gmmatch.errors import InvalidInputError, unknown_name
from gmmatch_paper.checks import check_whole_number


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a training run beside the data, the network and the seed.

    Attributes
    ----------
    name
        What the recipe is called.
    epochs, batch_size
        Passes over the rows, and rows per step.
    min_steps
        Steps at least: on a small subset, ``epochs`` passes would be too few to learn anything. 0 keeps to
        ``epochs``, as the paper does.
    optimizer
        ``"sgd"`` with momentum, or ``"adamw"``.
    learning_rate
        The largest learning rate.
    schedule
        ``"steps"`` divides it by ``factor`` at every epoch of ``milestones``; ``"one-cycle"`` raises it
        from 0 over the share ``warmup`` of all steps and lets it fall to 0 in a straight line.
    momentum, nesterov, weight_decay, label_smoothing
        As everywhere; ``momentum`` is AdamW's β₁.
    crop_padding, crop_fill, flip, cutout
        Augmentation: a random crop of the image padded with that many pixels on each side, which are
        ``"black"`` or ``"mirrored"`` from the image; a horizontal flip of a random half of the images; a black
        square of that side, but at most a quarter of the image's, at a random place (0: none).
    top
        Accuracies to report: 1 for top-1, 5 for top-5.

    Examples
    --------
    >>> PAPER_CIFAR.rate_at(step=0, n_rows=50_000), PAPER_CIFAR.rate_at(step=391 * 60, n_rows=50_000)
    (0.1, 0.02)
    """

    name: str
    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    schedule: Literal["steps", "one-cycle"] = "steps"
    milestones: tuple[int, ...] = ()
    factor: float = 10.0
    warmup: float = 0.0
    min_steps: int = 0
    optimizer: Literal["sgd", "adamw"] = "sgd"
    momentum: float = 0.9
    nesterov: bool = False
    label_smoothing: float = 0.0
    crop_padding: int = 0
    crop_fill: Literal["black", "mirrored"] = "black"
    flip: bool = False
    cutout: int = 0
    top: tuple[int, ...] = (1, 5)

    def __post_init__(self) -> None:
        check_whole_number(self.epochs, "epochs")
        check_whole_number(self.batch_size, "batch_size")
        if self.schedule not in ("steps", "one-cycle"):
            raise InvalidInputError(f'schedule={self.schedule!r}: expected "steps" or "one-cycle".')
        if self.optimizer not in ("sgd", "adamw"):
            raise InvalidInputError(f'optimizer={self.optimizer!r}: expected "sgd" or "adamw".')
        if self.crop_fill not in ("black", "mirrored"):
            raise InvalidInputError(f'crop_fill={self.crop_fill!r}: expected "black" or "mirrored".')

    def rows_per_step(self, n_rows: int) -> int:
        """Rows of a step: the batch size, or all rows if there are fewer."""
        return min(self.batch_size, n_rows)

    def steps_per_epoch(self, n_rows: int) -> int:
        """Steps that see every row; the last one is topped up with rows of the same epoch."""
        return math.ceil(n_rows / self.rows_per_step(n_rows))

    def epochs_for(self, n_rows: int) -> int:
        """Epochs on so many rows: more than ``epochs`` where ``min_steps`` asks for it."""
        return max(self.epochs, math.ceil(self.min_steps / self.steps_per_epoch(n_rows)))

    def rate_at(self, step: int, n_rows: int) -> float:
        """Return the learning rate of a step, counted from 0, when training on so many rows."""
        per_epoch, epochs = self.steps_per_epoch(n_rows), self.epochs_for(n_rows)
        if self.schedule == "steps":
            # Milestones are shares of the recipe's own length where min_steps makes a run longer.
            epoch = step // per_epoch * self.epochs / epochs
            passed = sum(epoch >= milestone for milestone in self.milestones)
            return self.learning_rate / self.factor**passed
        total = per_epoch * epochs
        rising = max(1.0, self.warmup * total)
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        return self.learning_rate * max(0.0, (total - step) / max(1.0, total - rising))


PAPER_CIFAR = Recipe(
    "paper-cifar",
    epochs=200,
    batch_size=128,
    learning_rate=0.1,
    weight_decay=5e-4,
    milestones=(60, 120, 160),
    factor=5.0,
    crop_padding=4,
    flip=True,
)
"""The paper's recipe for CIFAR-10 and CIFAR-100."""

PAPER_TINY_IMAGENET = Recipe(
    "paper-tiny-imagenet",
    epochs=90,
    batch_size=256,
    learning_rate=0.1,
    weight_decay=1e-4,
    milestones=(30, 60),
    factor=10.0,
    flip=True,
)
"""The paper's recipe for Tiny-ImageNet."""

PAPER_IMAGENET = replace(PAPER_TINY_IMAGENET, name="paper-imagenet")
"""The paper's recipe for ImageNet-1k."""

FAST = Recipe(
    "fast",
    epochs=20,
    batch_size=256,
    learning_rate=0.2,
    weight_decay=5e-4,
    schedule="one-cycle",
    warmup=0.2,
    min_steps=2000,
    nesterov=True,
    label_smoothing=0.1,
    crop_padding=4,
    crop_fill="mirrored",
    flip=True,
    cutout=8,
)
"""About a tenth of the paper's epochs, with one rise and fall of the learning rate (Smith and Topin, 2019)."""

FAST_ADAMW = Recipe(
    "fast-adamw",
    epochs=30,
    batch_size=256,
    learning_rate=1e-3,
    weight_decay=0.05,
    schedule="one-cycle",
    warmup=0.2,
    min_steps=4000,
    optimizer="adamw",
    label_smoothing=0.1,
    crop_padding=4,
    flip=True,
)
"""The fast recipe for networks that SGD does not suit, such as ViT-S."""

_RECIPES = {
    recipe.name: recipe for recipe in (PAPER_CIFAR, PAPER_TINY_IMAGENET, PAPER_IMAGENET, FAST, FAST_ADAMW)
}


def recipes() -> tuple[str, ...]:
    """Return the names of all recipes.

    Examples
    --------
    >>> "fast" in recipes()
    True
    """
    return tuple(_RECIPES)


def find_recipe(recipe: str | Recipe) -> Recipe:
    """Return a recipe by its name; a recipe is returned as it is.

    ``NAME:STEPS`` is a one-cycle recipe in so many steps, rounded up to whole epochs.

    Examples
    --------
    >>> find_recipe("paper-cifar").milestones
    (60, 120, 160)
    >>> find_recipe("fast:1000").epochs_for(10_000)
    25
    """
    if isinstance(recipe, Recipe):
        return recipe
    name, _, steps = recipe.partition(":")
    if name not in _RECIPES:
        raise unknown_name("recipe", recipe, _RECIPES, "there is no such recipe; there are")
    found = _RECIPES[name]
    if not steps:
        return found
    if found.schedule != "one-cycle" or not steps.isdigit() or int(steps) < 1:
        raise InvalidInputError(f"recipe {recipe!r}: expected a number of steps, as in fast:1000.")
    return replace(found, name=recipe, epochs=1, min_steps=int(steps))
