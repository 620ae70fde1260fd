"""One cell: corrupt, embed, pick, train a diffusion model on the picks, draw images, compare them with real ones."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch_paper.studies.classification.maps import packed
from gmmatch_paper.studies.generation.features import feature_space
from gmmatch_paper.studies.generation.recipes import generation_recipe
from gmmatch_paper.studies.image_cells.cell import Given, Places, limited_threads
from gmmatch_paper.studies.image_cells.downstream import device_name
from gmmatch_paper.studies.study import Measured

CODE = "generation-1"
"""Stands for how a cell is measured. A change that moves the numbers gets the next number."""

SHOWN = 10
"""Generated images that a cell keeps, of the first seed."""


@dataclass(frozen=True)
class MeasureGeneration:
    """What a worker calls for every cell of the study."""

    places: Places
    spaces: Mapping[str, str]

    def __call__(self, **cell: Any) -> Measured:
        """Measure a cell; its ``dataset``, ``data`` and ``encoder`` are names of what ``places`` locates."""
        with limited_threads(self.places.threads):
            return self._measure(cell)

    def _measure(self, cell: dict[str, Any]) -> Measured:
        from gmmatch_paper.training.diffusion import train_diffusion

        seed, plan = int(cell["seed"]), generation_recipe(cell["recipe"])
        given = Given.of(self.places, self.places.plan.proxy, cell["corruption"], "", seed)
        images, noisy, device = given.images, given.noisy, given.device
        picked = given.picked(cell, code=CODE)
        rows = picked["rows"]
        space = feature_space(self.spaces[cell["features"]], images, given.cache, device)
        trained = train_diffusion(noisy.images[rows], recipe=plan.training, seed=seed, device=device)
        began = time.perf_counter()
        drawn = trained.sample(plan.samples, steps=plan.walk, seed=seed)
        seconds = time.perf_counter() - began
        real = images.x_train[np.random.default_rng(seed).permutation(len(images.x_train))[: plan.samples]]
        found: Measured = {
            "frechet": space.distance(drawn),
            "frechet_real": space.distance(real),
            "features_fingerprint": space.fingerprint,
            "features_accuracy": space.accuracy,
            "contamination": float(noisy.corrupt[rows].mean()),
            "n_picked": len(rows),
            "first_loss": trained.losses[0],
            "last_loss": trained.losses[-1],
            "select_seconds": float(picked["seconds"]),
            "train_seconds": trained.seconds,
            "sample_seconds": seconds,
            "device": device_name(device),
        }
        if seed == 0:
            found |= {"shown": packed(shown(drawn)), "shown_shape": list(drawn[:SHOWN].shape)}
        return found


def shown(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the first images in 16 levels, which the eye cannot tell from 256 and which pack well."""
    return (np.round(images[:SHOWN] / 17.0) * 17.0).astype(np.uint8)
