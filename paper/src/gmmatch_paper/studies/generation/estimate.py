"""How long a cell of the study is likely to take."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache

import numpy as np

from gmmatch_paper.studies.generation.recipes import generation_recipe
from gmmatch_paper.studies.image_cells.data import ImageData


@cache
def cell_seconds(recipe: str, data: ImageData, device: str) -> float:
    """Return about how long training and sampling take, from a few updates and a few samples."""
    from gmmatch_paper.training.diffusion import train_diffusion

    plan = generation_recipe(recipe)
    # A few images do on a CPU, whose time grows with their number; a GPU needs whole batches, and long
    # enough a run that its setting up does not count.
    batch, steps, count = (plan.training.batch_size, 200, 1250) if device.startswith("cuda") else (4, 4, 4)
    short = replace(plan.training, steps=steps, batch_size=batch)
    images = data.x_train[np.arange(batch) % len(data.x_train)]
    trained = train_diffusion(images, recipe=short, device=device)
    began = time.perf_counter()
    trained.sample(count, steps=2)
    sampling = (time.perf_counter() - began) / (2 * count)
    updating = trained.seconds / steps * plan.training.batch_size / batch
    return plan.training.steps * updating + plan.samples * plan.walk * sampling
