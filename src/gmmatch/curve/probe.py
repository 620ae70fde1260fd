"""The accuracy of a linear probe that is trained on the first picks, on rows that it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gmmatch.rows.rows import Rows
from gmmatch.scores.softmax_regression import SoftmaxRegression
from gmmatch.types import Indices, Mask, Vector

FOLDS = 10
"""A repeat judges one of so many parts of the rows."""

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


@dataclass(frozen=True, eq=False)
class _Probe:
    problem: SoftmaxRegression
    parameters: Any

    def right(self, rows: Rows, codes: Indices) -> int:
        """Return how many rows are classified right."""
        found = 0
        for first in range(0, len(rows), 4096):
            some = np.arange(first, min(first + 4096, len(rows)))
            logits = self.problem.scale.take(rows, some) @ self.parameters[:, :-1].T + self.parameters[:, -1]
            found += int((logits.argmax(axis=1) == codes[some]).sum())
        return found


class Probes:
    """Trains probes on the first picks.

    Parameters
    ----------
    rows, codes
        All rows, and the number of each one's class; -1 without a label.
    order
        The picks that have a label, in pick order.
    """

    def __init__(self, rows: Rows, codes: Indices, order: Indices, threads: int = 1) -> None:
        self.rows, self.codes, self.threads = rows, codes, threads
        self.order = order[codes[order] >= 0]
        self.inputs: Any = rows.subset(self.order)
        if hasattr(rows.source, "tensor"):
            from gmmatch.backends.cuda.blocks import TensorRows

            self.inputs = TensorRows(self.inputs).gather(slice(None))
        elif len(order) * rows.n_features <= _HELD_ELEMENTS:
            self.inputs = self.inputs.gather(np.arange(len(self.order)), np.float32)

    def trained(self, size: int, kept: Mask | None = None, start: Any = None) -> _Probe:
        """Return a probe of the first picks, or of those of them that are kept, fitted from ``start``."""
        places = np.arange(min(size, len(self.order)))
        places = places if kept is None else places[kept[: len(places)]]
        own = self.inputs.subset(places) if isinstance(self.inputs, Rows) else self.inputs[places]
        problem = SoftmaxRegression.of(
            own, self.codes[self.order[places]], n_classes=int(self.codes.max()) + 1, strength=_STRENGTH,
            threads=self.threads, hold=not isinstance(own, Rows),
        )  # fmt: skip
        return _Probe(problem, problem.fit(start, **_FIT))

    def judge(self, probe: _Probe, size: int, part: Indices) -> float:
        """Return the share of some rows that are classified right, by a probe that has not seen them.

        Rows that are no picks are judged by the probe of all picks, and picks by one of the picks that are not in
        this part: so the rows that are judged are a random sample of all, and hardly a pick is lost in training.
        """
        picked, held = np.zeros((2, len(self.codes)), dtype=np.bool_)
        picked[self.order[:size]], held[part] = True, True
        inside = picked[part]
        right = probe.right(self.rows.subset(part[~inside]), self.codes[part[~inside]])
        kept = ~held[self.order[:size]]
        if inside.any() and kept.any():
            other = self.trained(size, kept, probe.parameters)
            right += other.right(self.rows.subset(part[inside]), self.codes[part[inside]])
        return right / len(part)


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
    """Return the accuracy at each size in each repeat, shape (repeats, sizes); one line on a test set."""
    labeled = random.permutation(np.flatnonzero(codes >= 0))
    parts = [np.sort(part[:_JUDGED]) for part in np.array_split(labeled, FOLDS)[:repeats] if len(part)]
    probes, start, found = Probes(rows, codes, order[: int(sizes[-1])], threads), None, []
    for size in sizes.tolist():
        probe = probes.trained(size, start=start)
        start = probe.parameters  # the next size's optimum is not far
        if test is not None:
            found.append([probe.right(test.rows, test.codes) / len(test.codes)])
        else:
            found.append([probes.judge(probe, size, part) for part in parts])
    return np.array(found).T
