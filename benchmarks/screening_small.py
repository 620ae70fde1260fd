"""``python -m benchmarks.screening_small``: wrong labels in small data sets of many shapes, beside cleanlab.

What share of the kept labels is wrong, and what share of the right ones is dropped. The data are those that
scikit-learn brings along, and made ones: tight, overlapping, in pieces, bent, wider than long, unrelated to labels.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

import gmmatch as gm
from benchmarks import machine
from benchmarks.screening_labels import cleanlab_keeps

Data = tuple[NDArray[Any], NDArray[np.int64]]
NOISES = ("none", "even 3%", "even 10%", "even 20%", "even 40%", "next class 20%", "first class 30%")


def _clusters(n: int, width: int, n_classes: int, pieces: int, apart: float) -> Data:
    random = np.random.default_rng(0)
    centers = random.normal(size=(n_classes, pieces, width)) * apart / np.sqrt(2.0 * width)
    labels = np.arange(n) % n_classes
    return random.normal(size=(n, width)) + centers[labels, random.integers(0, pieces, n)], labels


def _two_tight() -> Data:
    rows = np.random.default_rng(0).normal(size=(300, 4))
    rows[:150] += 16.0
    return rows, np.repeat([0, 1], 150)


def _corners() -> Data:
    random = np.random.default_rng(0)
    corners = random.integers(0, 2, (1200, 2))
    return random.normal(size=(1200, 2)) + 8.0 * corners, corners.sum(axis=1) % 2


def _unrelated() -> Data:
    return np.random.default_rng(0).normal(size=(1000, 10)), np.arange(1000) % 4


DATA: dict[str, Callable[[], Data]] = {
    "digits": lambda: datasets.load_digits(return_X_y=True),
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "breast cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "two tight clusters": _two_tight,
    "five classes that overlap": lambda: _clusters(1500, 8, 5, 1, 3.0),
    "a hundred classes of 30 rows": lambda: _clusters(3000, 32, 100, 1, 6.5),
    "three clusters each": lambda: _clusters(3000, 16, 4, 3, 7.0),
    "opposite corners": _corners,
    "moons": lambda: datasets.make_moons(1000, noise=0.15, random_state=0),
    "circles": lambda: datasets.make_circles(1000, noise=0.08, factor=0.5, random_state=0),
    "300 rows of 2,000 columns": lambda: _clusters(300, 2000, 3, 1, 15.0),
    "rows that tell nothing": _unrelated,
}


def noisy(labels: NDArray[np.int64], noise: str) -> NDArray[np.int64]:
    """Return the labels with mistakes of the kind and at the rate that the words say."""
    if noise == "none":
        return labels
    kind, _, rate = noise.rpartition(" ")
    random, count = np.random.default_rng(1), int(labels.max()) + 1
    candidates = np.flatnonzero(labels == 0) if kind == "first class" else np.arange(len(labels))
    wrong = random.permutation(candidates)[: round(float(rate.rstrip("%")) / 100.0 * len(candidates))]
    steps = random.integers(1, count, len(wrong)) if kind == "even" else 1
    found = labels.copy()
    found[wrong] = (labels[wrong] + steps) % count
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.screening_small", description=__doc__)
    parser.add_argument("--json", type=Path, help="file to write")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    surroundings = machine.describe()
    cases: list[dict[str, Any]] = []
    for name, make in DATA.items():
        rows, labels = make()
        for noise in NOISES:
            given = noisy(labels, noise)
            wrong = given != labels
            case: dict[str, Any] = {"data": name, "noise": noise, "wrong": float(wrong.mean())}
            for method in ("screen", "cleanlab"):
                kept = gm.screen(rows, given).kept if method == "screen" else cleanlab_keeps(rows, given, 0)
                case[method] = {
                    "wrong_kept": float(wrong[kept].mean()), "right_dropped": float((~kept[~wrong]).mean()),
                }  # fmt: skip
            cases.append(case)
            print(json.dumps(case), flush=True)
    if options.json is not None:
        command = "python -m benchmarks.screening_small --json benchmarks/results/screening-small.json"
        content = {"command": command, "cases": cases, "machine": surroundings}
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
