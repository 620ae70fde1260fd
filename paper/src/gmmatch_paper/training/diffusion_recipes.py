"""How a diffusion model is trained, as data: the paper's settings and fast ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from gmmatch.errors import InvalidInputError
from gmmatch_paper.checks import check_whole_number
from gmmatch_paper.training.diffusion_schedule import NoiseSchedule
from gmmatch_paper.training.recipes import Recipe


@dataclass(frozen=True)
class DiffusionRecipe:
    """Everything that decides the training of a diffusion model beside the images and the seed.

    Attributes
    ----------
    name
        What the recipe is called.
    steps
        Updates, the same number for any number of images.
    batch_size, learning_rate, weight_decay
        Of AdamW; every batch is drawn from all images.
    schedule
        ``"constant"``, or ``"one-cycle"``: the learning rate rises over the first twentieth and then falls
        to zero in a straight line.
    average
        The images are drawn from a running mean of the weights that keeps this share at every update (less
        at the beginning).
    width, levels, blocks
        Of the :class:`~gmmatch_paper.training.networks.unet.UNet`.
    noise
        The diffusion.
    """

    name: str
    steps: int
    batch_size: int = 128
    learning_rate: float = 1e-4
    weight_decay: float = 0.01
    schedule: Literal["constant", "one-cycle"] = "constant"
    average: float = 0.999
    width: int = 32
    levels: int = 3
    blocks: int = 1
    noise: NoiseSchedule = field(default_factory=NoiseSchedule)

    def __post_init__(self) -> None:
        check_whole_number(self.steps, "steps")
        check_whole_number(self.batch_size, "batch_size")
        if self.schedule not in ("constant", "one-cycle"):
            raise InvalidInputError(f'schedule={self.schedule!r}: expected "constant" or "one-cycle".')
        if not 0.0 <= self.average < 1.0:
            raise InvalidInputError(f"average={self.average!r}: expected a number of at least 0 and below 1.")

    @cached_property
    def updates(self) -> Recipe:
        """The updates alone, as the optimizer and the step take them."""
        return Recipe(
            self.name,
            epochs=1,
            min_steps=self.steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            optimizer="adamw",
            schedule="one-cycle" if self.schedule == "one-cycle" else "steps",
            warmup=0.05,
        )

    def rate_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        # A batch is all rows that this recipe knows of, so that an epoch is one step.
        return self.updates.rate_at(step, self.batch_size)


PAPER = DiffusionRecipe("paper", steps=47_000)
"""The paper's settings. It does not say how long it trains; this is 100 times as many images as MNIST has."""

FAST = DiffusionRecipe("fast", steps=3_000, learning_rate=1e-3, schedule="one-cycle", average=0.995)
"""A sixteenth of the updates, with a higher learning rate that falls to zero."""
