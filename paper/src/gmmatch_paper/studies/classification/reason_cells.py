"""One cell of the study of reasons: pick in some space, in some way, and train something on the picks."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gmmatch.selection.budget import quotas
from gmmatch.types import Indices
from gmmatch_paper.studies.classification.amounts import budget
from gmmatch_paper.studies.classification.cache import Cache
from gmmatch_paper.studies.classification.cell import limited_threads
from gmmatch_paper.studies.classification.corruptions import CorruptionSpec, NoisyImages, corrupt_data
from gmmatch_paper.studies.classification.data import ImageData, load_images
from gmmatch_paper.studies.classification.downstream import probe_accuracy
from gmmatch_paper.studies.classification.picks import pick
from gmmatch_paper.studies.classification.proxies import Embedded, ProxySpec, embed_data
from gmmatch_paper.studies.study import Measured

CODE = "reasons-1"
"""Stands for how a cell is measured. A change that moves the numbers gets the next number."""

CONTROL = "random-wrong-"
"""A random draw of which a given percentage has a wrong label: ``random-wrong-10``."""

FEW_PER_CLASS = 500
"""How many rows a class of CIFAR-100 has."""

UNITS, EPOCHS = 256, {"trained": 3, "memorised": 30, "true": 10}
"""Units of the layers that stand for an in-domain encoder, and how long each is trained."""

NETWORK_EPOCHS = 40

Space: TypeAlias = Literal["frozen", "other", "trained", "memorised", "true"]
Downstream: TypeAlias = Literal["probe", "probe-other", "network"]


@dataclass(frozen=True)
class Setting:
    """How it is picked and what is trained; as in the study of label noise unless a value says otherwise.

    Attributes
    ----------
    name, label, words
        What results call it, what a list calls it, and what is other than in the first setting.
    space
        Where it is picked: in the features of the one frozen encoder or of the ``other``, or in a layer on the
        first one's features that was trained on the labels as they are, shortly (``trained``) or until it
        repeats them (``memorised``), or on the ``true`` ones.
    unit
        Whether all methods see rows of unit length.
    together
        Whether it is picked from all rows at once, whatever their label.
    few
        Whether there are only :data:`FEW_PER_CLASS` rows for each class.
    amount
        How much is kept.
    downstream
        What is trained: a linear probe on the first encoder's features or on those of the other, or a network
        on the first one's that fits its picks wholly.
    """

    name: str
    label: str
    words: str
    space: Space = "frozen"
    unit: bool = False
    together: bool = False
    few: bool = False
    amount: str = "20%"
    downstream: Downstream = "probe"


@dataclass(frozen=True)
class ReasonPlaces:
    """Where the data are on this machine; see :func:`~gmmatch_paper.studies.classification.data.load_images`."""

    dataset: str
    encoder: str
    other: str
    cache: str
    limit: int | None = None
    test_limit: int | None = None

    def load(self) -> ImageData:
        """Return the images."""
        return load_images(self.dataset, limit=self.limit, test_limit=self.test_limit)


@dataclass(frozen=True)
class MeasureReason:
    """What the runner calls for every cell."""

    places: ReasonPlaces
    settings: tuple[Setting, ...]

    def __call__(self, *, setting: str, corruption: str, method: str, seed: int, **_facts: Any) -> Measured:
        """Measure a cell; the other arguments are names of what ``places`` locates."""
        [chosen] = [each for each in self.settings if each.name == setting]
        with limited_threads(1):
            return _bench(self.places).measure(chosen, CorruptionSpec.parse(corruption), method, seed)


@dataclass(frozen=True, eq=False)
class Layer:
    """Rows as a trained layer sees them, and how many of its labels the network above it repeats."""

    rows: NDArray[np.float32]
    repeats: float


@dataclass(eq=False)
class Bench:
    """The data, and what cells share."""

    images: ImageData
    frozen: Embedded
    other: Embedded
    _accuracies: dict[str, float] = field(default_factory=dict)
    _layers: dict[tuple[str, str, int], Layer] = field(default_factory=dict)

    def measure(self, setting: Setting, corruption: CorruptionSpec, method: str, seed: int) -> Measured:
        """Return what a method picks in a setting, and how that trains."""
        images = _first_rows(self.images, FEW_PER_CLASS) if setting.few else self.images
        noisy = corrupt_data(images, corruption, seed)
        space, repeats = self._space(setting.space, corruption, noisy.labels, seed)
        amount = budget(setting.amount, images.n_classes)
        if method.startswith(CONTROL):
            share = float(method.removeprefix(CONTROL)) / 100.0
            rows = draw_with_wrong(noisy, amount["k"], share, seed)
        else:
            if setting.together:
                amount["per_class"] = None
            if setting.unit:
                amount["preprocess"] = "unit"
            shown = Embedded(space[: len(noisy.labels)], self.frozen.test)
            rows = pick(shown, noisy.labels, amount, method, seed, threads=1)["rows"]
        return {
            "accuracy": self._accuracy(setting.downstream, rows, noisy.labels[rows], seed),
            "contamination": float(noisy.corrupt[rows].mean()),
            "n_picked": len(rows),
            "repeats": repeats,
            "device": "cpu",
        }

    def _space(
        self, name: Space, corruption: CorruptionSpec, labels: Indices, seed: int
    ) -> tuple[NDArray[Any], float | None]:
        if name in ("frozen", "other"):
            return (self.frozen if name == "frozen" else self.other).train, None
        given, text = (self.images.y_train, "none") if name == "true" else (labels, corruption.text)
        key = (name, text, seed)
        if key not in self._layers:
            if len(self._layers) > 8:  # the cells of a corruption follow each other
                self._layers.clear()
            self._layers[key] = train_layer(self.frozen.train, given, EPOCHS[name], seed)
        return self._layers[key].rows, self._layers[key].repeats

    def _accuracy(self, downstream: Downstream, rows: Indices, labels: Indices, seed: int) -> float:
        # The same picks come up again: random ones in every space, deterministic ones with every seed.
        seed = seed if downstream == "network" else 0
        digest = hashlib.sha256(np.ascontiguousarray(rows).data)
        digest.update(np.ascontiguousarray(labels).data)
        key = f"{downstream} {seed} {digest.hexdigest()}"
        if key not in self._accuracies:
            train = network_accuracy if downstream == "network" else _probe
            seen = self.other if downstream == "probe-other" else self.frozen
            self._accuracies[key] = train(seen.train[rows], labels, seen.test, self.images.y_test, seed)
        return self._accuracies[key]


@lru_cache(maxsize=1)
def _bench(places: ReasonPlaces) -> Bench:
    images, cache = places.load(), Cache(places.cache)
    none = CorruptionSpec.parse("none")
    clean = corrupt_data(images, none, 0)
    frozen, other = (
        embed_data(
            images, clean, none, ProxySpec.parse(spec), seed=0, recipe="", cache=cache, device="cpu"
        )
        for spec in (places.encoder, places.other)
    )  # fmt: skip
    return Bench(images, frozen, other)


def _first_rows(images: ImageData, per_class: int) -> ImageData:
    """Return the first rows of the data, so many for each class but at most half of them."""
    count = min(per_class * images.n_classes, len(images.y_train) // 2)
    human = {name: labels[:count] for name, labels in images.human.items()}
    return replace(images, x_train=images.x_train[:count], y_train=images.y_train[:count], human=human)


def draw_with_wrong(noisy: NoisyImages, k: Any, share: float, seed: int) -> Indices:
    """Return a random draw of every class of which a share has a wrong label, or all wrong ones if they are fewer.

    Examples
    --------
    >>> wrong = np.arange(40) % 2 == 0
    >>> noisy = NoisyImages(np.zeros((40, 1, 1, 1), np.uint8), np.repeat([0, 1], 20), wrong)
    >>> rows = draw_with_wrong(noisy, "50%", 0.2, seed=0)
    >>> len(rows), float(wrong[rows].mean())
    (20, 0.2)
    """
    random = np.random.default_rng(seed)
    classes, sizes = np.unique(noisy.labels, return_counts=True)
    found = []
    for label, quota in zip(
        classes, quotas(k, classes.tolist(), sizes, "proportional").tolist(), strict=True
    ):
        wrong, right = (
            random.permutation(np.flatnonzero((noisy.labels == label) & mask))
            for mask in (noisy.corrupt, ~noisy.corrupt)
        )
        bad = min(round(share * quota), len(wrong))
        found += [wrong[:bad], right[: quota - bad]]
    return np.sort(np.concatenate(found))


def train_layer(rows: NDArray[Any], labels: Indices, epochs: int, seed: int) -> Layer:
    """Train a network with one hidden layer on standardised rows, and return what that layer makes of them.

    Examples
    --------
    >>> rows = np.repeat(np.eye(2, dtype=np.float32), 20, axis=0)
    >>> layer = train_layer(rows, np.repeat([0, 1], 20), epochs=50, seed=0)
    >>> layer.rows.shape, layer.repeats
    ((40, 256), 1.0)
    """
    scaled, _ = _standardised(rows, rows[:1])
    network = _fitted(scaled, labels, epochs, seed)
    hidden = np.maximum(scaled @ network.coefs_[0] + network.intercepts_[0], 0.0).astype(np.float32)
    return Layer(hidden, float(network.score(scaled, labels)))


def network_accuracy(
    train: NDArray[Any], labels: Indices, test: NDArray[Any], test_labels: Indices, seed: int
) -> float:
    """Return the test accuracy of a network that is trained until it fits its rows, wrong labels and all.

    Examples
    --------
    >>> rows = np.repeat(np.eye(2), 20, axis=0)
    >>> network_accuracy(rows, np.repeat([0, 1], 20), np.eye(2), np.array([0, 1]), seed=0)
    1.0
    """
    scaled, scaled_test = _standardised(train, test)
    return float(_fitted(scaled, labels, NETWORK_EPOCHS, seed).score(scaled_test, test_labels))


def _probe(
    train: NDArray[Any], labels: Indices, test: NDArray[Any], test_labels: Indices, seed: int
) -> float:
    return probe_accuracy(train, labels, test, test_labels, seed=seed, device="cpu")


def _standardised(train: NDArray[Any], test: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(train.astype(np.float32))
    return scaler.transform(train.astype(np.float32)), scaler.transform(test.astype(np.float32))


def _fitted(rows: NDArray[np.float32], labels: Indices, epochs: int, seed: int) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    network = MLPClassifier(
        (UNITS,),
        batch_size=min(128, len(rows)),
        max_iter=epochs,
        alpha=1e-5,
        tol=0.0,
        n_iter_no_change=epochs,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of epochs is what is set
        return network.fit(rows, labels)


__all__ = [
    "CODE",
    "CONTROL",
    "Bench",
    "Layer",
    "MeasureReason",
    "ReasonPlaces",
    "Setting",
    "draw_with_wrong",
    "network_accuracy",
    "train_layer",
]
