"""One cell: corrupt, embed, pick, train on the picks, test."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from gmmatch_paper.arrays import Indices
from gmmatch_paper.studies.image_cells.amounts import budget
from gmmatch_paper.studies.image_cells.attacks import attacked_images
from gmmatch_paper.studies.image_cells.cache import Arrays, Cache
from gmmatch_paper.studies.image_cells.corruptions import (
    ATTACKS,
    CorruptionSpec,
    NoisyImages,
    corrupt_data,
)
from gmmatch_paper.studies.image_cells.data import ImageData
from gmmatch_paper.studies.image_cells.downstream import (
    WITHOUT_IMAGES,
    device_name,
    pick_device,
    probe_accuracy,
    train_network,
)
from gmmatch_paper.studies.image_cells.heads import Head
from gmmatch_paper.studies.image_cells.picks import cut_ranking, learns_scores, pick, rank_all
from gmmatch_paper.studies.image_cells.plan import Plan
from gmmatch_paper.studies.image_cells.proxies import IN_DOMAIN, Embedded, ProxySpec, embed_data
from gmmatch_paper.studies.records import source_commit
from gmmatch_paper.studies.study import Measured

CODE = "cells-1"
"""Stands for how a cell is measured. A change that moves the numbers gets the next number."""


@dataclass(frozen=True)
class Places:
    """What cells are made from, and where things are on this machine; no result depends on the latter.

    ``cache`` is a folder for what cells share, ``threads`` are those of a selection.
    """

    plan: Plan
    cache: str = ""
    device: str = "auto"
    threads: int = 1


@dataclass(frozen=True)
class MeasureCell:
    """What a worker calls for every cell of a study."""

    places: Places

    def __call__(self, **cell: Any) -> Measured:
        """Measure a cell; its ``dataset``, ``data`` and ``encoder`` are names of what ``places`` locates."""
        with limited_threads(self.places.threads):
            proxy = self.places.plan.proxy
            if proxy.kind == IN_DOMAIN:
                proxy = ProxySpec.parse(cell["encoder"])  # which may name a recipe of its own
            given = Given.of(self.places, proxy, cell["corruption"], cell["recipe"], cell["seed"])
            trains = proxy.kind == IN_DOMAIN or given.spec.kind in ATTACKS
            picked = given.picked(cell, code=CODE, recipe=given.proxy_recipe if trains else "")
            rows = picked["rows"]
            began = time.perf_counter()
            if cell["downstream"] in WITHOUT_IMAGES:
                accuracies = given.test_features(cell["downstream"], rows)
            else:
                accuracies = given.train(cell["network"], rows)
            return {
                **accuracies,
                "contamination": float(given.noisy.corrupt[rows].mean()),
                "n_picked": len(rows),
                "select_seconds": float(picked["seconds"]),
                "train_seconds": time.perf_counter() - began,
                "device": device_name(given.device),
                "commit": source_commit(),
            }


@dataclass(frozen=True, eq=False)
class Given:
    """The data of a cell as its methods and its training see them."""

    places: Places
    proxy: ProxySpec
    spec: CorruptionSpec
    recipe: str
    seed: int
    images: ImageData
    noisy: NoisyImages
    cache: Cache
    device: str

    @classmethod
    def of(cls, places: Places, proxy: ProxySpec, corruption: str, recipe: str, seed: int) -> Given:
        """Load the images and corrupt them."""
        images, cache, device = places.plan.load(), _cache(places.cache), pick_device(places.device)
        spec, attacked = CorruptionSpec.parse(corruption), None
        if spec.kind in ATTACKS:
            attacked = attacked_images(
                images,
                spec,
                network=places.plan.attacked,
                recipe=proxy.recipe or recipe,
                seed=seed,
                cache=cache,
                device=device,
            )
        noisy = corrupt_data(images, spec, seed, attacked)
        return cls(places, proxy, spec, recipe, seed, images, noisy, cache, device)

    @property
    def proxy_recipe(self) -> str:
        """How the proxy and what is attacked are trained: as the downstream network unless the proxy names it."""
        return self.proxy.recipe or self.recipe

    def embedded(self) -> Embedded:
        """Return the images as vectors."""
        return embed_data(self)

    def picked(self, cell: Mapping[str, Any], **more: str) -> Arrays:
        """Return the picks of a cell, made only if the cache does not have them; ``more`` tells them from others."""
        names = ("data", "encoder", "corruption", "amount", "method", "seed")
        key = {**more, **{name: cell[name] for name in names}}
        method, amount = key["method"], budget(key["amount"], self.images.n_classes)
        labels, threads = self.noisy.labels, self.places.threads

        def ranked() -> Arrays:
            return rank_all(self.embedded(), labels, method, self.seed, threads)

        def make() -> Arrays:
            if learns_scores(method):
                # What a model was trained for serves every amount.
                return cut_ranking(self.cache.get("rankings", {**key, "amount": "all"}, ranked), amount)
            if method == "random":  # looks at no features: it need not wait for them
                nothing = np.zeros((len(labels), 1))
                return pick(Embedded(nothing, nothing), labels, amount, method, self.seed, threads)
            return pick(self.embedded().on(self.device), labels, amount, method, self.seed, threads)

        return self.cache.get("selections", key, make)

    def frozen(self) -> Given:
        """The same with the encoder under a hidden layer as the proxy."""
        return replace(self, proxy=self.proxy.frozen)

    def test_features(self, downstream: str, rows: Indices) -> Measured:
        """Return the accuracy of a linear probe or of a small network on the features of the picks."""
        features, labels = self.frozen().embedded(), self.noisy.labels[rows]
        train, test, truth = features.train[rows], features.test, self.images.y_test
        if downstream == "head":
            head = Head.fit(train, labels, n_classes=self.images.n_classes, seed=self.seed)
            return {"accuracy": head.accuracy(test, truth)}
        return {"accuracy": probe_accuracy(train, labels, test, truth, seed=self.seed, device=self.device)}

    def train(self, network: str, rows: Indices) -> Measured:
        """Return the accuracies of a network that is trained on the picks from scratch."""
        trained = train_network(
            network,
            self.noisy.images[rows],
            self.noisy.labels[rows],
            n_classes=self.images.n_classes,
            recipe=self.recipe,
            seed=self.seed,
            device=self.device,
            test=(self.images.x_test, self.images.y_test),
            test_epochs=self.places.plan.best_epoch,
        )
        best = {} if trained.best is None else {"best_accuracy": trained.best}
        others = {f"top_{top}": value for top, value in trained.accuracies.items() if top > 1}
        return {"accuracy": trained.accuracy, **best, **others}


@lru_cache(maxsize=1)
def _cache(folder: str) -> Cache:
    return Cache(folder)


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """Keep matrix products and torch to so many threads: other cells run beside this one."""
    import torch
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)
