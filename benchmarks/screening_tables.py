"""``python -m benchmarks.screening_tables``: label noise in tables and made-up classes, beside two classifiers.

Peers drop the rows whose label a classifier, fitted to the other rows, does not predict. Labels are made wrong with
several random seeds.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_circles,
    make_classification,
    make_moons,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gmmatch as gm

Rows, Labels, Wrong = NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]

PEERS = {
    "regression": lambda: LogisticRegression(max_iter=300, C=0.1),
    "neighbors": lambda: KNeighborsClassifier(15),
}
SEEDS = 5
NOISES = (("none", 0.0), ("symmetric", 0.2), ("symmetric", 0.4), ("next class", 0.3), ("nearest class", 0.2))


def data_sets() -> Iterator[tuple[str, Rows, Labels]]:
    """Return rows and true classes, each column in its own unit."""
    for load in (load_iris, load_wine, load_breast_cancer, load_digits):
        yield (load.__name__.removeprefix("load_"), *load(return_X_y=True))
    yield ("moons", *make_moons(2000, noise=0.15, random_state=0))
    yield ("circles", *make_circles(2000, noise=0.08, factor=0.5, random_state=0))
    yield (
        "one class of ten",
        *make_classification(
            3000, 20, n_informative=8, weights=[0.9, 0.1], class_sep=1.5, flip_y=0, random_state=0
        ),
    )
    random = np.random.default_rng(3)
    mode = random.integers(15, size=3000)
    yield (
        "three kinds a class",
        2.5 * random.standard_normal((15, 16))[mode] + random.standard_normal((3000, 16)),
        mode % 5,
    )
    classes, centers = random.integers(4, size=2000), random.standard_normal((4, 10))
    yield "overlapping", centers[classes] + random.standard_normal((2000, 10)), classes
    yield "heavy tails", 3.0 * centers[classes] + random.standard_t(2, (2000, 10)), classes
    widths = np.array([0.5, 1.0, 2.0, 3.0])[classes]
    yield (
        "unequal widths",
        2.0 * centers[classes] + widths[:, None] * random.standard_normal((2000, 10)),
        classes,
    )
    chances = random.uniform(0.05, 0.5, (6, 60))
    classes = random.integers(6, size=2400)
    yield "yes or no", (random.random((2400, 60)) < chances[classes]).astype(float), classes


def given_labels(X: Rows, true: Labels, noise: str, rate: float, seed: int) -> Labels:
    """Return noisy labels; "nearest class" confuses rows with the class that they are nearest to, near ones more."""
    random, n_classes = np.random.default_rng(7 + seed), int(true.max()) + 1
    moved = random.random(len(true)) < rate
    if noise == "nearest class":
        Z = StandardScaler().fit_transform(X)
        centers = np.stack([Z[true == label].mean(axis=0) for label in range(n_classes)])
        apart = ((Z[:, None] - centers) ** 2).sum(axis=2)
        apart[np.arange(len(true)), true] = np.inf
        share = np.argsort(np.argsort(apart.min(axis=1))) / len(true)
        moved = random.random(len(true)) < 2.0 * rate * (1.0 - share)
        return np.where(moved, apart.argmin(axis=1), true)
    steps = random.integers(1, n_classes, len(true)) if noise == "symmetric" else 1
    return np.where(moved, (true + steps) % n_classes, true)


def dropped_by(name: str, X: Rows, given: Labels) -> tuple[Wrong, bool]:
    """Return which rows a method drops, and whether it warns that wrong labels cannot be told."""
    if name == "robust":
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            screening = gm.screen(X, given)
        return ~screening.kept, any("hardly" in str(one.message) for one in told)
    model = make_pipeline(StandardScaler(), PEERS[name]())
    return np.asarray(cross_val_predict(model, X, given, cv=5) != given), False


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print each case, and write the JSON file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.screening_tables", description=__doc__)
    parser.add_argument("--json", type=Path, help="file to write")
    options = parser.parse_args(arguments)
    runs: list[dict[str, Any]] = []
    for data, X, true in data_sets():
        for (noise, rate), seed in product(NOISES, range(SEEDS)):
            if (noise == "next class" and true.max() == 1) or (noise == "none" and seed):
                continue
            given = given_labels(np.asarray(X, dtype=float), true, noise, rate, seed)
            wrong = given != true
            case = {"data": data, "rows": len(X), "noise": noise, "rate": rate, "seed": seed}
            for method in ("robust", *PEERS):
                dropped, warned = dropped_by(method, np.asarray(X, dtype=float), given)
                both = 2.0 * np.sum(dropped & wrong) / max(np.sum(dropped) + np.sum(wrong), 1)
                runs.append({
                    **case,
                    "wrong": round(float(wrong.mean()), 4),
                    "method": method,
                    "f1": round(float(both), 4),
                    "clean_dropped": round(float(dropped[~wrong].mean()), 4),
                    "wrong_kept": round(float(wrong[~dropped].mean()), 4),
                    "warned": warned,
                })  # fmt: skip
                print(json.dumps(runs[-1]), flush=True)
    if options.json is not None:
        command = "python -m benchmarks.screening_tables --json benchmarks/results/screening-tables.json"
        lines = ",\n".join(f"  {json.dumps(run)}" for run in runs)
        content = f'{{\n "command": {json.dumps(command)},\n "runs": [\n{lines}\n ]\n}}\n'
        options.json.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
