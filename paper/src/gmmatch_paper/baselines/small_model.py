"""A small classifier that is trained on the rows themselves, for baselines without a network of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gmmatch.problem import Problem
from gmmatch.rows import Rows
from gmmatch_paper.arrays import Indices, Vector
from gmmatch_paper.baselines.learned import LabeledRows
from gmmatch_paper.baselines.softmax_regression import Standardize

LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 0.01, 0.9, 5e-4
# Longer gradients are cut to this, so that distant outliers cannot throw the model off.
MAX_GRADIENT = 10.0

# Rows are shuffled in runs of neighbors, and then within a chunk of so many numbers: nearly as good as a full
# shuffle, and rows in files are read in long runs.
_CHUNK_ELEMENTS = 1 << 23
_BLOCK_ELEMENTS = 1 << 21
_RUN = 64


class SmallClassifier(nn.Module):
    """Rows to logits through one hidden layer, or none: ``hidden=0`` is softmax regression.

    ``random`` draws the weights, uniformly within ±1/√inputs; torch's own generator is not used.
    """

    def __init__(self, n_features: int, n_classes: int, hidden: int, random: torch.Generator) -> None:
        super().__init__()
        self.body: nn.Module = _linear(n_features, hidden, random) if hidden else nn.Identity()
        self.hidden = hidden
        self.head = _linear(hidden or n_features, n_classes, random)

    def features(self, x: Tensor) -> Tensor:
        """Return the input of the last layer."""
        return self.body(x).relu() if self.hidden else x

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return self.head(self.features(x))

    def el2n(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Vector:
        """Return EL2N of every row: ‖p − y‖, from 0 to √2."""
        return self._each(batches, lambda x, codes: softmax_errors(self(x), codes).square().sum(dim=1).sqrt())

    def gradient_lengths(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Vector:
        """Return GraNd of every row: the length of its gradient by all parameters, in closed form."""
        return self._each(batches, self._gradient_lengths)

    def _each(self, batches: Iterable[tuple[Tensor, Tensor]], score: Callable[..., Tensor]) -> Vector:
        with torch.no_grad():
            scores: Vector = torch.cat([score(*batch).double() for batch in batches]).numpy()
        return scores

    def _gradient_lengths(self, x: Tensor, codes: Tensor) -> Tensor:
        # The gradient by a linear layer is the outer product of the gradient by its output and of its input.
        features = self.features(x)
        slope = softmax_errors(self.head(features), codes)
        squares = slope.square().sum(dim=1) * (features.square().sum(dim=1) + 1.0)
        if self.hidden:
            slope = (slope @ self.head.weight) * (features > 0.0)
            squares += slope.square().sum(dim=1) * (x.square().sum(dim=1) + 1.0)
        return squares.sqrt()


def softmax_errors(logits: Tensor, labels: Tensor) -> Tensor:
    """Return softmax(logits) minus the one-hot labels: the gradient of the cross-entropy by the logits."""
    weights = torch.exp(logits - logits.amax(dim=1, keepdim=True))
    shares = weights / weights.sum(dim=1, keepdim=True)
    own = labels[:, None] == torch.arange(logits.shape[1], device=logits.device)
    return torch.where(own, shares - 1.0, shares)


def _linear(inputs: int, outputs: int, random: torch.Generator) -> nn.Linear:
    # The layer's own initialization would draw from torch's global generator.
    layer = nn.utils.skip_init(nn.Linear, inputs, outputs)
    with torch.no_grad():
        layer.weight.uniform_(-(inputs**-0.5), inputs**-0.5, generator=random)
        layer.bias.zero_()
    return layer


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Standardized rows with their classes and weights.

    Attributes
    ----------
    rows : Rows
        All rows, standardized.
    numbers : int64 array of shape (m,)
        Which of them to train on.
    codes, weights : arrays of shape (m,)
        Their classes, and their weights with a mean of 1.
    n_classes : int
    """

    rows: Rows
    numbers: Indices
    codes: Indices
    weights: Vector
    n_classes: int

    @classmethod
    def of(cls, problem: Problem, labeled: LabeledRows) -> TrainingSet:
        """Standardize the rows of a problem, in float32."""
        scale = Standardize.fit(problem.rows, labeled.weights, dtype="float32")
        weights = labeled.weights[labeled.numbers]
        return cls(
            problem.rows.map(scale), labeled.numbers, labeled.codes[labeled.numbers], weights / weights.mean(),
            labeled.n_classes,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def batch_size(self) -> int:
        """Few enough rows that a small dataset, too, is learned in a handful of epochs."""
        return int(np.clip(len(self) // 32, 16, 128))

    def in_order(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all rows with their classes, in large batches."""
        at_once = max(32, _BLOCK_ELEMENTS // max(self.rows.n_features, self.n_classes, 128))
        for start in range(0, len(self), at_once):
            positions = np.arange(start, min(len(self), start + at_once))
            yield self._inputs(positions), torch.from_numpy(self.codes[positions])

    def shuffled(self, random: np.random.Generator) -> Iterator[tuple[Indices, Tensor, Tensor, Tensor]]:
        """Yield the batches of an epoch: positions, rows, classes and weights."""
        at_once = max(self.batch_size, _CHUNK_ELEMENTS // self.rows.n_features)
        starts = random.permutation(np.arange(0, len(self), _RUN))
        order = (starts[:, None] + np.arange(_RUN)).ravel()
        order = order[order < len(self)]
        for first in range(0, len(self), at_once):
            chunk = np.sort(order[first : first + at_once])  # files are read fastest in order
            shuffle = random.permutation(len(chunk))
            inputs, chunk = self._inputs(chunk)[torch.from_numpy(shuffle)], chunk[shuffle]
            codes, weights = (
                torch.from_numpy(self.codes[chunk]),
                torch.from_numpy(self.weights[chunk]).float(),
            )
            for start in range(0, len(chunk), self.batch_size):
                batch = slice(start, start + self.batch_size)
                yield chunk[batch], inputs[batch], codes[batch], weights[batch]

    def _inputs(self, positions: Indices) -> Tensor:
        return torch.from_numpy(self.rows.take(self.numbers[positions])).float()


Observe = Callable[[Indices, Tensor, Tensor], Any]
"""Called with the positions, logits and classes of a batch, before the step that learns from it."""


def train_small_model(
    data: TrainingSet, *, hidden: int, epochs: int, seed: int, observe: Observe | None = None
) -> SmallClassifier:
    """Train a small classifier by stochastic gradient descent, on the CPU.

    Parameters
    ----------
    data : TrainingSet
    hidden : int
        Hidden units; 0 for softmax regression.
    epochs : int
    seed : int
        Of the weights and of the order of the rows.
    observe : callable, optional
        Called with every batch, such as :meth:`gmmatch.Dynamics.update`.
    """
    random = np.random.default_rng(seed)
    weights = torch.Generator().manual_seed(int(random.integers(2**62)))
    model = SmallClassifier(data.rows.n_features, data.n_classes, hidden, weights)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
    )
    for _ in range(epochs):
        for positions, inputs, codes, importance in data.shuffled(random):
            logits = model(inputs)
            if observe is not None:
                observe(positions, logits, codes)
            losses = nn.functional.cross_entropy(logits, codes, reduction="none")
            optimizer.zero_grad()
            (losses * importance).mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT)
            optimizer.step()
    return model


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch use one thread, so that sums, and with them the picks, do not depend on the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
