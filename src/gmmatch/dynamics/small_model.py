"""A small classifier trained on the rows themselves: the default proxy of the methods that need a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from gmmatch.rows.parallel import map_in_order
from gmmatch.rows.rows import Rows
from gmmatch.scores.logits import errors
from gmmatch.scores.softmax_regression import Standardization
from gmmatch.types import Indices, Vector

LEARNING_RATE = 0.01
MOMENTUM = 0.9
WEIGHT_DECAY = 5e-4
LONGEST_STEP = 10.0
"""A gradient longer than this is cut to it: rows far out must not throw the model off."""

Result = TypeVar("Result")

# Rows are shuffled in runs of neighbours and then within a part of so many numbers: as good as a full
# shuffle, and rows on disk are read in long stretches.
_PART_ELEMENTS = 1 << 23
_BLOCK_ELEMENTS = 1 << 21
_RUN = 64
# Rows that are standardised in float64 at a time.
_AT_ONCE = 1024


class SmallClassifier(nn.Module):
    """Rows to logits through one hidden layer, or none: ``hidden=0`` is softmax regression.

    ``random`` draws the weights, uniformly within ±1/√inputs; torch's own generator is not touched.

    Examples
    --------
    >>> model = SmallClassifier(5, 3, 4, torch.Generator().manual_seed(0))
    >>> model(torch.zeros(2, 5)).shape, model.features(torch.zeros(2, 5)).shape
    (torch.Size([2, 3]), torch.Size([2, 4]))
    """

    def __init__(self, n_features: int, n_classes: int, hidden: int, random: torch.Generator) -> None:
        super().__init__()
        self.body: nn.Module = _linear(n_features, hidden, random) if hidden else nn.Identity()
        self.hidden = hidden
        self.head = _linear(hidden or n_features, n_classes, random)

    def features(self, x: Tensor) -> Tensor:
        """Return what goes into the last layer."""
        return self.body(x).relu() if self.hidden else x

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return self.head(self.features(x))

    def gradient_lengths(self, x: Tensor, codes: Tensor) -> Tensor:
        """Return GraNd by all parameters: the length of the gradient of each row's cross-entropy.

        What :func:`~gmmatch.dynamics.gradients.grand_scores` finds for any model, in closed form. A linear
        layer's gradient is the outer product of what comes back to it and of what went into it.
        """
        features = self.features(x)
        back = errors(self.head(features), codes)
        squares = back.square().sum(dim=1) * (features.square().sum(dim=1) + 1.0)
        if self.hidden:
            back = (back @ self.head.weight) * (features > 0.0)
            squares += back.square().sum(dim=1) * (x.square().sum(dim=1) + 1.0)
        return squares.sqrt()


def _linear(inputs: int, outputs: int, random: torch.Generator) -> nn.Linear:
    # The layer's own initialisation would draw from torch's global generator.
    layer = nn.utils.skip_init(nn.Linear, inputs, outputs)
    with torch.no_grad():
        layer.weight.uniform_(-(inputs**-0.5), inputs**-0.5, generator=random)
        layer.bias.zero_()
    return layer


@dataclass(frozen=True)
class SmallTask:
    """Rows with their class numbers and weights, ready to be trained on."""

    rows: Rows
    codes: Indices
    weights: Vector
    n_classes: int
    scale: Standardization

    @classmethod
    def of(cls, rows: Rows, codes: Indices, weights: Vector, n_classes: int, threads: int = 1) -> SmallTask:
        """Standardize the rows; weights have mean 1 from here on."""
        scale = Standardization.of(rows, weights, threads)
        return cls(rows, codes, weights / weights.mean(), n_classes, scale)

    @property
    def batch_size(self) -> int:
        """Few enough rows that a small set, too, is learned in a handful of epochs."""
        return int(np.clip(len(self.rows) // 32, 16, 128))

    def in_order(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all rows with their class numbers, in large batches."""
        n, widest = len(self.rows), max(self.rows.n_features, self.n_classes, 128)
        at_once = max(32, _BLOCK_ELEMENTS // widest)
        for start in range(0, n, at_once):
            part = np.arange(start, min(n, start + at_once))
            yield self._inputs(part), torch.from_numpy(self.codes[part])

    def shuffled(self, random: np.random.Generator) -> Iterator[tuple[Indices, Tensor, Tensor, Tensor]]:
        """Yield batches of an epoch: positions, rows, class numbers, weights."""
        n = len(self.rows)
        at_once = max(self.batch_size, _PART_ELEMENTS // self.rows.n_features)
        starts = random.permutation(np.arange(0, n, _RUN))
        order = (starts[:, None] + np.arange(_RUN)).ravel()
        order = order[order < n]
        for first in range(0, n, at_once):
            part = np.sort(order[first : first + at_once])  # as files like to be read
            shuffle = random.permutation(len(part))
            inputs, part = self._inputs(part)[torch.from_numpy(shuffle)], part[shuffle]
            codes, weights = torch.from_numpy(self.codes[part]), torch.from_numpy(self.weights[part]).float()
            for start in range(0, len(part), self.batch_size):
                some = slice(start, start + self.batch_size)
                yield part[some], inputs[some], codes[some], weights[some]

    def _inputs(self, positions: Indices) -> Tensor:
        inputs = torch.empty(len(positions), self.rows.n_features)
        for first in range(0, len(positions), _AT_ONCE):
            few = positions[first : first + _AT_ONCE]
            inputs[first : first + _AT_ONCE] = torch.from_numpy(self.scale.take(self.rows, few))
        return inputs


Observe = Callable[[Indices, Tensor, Tensor], Any]
"""Called with the positions, logits and class numbers of a batch, before the step that learns from it."""


def train_small_model(
    task: SmallTask,
    *,
    hidden: int,
    epochs: int,
    seed: int,
    observe: Observe | None = None,
) -> SmallClassifier:
    """Train a small classifier by stochastic gradient descent, on the CPU.

    ``seed`` is that of the weights and of the order of rows. ``observe`` is called at every step, as a recorder's
    ``update`` would be.

    Examples
    --------
    >>> rows = Rows(np.array([[0.0], [0.1], [1.0], [1.1]] * 20))
    >>> task = SmallTask.of(rows, np.array([0, 0, 1, 1] * 20), np.ones(80), 2)
    >>> model = train_small_model(task, hidden=8, epochs=5, seed=0)
    >>> [model(inputs).argmax(dim=1)[:4].tolist() for inputs, _ in task.in_order()]
    [[0, 0, 1, 1]]
    """
    random = np.random.default_rng(seed)
    weights = torch.Generator().manual_seed(int(random.integers(2**62)))
    model = SmallClassifier(task.rows.n_features, task.n_classes, hidden, weights)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
    )
    for _ in range(epochs):
        for positions, inputs, codes, importance in task.shuffled(random):
            logits = model(inputs)
            if observe is not None:
                observe(positions, logits, codes)
            losses = nn.functional.cross_entropy(logits, codes, reduction="none")
            optimizer.zero_grad()
            (losses * importance).mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), LONGEST_STEP)
            optimizer.step()
    return model


def side_by_side(work: Callable[[int], Result], count: int, threads: int) -> list[Result]:
    """Return ``[work(0), ..., work(count - 1)]``, each computed by torch on a single thread.

    So sums, and with them the picks, do not depend on how many threads there are.

    Examples
    --------
    >>> side_by_side(lambda number: torch.get_num_threads(), 2, threads=2)
    [1, 1]
    """
    before = torch.get_num_threads()

    def alone(number: int) -> Result:
        torch.set_num_threads(1)
        return work(number)

    try:
        return map_in_order(alone, count, threads)
    finally:
        torch.set_num_threads(before)
