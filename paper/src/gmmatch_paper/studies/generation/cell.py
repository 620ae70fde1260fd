"""One cell: corrupt, embed, pick, train a diffusion model on the picks, draw images, compare them with real ones."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch_paper.studies.classification.amounts import budget
from gmmatch_paper.studies.classification.cache import Arrays, Cache
from gmmatch_paper.studies.classification.cell import Places, limited_threads
from gmmatch_paper.studies.classification.corruptions import CorruptionSpec, NoisyImages, corrupt_data
from gmmatch_paper.studies.classification.data import ImageData
from gmmatch_paper.studies.classification.downstream import device_name, pick_device, require_torch
from gmmatch_paper.studies.classification.maps import packed
from gmmatch_paper.studies.classification.picks import pick
from gmmatch_paper.studies.classification.proxies import Embedded, ProxySpec, embed_data
from gmmatch_paper.studies.generation.features import feature_space
from gmmatch_paper.studies.generation.recipes import generation_recipe
from gmmatch_paper.studies.study import Measured

CODE = "generation-1"
"""Stands for how a cell is measured. A change that moves the numbers gets the next number."""

SHOWN = 10
"""Generated images that a cell keeps, of the first seed."""


@dataclass(frozen=True)
class MeasureGeneration:
    """What a worker calls for every cell of the study.

    Parameters
    ----------
    places
        Where data, encoder and cache are.
    spaces
        The feature spaces by name, as the user named them.
    """

    places: Places
    spaces: Mapping[str, str]

    def __call__(
        self,
        *,
        dataset: str,
        data: str,
        encoder: str,
        downstream: str,
        network: str,
        features: str,
        recipe: str,
        corruption: str,
        amount: str,
        method: str,
        seed: int,
    ) -> Measured:
        """Measure a cell; the first three are names of what ``places`` locates."""
        require_torch()
        key = {
            "code": CODE,
            "data": data,
            "encoder": encoder,
            "corruption": corruption,
            "amount": amount,
            "method": method,
            "seed": seed,
        }
        with limited_threads(self.places.threads):
            return self._measure(key, self.spaces[features], recipe)

    def _measure(self, key: dict[str, Any], features: str, recipe: str) -> Measured:
        from gmmatch_paper.training.diffusion import train_diffusion

        places, seed, plan = self.places, int(key["seed"]), generation_recipe(recipe)
        images, cache, device = places.load(), _cache(places.cache), pick_device(places.device)
        spec = CorruptionSpec.parse(key["corruption"])
        noisy = _corrupted(images, spec, seed)
        picked = cache.get(
            "selections", key, lambda: _picked(places, images, noisy, spec, key, cache, device)
        )
        rows = picked["rows"]
        space = feature_space(features, images, cache, device)
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
    """Return the first images in 16 levels, which the eye cannot tell from 256 and which pack well.

    Examples
    --------
    >>> shown(np.array([[[[7]]], [[[200]]]], dtype=np.uint8)).ravel()
    array([  0, 204], dtype=uint8)
    """
    return (np.round(images[:SHOWN] / 17.0) * 17.0).astype(np.uint8)


def _picked(
    places: Places,
    images: ImageData,
    noisy: NoisyImages,
    spec: CorruptionSpec,
    key: Mapping[str, Any],
    cache: Cache,
    device: str,
) -> Arrays:
    """Return what a method picks, class by class."""
    seed = int(key["seed"])
    if key["method"] == "random":  # looks at no features: it need not wait for them
        embedded = Embedded(np.zeros((len(noisy.labels), 1)), np.zeros((1, 1)))
    else:
        embedded = embed_data(
            images,
            noisy,
            spec,
            ProxySpec.parse(places.encoder),
            seed=seed,
            recipe="",
            cache=cache,
            device=device,
        )
    return pick(
        embedded,
        noisy.labels,
        budget(key["amount"], images.n_classes),
        key["method"],
        seed,
        places.threads,
    )


@lru_cache(maxsize=2)  # cells that follow each other differ in their seeds
def _corrupted(images: ImageData, spec: CorruptionSpec, seed: int) -> NoisyImages:
    return corrupt_data(images, spec, seed)


@lru_cache(maxsize=1)
def _cache(folder: str) -> Cache:
    return Cache(folder)
