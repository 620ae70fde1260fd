"""A small network on the features of a frozen encoder: a proxy, or what is trained on the picks, in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gmmatch_paper.arrays import Indices

if TYPE_CHECKING:
    from gmmatch_paper.baselines.small_model import SmallClassifier

HEAD = "head"
"""The 'network' of a small network on frozen features."""

UNITS = 128
"""Units of its hidden layer."""

# Features are first projected to so many columns at random, the same for every network: a step costs a fifth.
_COLUMNS = 256
_STEPS, _BATCH, _RATE, _DECAY = 300, 128, 3e-3, 1e-4


@dataclass(frozen=True, eq=False)
class Head:
    """One hidden layer and a softmax, on standardized features.

    Examples
    --------
    >>> X = np.repeat(np.eye(4, dtype=np.float32), 8, axis=0)
    >>> head = Head.fit(X, np.repeat(np.arange(4), 8), n_classes=4, seed=0)
    >>> head.accuracy(np.eye(4), np.arange(4)), head.features(np.eye(4)).shape
    (1.0, (4, 128))
    """

    model: SmallClassifier
    projection: NDArray[np.float32]
    mean: NDArray[np.float32]
    scale: NDArray[np.float32]

    @classmethod
    def fit(cls, rows: Any, labels: Indices, *, n_classes: int, seed: int) -> Head:
        """Train by AdamW with one fall of the learning rate."""
        import torch

        from gmmatch_paper.baselines.small_model import SmallClassifier

        columns = rows.shape[1]
        projection = np.random.default_rng(0).standard_normal((columns, _COLUMNS), dtype=np.float32)
        if columns <= _COLUMNS:
            projection = np.eye(columns, dtype=np.float32)
        X = np.asarray(rows, dtype=np.float32) @ projection
        mean, scale = X.mean(axis=0), X.std(axis=0) + np.float32(1e-6)
        x, y = torch.from_numpy((X - mean) / scale), torch.from_numpy(np.asarray(labels, dtype=np.int64))
        model = SmallClassifier(X.shape[1], n_classes, UNITS, torch.Generator().manual_seed(seed))
        optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE, weight_decay=_DECAY)
        random = np.random.default_rng(seed)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=_STEPS)
        order = np.empty(0, dtype=np.int64)
        for _ in range(_STEPS):
            while len(order) < _BATCH:
                order = np.concatenate([order, random.permutation(len(x))])
            batch, order = torch.from_numpy(order[:_BATCH]), order[_BATCH:]
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
            schedule.step()
        return cls(model, projection, mean, scale)

    def features(self, rows: Any) -> NDArray[np.float32]:
        """Return the outputs of the hidden layer."""
        return self._apply(self.model.features, rows)

    def accuracy(self, rows: Any, labels: Indices) -> float:
        """Return the share of rows whose label is predicted."""
        return float((self._apply(self.model, rows).argmax(axis=1) == labels).mean())

    def _apply(self, layer: Any, rows: Any) -> NDArray[np.float32]:
        import torch

        with torch.no_grad():
            x = np.asarray(rows, dtype=np.float32) @ self.projection
            return np.asarray(layer(torch.from_numpy((x - self.mean) / self.scale)).numpy())
