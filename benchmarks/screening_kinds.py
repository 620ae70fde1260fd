"""``python -m benchmarks.screening_kinds``: other kinds of wrong labels and corrupt embeddings.

None of this was looked at while ``robust`` was made, but for the rows of noise and the halved ones, which it missed
at first. Embeddings of images and their labels are changed, and the share of bad rows among a fiftieth and a fifth of
them is counted for several methods.
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

import gmmatch as gm
from benchmarks import machine

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "robust": ("robust", {}), "easy": ("easy", {}), "moderate": ("moderate", {}),
    "gm-matching": ("gm-matching", {}),
    "gm-matching, authors'": ("gm-matching", {"normalize": True, "unit_target": True}),
}  # fmt: skip
SHARES = (0.02, 0.2)
Case = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
Rng = np.random.Generator


def _relabelled(change: Callable[[NDArray[Any], Rng], NDArray[Any]]) -> Callable[..., Case]:
    def make(rows: NDArray[Any], labels: NDArray[Any], random: Rng) -> Case:
        given = change(labels, random)
        return rows, given, given != labels

    return make


def _spoilt(change: Callable[[NDArray[Any], NDArray[Any], Rng], NDArray[Any]]) -> Callable[..., Case]:
    """A fifth of the rows, as ``change`` makes them of these rows and all."""

    def make(rows: NDArray[Any], labels: NDArray[Any], random: Rng) -> Case:
        bad = random.random(len(rows)) < 0.2
        changed = rows.copy()
        changed[bad] = change(rows[bad], rows, random)
        return changed, labels, bad

    return make


def _next(rate: float) -> Callable[..., Case]:
    return _relabelled(lambda y, random: np.where(random.random(len(y)) < rate, (y + 1) % 10, y))


def _any_other(rate: float) -> Callable[..., Case]:
    return _relabelled(
        lambda y, random: np.where(random.random(len(y)) < rate, (y + random.integers(1, 10, len(y))) % 10, y)
    )


def _noise(mine: NDArray[Any], rows: NDArray[Any], random: Rng) -> NDArray[Any]:
    return np.asarray(rows.mean(axis=0) + rows.std(axis=0) * random.standard_normal(mine.shape))


def _shuffled(mine: NDArray[Any], rows: NDArray[Any], random: Rng) -> NDArray[Any]:
    return np.stack([random.choice(column, len(mine)) for column in rows.T], axis=1)


def _long_tail(rows: NDArray[Any], labels: NDArray[Any], random: Rng) -> Case:
    kept = random.random(len(labels)) < 0.65**labels
    rows, labels = rows[kept], labels[kept]
    given = np.where(random.random(len(labels)) < 0.3, random.integers(0, 10, len(labels)), labels)
    return rows, given, given != labels


def _two_classes(rows: NDArray[Any], labels: NDArray[Any], random: Rng) -> Case:
    kept = (labels == 3) | (labels == 5)
    rows, dog = rows[kept], (labels[kept] == 5).astype(np.int64)
    wrong = random.random(len(dog)) < 0.3
    return rows, np.where(wrong, 1 - dog, dog), wrong


CASES: dict[str, Callable[..., Case]] = {
    "labels: the next class, 20%": _next(0.2),
    "labels: the next class, 40%": _next(0.4),
    "labels: any other class, 50%": _any_other(0.5),
    "labels: any other class, 60%": _any_other(0.6),
    "labels: 45% of one class called another": _relabelled(
        lambda y, random: np.where((y == 3) & (random.random(len(y)) < 0.45), 5, y)
    ),
    "labels: 30% drawn, in three classes only": _relabelled(
        lambda y, random: np.where((y < 3) & (random.random(len(y)) < 0.3), random.integers(0, 10, len(y)), y)
    ),
    "labels: 30% drawn, classes of very different size": _long_tail,
    "labels: 30% of two like classes": _two_classes,
    "rows: noise of every column's mean and deviation": _spoilt(_noise),
    "rows: every column from another row": _spoilt(_shuffled),
    "rows: half of the columns zero": _spoilt(
        lambda mine, rows, random: mine * (random.random(mine.shape) < 0.5)
    ),
    "rows: halved": _spoilt(lambda mine, rows, random: 0.5 * mine),
    "rows: times 1.5": _spoilt(lambda mine, rows, random: 1.5 * mine),
    "rows: averaged with another row": _spoilt(
        lambda mine, rows, random: 0.5 * (mine + rows[random.permutation(len(rows))[: len(mine)]])
    ),
}


def measure(name: str, rows: NDArray[Any], labels: NDArray[Any]) -> dict[str, Any]:
    """Return the share of bad rows in the data and among the picks of every method."""
    changed, given, bad = CASES[name](rows, labels, np.random.default_rng(0))
    picked = {
        shown: [
            float(
                bad[gm.select(changed, y=given, k=k, method=method, random_state=0, **options).indices].mean()
            )
            for k in SHARES
        ]
        for shown, (method, options) in METHODS.items()
    }
    kept = gm.screen(changed, given).kept
    return {
        "name": name, "rows": len(changed), "bad": float(bad.mean()), "picked": picked,
        "good_dropped": float(1.0 - kept[~bad].mean()),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write the JSON file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.screening_kinds", description=__doc__)
    parser.add_argument("--train", type=Path, required=True, help=".npy file of embeddings, ten classes")
    parser.add_argument("--labels", type=Path, required=True, help=".npz file with labels, train")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--json", type=Path, help="file to write")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", gm.errors.GMMatchWarning)
    surroundings = machine.describe()
    rows = np.load(options.train)[: options.rows].astype(np.float32)
    labels = np.load(options.labels)["train"].astype(np.int64)[: options.rows]
    cases = []
    for name in CASES:
        cases.append(measure(name, rows, labels))
        print(json.dumps(cases[-1]), flush=True)
    if options.json is not None:
        content = {
            "command": "python -m benchmarks.screening_kinds --train TRAIN.npy --labels LABELS.npz "
            f"--json {options.json.as_posix()}",
            "settings": {
                "rows": options.rows, "shares": list(SHARES),
                "embeddings": "ResNet-50 (ImageNet), the mean of its third stage, CIFAR-10 at 96 pixels",
            },
            "cases": cases, "machine": surroundings,
        }  # fmt: skip
        options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
