"""One cell: corrupt, embed, pick, train on the picks, test."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.studies.classification.amounts import budget
from gmmatch.studies.classification.cache import Arrays, Cache
from gmmatch.studies.classification.corruptions import ATTACKS, CorruptionSpec, NoisyImages, corrupt_data
from gmmatch.studies.classification.data import ImageData, load_images
from gmmatch.studies.classification.downstream import (
    LINEAR,
    device_name,
    pick_device,
    probe_accuracy,
    train_network,
)
from gmmatch.studies.classification.proxies import Embedded, ProxySpec, attacked_images, embed_data
from gmmatch.studies.study import Measured

CODE = "cells-1"
"""Stands for how a cell is measured. A change that moves the numbers gets the next number."""

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "gm-matching-unit": ("gm-matching", {"normalize": True}),
    "gm-matching-authors": ("gm-matching", {"normalize": True, "unit_target": True}),
    "herding-unit": ("herding", {"normalize": True}),
}
"""Names for methods with settings: unit-length rows, and what the authors' own code does."""

# The paper's γ of its image experiments.
_MEDIAN_FRACTION = 0.5


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
        picked = cache.get(
            "selections",
            key,
            lambda: pick(embedded(), noisy, amount, method, seed, images.n_classes, self.places.threads),
        )
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


def pick(
    embedded: Embedded, noisy: NoisyImages, amount: str, method: str, seed: int, n_classes: int, threads: int
) -> Arrays:
    """Return the rows that a method picks and the seconds it took, as the cache keeps them.

    Examples
    --------
    >>> rows = Embedded(np.array([[0.0], [1.0], [1.2], [3.0]]), np.zeros((1, 1)))
    >>> noisy = NoisyImages(np.zeros((4, 1, 1, 1), np.uint8), np.zeros(4, int), np.zeros(4, bool))
    >>> pick(rows, noisy, "50%", "easy", 0, 1, 1)["rows"]
    array([1, 2])
    """
    from gmmatch.selectors.registry import method_class, select

    name, options = VARIANTS.get(method, (method, {}))
    known = {field.name for field in fields(method_class(name))}
    settings = {**options, **budget(amount, n_classes)}
    if name == "gm-matching":
        settings["median_fraction"] = _MEDIAN_FRACTION
    if "dynamics" in known and embedded.dynamics is not None and name != "grand":
        # What the in-domain network itself went through, rather than a small model on its features.
        settings["dynamics"] = str(embedded.dynamics)
    began = time.perf_counter()
    found = select(embedded.train, y=noisy.labels, method=name, random_state=seed, n_jobs=threads, **settings)
    return {"rows": found.indices, "seconds": np.array(time.perf_counter() - began)}


def study_methods(names: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return methods that can be compared: those named, or all of the registry that need no further choice.

    Examples
    --------
    >>> "gm-matching" in study_methods(), "moment-matching" in study_methods()
    (True, False)
    """
    from gmmatch.selectors.registry import method_class, methods

    if not names:
        # The general engine is no method of its own, and kernel herding is herding in another kernel.
        return tuple(name for name in methods() if name not in ("moment-matching", "kernel-herding"))
    for name in names:
        if name not in VARIANTS:
            method_class(name)
    return tuple(dict.fromkeys(names))


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


__all__ = [
    "CODE",
    "LINEAR",
    "VARIANTS",
    "MeasureCell",
    "Places",
    "check_downstream",
    "limited_threads",
    "pick",
    "study_methods",
]
