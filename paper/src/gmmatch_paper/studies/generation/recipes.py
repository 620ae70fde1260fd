"""How long a cell of the study trains, and how many images it draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from gmmatch_paper.training.diffusion import DiffusionRecipe

NAMES = ("fast", "paper", "quick")


@dataclass(frozen=True)
class GenerationRecipe:
    """The training of a diffusion model; how many images are drawn to judge it by, and in how many steps of DDIM."""

    training: DiffusionRecipe
    samples: int
    walk: int

    @property
    def words(self) -> str:
        """The recipe for people."""
        plan = self.training
        falling = " falling to 0" if plan.schedule == "one-cycle" else ""
        return (
            f"{plan.steps:,} updates of AdamW on batches of {plan.batch_size}, learning rate "
            f"{plan.learning_rate:g}{falling}; {self.samples:,} images by DDIM in {self.walk} steps"
        )


def generation_recipe(text: str) -> GenerationRecipe:
    """Return a recipe by its name: fast, paper or quick, and perhaps another number of updates."""
    from gmmatch_paper.training.diffusion import FAST, PAPER, DiffusionRecipe

    name, _, steps = text.partition(":")
    # For trying the study on tiny images; its distances mean nothing.
    quick = DiffusionRecipe("quick", 60, batch_size=16, learning_rate=2e-3, width=8, levels=2, average=0.9)
    known = {
        "fast": GenerationRecipe(FAST, samples=5_000, walk=50),
        "paper": GenerationRecipe(PAPER, samples=10_000, walk=100),
        "quick": GenerationRecipe(quick, samples=60, walk=5),
    }
    if name not in known or (":" in text and not (steps.isdecimal() and int(steps) > 0)):
        raise InvalidInputError(
            f"--recipe {text}: expected {', '.join(NAMES)}, or one of them with a number of updates, such as "
            "fast:5000."
        )
    found = known[name]
    if not steps:
        return found
    return replace(found, training=replace(found.training, name=text, steps=int(steps)))
