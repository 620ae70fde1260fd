"""The accuracy of a linear probe that is trained on the first picks, on rows that it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gmmatch.rows.rows import Rows
from gmmatch.scores.softmax_regression import SoftmaxRegression
from gmmatch.types import Indices, Vector

FOLDS = 10
"""A repeat holds out one of so many parts of the rows."""

# The weight decay of the probe, and what it takes to stop: more changes no accuracy by a tenth of a point.
_STRENGTH = 0.01
_FIT: dict[str, Any] = {"max_iter": 100, "loss_tolerance": 1e-6, "gradient_tolerance": 1e-5}
# Rows that are judged, at most, in each repeat.
_JUDGED = 10_000
# Picks are held in memory up to so many numbers.
_HELD_ELEMENTS = 1 << 29


@dataclass(frozen=True, eq=False)
class TestSet:
    """Rows to judge by, and the number of each one's class; -1 for a class that the data does not have."""

    rows: Rows
    codes: Indices


def picks_needed(largest: int, n_rows: int) -> int:
    """Return how many picks leave ``largest`` of them when one part of the rows is held out.

    Examples
    --------
    >>> picks_needed(90, 1000), picks_needed(900, 901)
    (101, 901)
    """
    return min(n_rows, -(-largest * FOLDS // (FOLDS - 1)) + 1)


def accuracies(
    rows: Rows,
    codes: Indices,
    order: Indices,
    sizes: Indices,
    *,
    repeats: int,
    test: TestSet | None = None,
    random: np.random.Generator,
    threads: int = 1,
) -> Vector:
    """Return the accuracy at each size in each repeat, shape (repeats, sizes); one line on a test set.

    A repeat holds out a tenth of all rows, picked or not, and trains on the first picks among the others: as many as
    the size says, so that nothing is lost in training, and the rows to judge by are a random sample of all.
    """
    if test is not None:
        return np.array([_along(rows, codes, order, sizes, test.rows, test.codes, threads)])
    labeled = random.permutation(np.flatnonzero(codes >= 0))
    parts = np.array_split(labeled, FOLDS)[:repeats]
    found = []
    for part in parts:
        held = np.zeros(len(codes), dtype=np.bool_)
        held[part] = True
        judged = np.sort(part[:_JUDGED])
        kept = order[~held[order]]
        found.append(_along(rows, codes, kept, sizes, rows.subset(judged), codes[judged], threads))
    return np.array(found)


def _along(
    rows: Rows, codes: Indices, order: Indices, sizes: Indices, judged: Rows, truth: Indices, threads: int
) -> list[float]:
    order = order[: int(sizes[-1])]
    order = order[codes[order] >= 0]
    inputs: Any = rows.subset(order)
    if hasattr(rows.source, "tensor"):
        from gmmatch.backends.cuda.blocks import TensorRows

        inputs = TensorRows(inputs).gather(slice(None))
    elif len(order) * rows.n_features <= _HELD_ELEMENTS:
        inputs = inputs.gather(np.arange(len(order)), np.float32)
    n_classes, found, start = int(codes.max()) + 1, [], None
    for size in sizes.tolist():
        own = inputs.subset(np.arange(min(size, len(inputs)))) if isinstance(inputs, Rows) else inputs[:size]
        problem = SoftmaxRegression.of(
            own, codes[order[:size]], n_classes=n_classes, strength=_STRENGTH, threads=threads,
            hold=not isinstance(own, Rows),
        )  # fmt: skip
        start = problem.fit(start, **_FIT)  # from the optimum of the size before
        found.append(_accuracy(problem, start, judged, truth))
    return found


def _accuracy(problem: SoftmaxRegression, parameters: Any, judged: Rows, truth: Indices) -> float:
    right = 0
    for first in range(0, len(judged), 4096):
        some = np.arange(first, min(first + 4096, len(judged)))
        logits = problem.scale.take(judged, some) @ parameters[:, :-1].T + parameters[:, -1]
        right += int((logits.argmax(axis=1) == truth[some]).sum())
    return right / len(judged)
