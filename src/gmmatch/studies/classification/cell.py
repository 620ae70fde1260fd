"""One cell: corrupt, embed, pick, train on the picks, test."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from gmmatch.errors import InvalidInputError
from gmmatch.studies.classification.amounts import budget
from gmmatch.studies.classification.cache import Arrays, Cache
from gmmatch.studies.classification.corruptions import ATTACKS, CorruptionSpec, NoisyImages, corrupt_data
from gmmatch.studies.classification.data import ImageData, load_images
from gmmatch.studies.classification.downstream import (
    device_name,
    pick_device,
    probe_accuracy,
    train_network,
)
from gmmatch.studies.classification.picks import cut_ranking, learns_scores, pick, rank_all
from gmmatch.studies.classification.proxies import Embedded, ProxySpec, attacked_images, embed_data
from gmmatch.studies.study import Measured

CODE = "cells-1"
"""Stands for how a cell is measured. A change that moves the numbers gets the next number."""


@dataclass(frozen=True)
class Places:
    """Where things are on this machine; no result depends on it.

    Attributes
    ----------
    dataset, encoder
        As the user named them.
    cache
        Folder for what cells share.
    device
        ``"auto"``, ``"cpu"`` or ``"cuda"``.
    image_size, limit, test_limit
        See :func:`~gmmatch.studies.classification.data.load_images`.
    proxy_network
        The network of an in-domain proxy if the encoder names none, and the one that attacks are made on.
    threads
        For the selection.
    """

    dataset: str
    encoder: str
    cache: str
    device: str = "auto"
    image_size: int | None = None
    limit: int | None = None
    test_limit: int | None = None
    proxy_network: str = "resnet18"
    threads: int = 1

    def load(self) -> ImageData:
        """Return the images."""
        return load_images(
            self.dataset, image_size=self.image_size, limit=self.limit, test_limit=self.test_limit
        )


@dataclass(frozen=True)
class MeasureCell:
    """What a worker calls for every cell of a study."""

    places: Places

    def __call__(
        self,
        *,
        dataset: str,
        data: str,
        encoder: str,
        downstream: str,
        network: str,
        recipe: str,
        corruption: str,
        amount: str,
        method: str,
        seed: int,
    ) -> Measured:
        """Measure a cell; ``dataset``, ``data`` and ``encoder`` are names of what ``places`` locates."""
        with limited_threads(self.places.threads):
            return self._measure(data, encoder, downstream, network, recipe, corruption, amount, method, seed)

    def _measure(
        self,
        data: str,
        encoder: str,
        downstream: str,
        network: str,
        recipe: str,
        corruption: str,
        amount: str,
        method: str,
        seed: int,
    ) -> Measured:
        images = self.places.load()
        device, cache = pick_device(self.places.device), _cache(self.places.cache)
        spec = CorruptionSpec.parse(corruption)
        proxy = ProxySpec.parse(self.places.encoder, self.places.proxy_network)
        noisy = self._noisy(images, spec, recipe, seed, cache, device)

        def embedded() -> Embedded:
            return embed_data(
                images, noisy, spec, proxy, seed=seed, recipe=recipe, cache=cache, device=device
            )

        key = {
            "code": CODE,
            "data": data,
            "encoder": encoder,
            "recipe": recipe if proxy.kind == "in-domain" or spec.kind in ATTACKS else "",
            "corruption": corruption,
            "amount": amount,
            "method": method,
            "seed": seed,
        }
        threads = self.places.threads

        def ranked() -> Arrays:
            # Rankings that a model was trained for serve every amount.
            shared = {**key, "amount": "all"}
            return cache.get(
                "rankings", shared, lambda: rank_all(embedded(), noisy.labels, method, seed, threads)
            )

        def picked_rows() -> Arrays:
            if learns_scores(method):
                return cut_ranking(ranked(), budget(amount, images.n_classes))
            return pick(embedded(), noisy.labels, budget(amount, images.n_classes), method, seed, threads)

        picked = cache.get("selections", key, picked_rows)
        rows = picked["rows"]
        began = time.perf_counter()
        more: Measured = {}
        if downstream == "probe":
            found = embedded()
            accuracy = probe_accuracy(
                found.train[rows], noisy.labels[rows], found.test, images.y_test, seed=seed, device=device
            )
        else:
            trained = train_network(
                network,
                noisy.images[rows],
                noisy.labels[rows],
                n_classes=images.n_classes,
                recipe=recipe,
                seed=seed,
                device=device,
                test=(images.x_test, images.y_test),
            )
            accuracy = trained.accuracy
            more = {f"top_{top}": value for top, value in trained.accuracies.items() if top > 1}
        return {
            "accuracy": accuracy,
            **more,
            "contamination": float(noisy.corrupt[rows].mean()),
            "n_picked": len(rows),
            "select_seconds": float(picked["seconds"]),
            "train_seconds": time.perf_counter() - began,
            "device": device_name(device),
        }

    def _noisy(
        self, images: ImageData, spec: CorruptionSpec, recipe: str, seed: int, cache: Cache, device: str
    ) -> NoisyImages:
        attacked = None
        if spec.kind in ATTACKS:
            attacked = attacked_images(
                images,
                spec,
                network=self.places.proxy_network,
                recipe=recipe,
                seed=seed,
                cache=cache,
                device=device,
            )
        return corrupt_data(images, spec, seed, attacked)


@lru_cache(maxsize=1)
def _cache(folder: str) -> Cache:
    return Cache(folder)


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """Keep matrix products and torch to so many threads: other cells run beside this one."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    try:
        import torch
    except ImportError:
        with threadpool_limits(threads):
            yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)


def check_downstream(name: str) -> str:
    """Return the name of a downstream task, if there is such a one."""
    if name not in ("probe", "scratch"):
        raise InvalidInputError(f"--downstream {name}: expected probe or scratch.")
    return name
