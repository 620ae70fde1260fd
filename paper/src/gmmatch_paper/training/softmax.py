"""Regularised softmax regression: its loss and gradient on NumPy arrays or torch tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.rows.checks import check_rows
from gmmatch.types import Mask, Vector


@dataclass(frozen=True)
class SoftmaxLoss:
    """Mean cross-entropy of a linear classifier on standardised columns, plus λ/2 · ‖W‖².

    ``rows`` holds the standardised rows as float32, a NumPy array or a torch tensor; a parameter vector
    is the s × c weights, row by row, followed by the c intercepts, which are not regularised.
    """

    rows: Any
    codes: NDArray[np.intp]
    classes: NDArray[Any]
    center: Vector
    scale: Vector

    @property
    def shape(self) -> tuple[int, int]:
        """Columns and classes."""
        return self.rows.shape[1], len(self.classes)

    def subset(self, mask: Mask) -> SoftmaxLoss:
        """Return the loss over some of the rows, with the same classes and the same standardisation."""
        return SoftmaxLoss(
            self.rows[_mask_like(mask, self.rows)], self.codes[mask], self.classes, self.center, self.scale
        )

    def minimize(self, strength: float, start: Vector | None, max_iter: int) -> Vector:
        """Return the parameters that L-BFGS finds, from zero or from ``start``."""
        from scipy.optimize import minimize

        features, classes = self.shape
        if start is None:
            start = np.zeros((features + 1) * classes)
        function = self._in_torch if _is_tensor(self.rows) else self._in_numpy
        found = minimize(
            function(strength),
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_iter, "maxcor": 10, "ftol": 1e-7, "gtol": 1e-5},
        )
        return np.asarray(found.x, dtype=np.float64)

    def correct(self, parameters: Vector, mask: Mask) -> int:
        """Count the rows of ``mask`` that are predicted right."""
        features, classes = self.shape
        weights = parameters[: features * classes].reshape(features, classes).astype(np.float32)
        rows = self.rows[_mask_like(mask, self.rows)]
        if _is_tensor(rows):
            rows = rows.cpu().numpy()
        scores = rows @ weights + parameters[features * classes :].astype(np.float32)
        return int(np.sum(scores.argmax(axis=1) == self.codes[mask]))

    def unstandardized(self, parameters: Vector) -> tuple[NDArray[np.float64], Vector]:
        """Return weights and intercepts for rows as they came."""
        features, classes = self.shape
        weights = parameters[: features * classes].reshape(features, classes) / self.scale[:, None]
        return weights, parameters[features * classes :] - self.center @ weights

    def _in_numpy(self, strength: float) -> Any:
        features, classes = self.shape
        rows, count, numbers = self.rows, len(self.codes), np.arange(len(self.codes))

        def loss_and_gradient(parameters: Vector) -> tuple[float, Vector]:
            weights = parameters[: features * classes].reshape(features, classes)
            scores = rows @ weights.astype(np.float32) + parameters[features * classes :].astype(np.float32)
            scores -= scores.max(axis=1, keepdims=True)
            own = scores[numbers, self.codes]
            np.exp(scores, out=scores)
            total = scores.sum(axis=1)
            loss = float(np.mean(np.log(total, dtype=np.float64) - own))
            scores /= total[:, None]
            scores[numbers, self.codes] -= 1.0
            slope = (rows.T @ scores).astype(np.float64) / count + strength * weights
            intercepts = scores.sum(axis=0, dtype=np.float64) / count
            gradient = np.concatenate([slope.ravel(), intercepts])
            return loss + strength / 2 * float(np.sum(weights**2)), gradient

        return loss_and_gradient

    def _in_torch(self, strength: float) -> Any:
        import torch

        features, classes = self.shape
        rows = self.rows
        codes = torch.as_tensor(self.codes, device=rows.device)

        def loss_and_gradient(parameters: Vector) -> tuple[float, Vector]:
            flat = torch.as_tensor(parameters, dtype=torch.float32, device=rows.device)
            weights = flat[: features * classes].reshape(features, classes)
            scores = torch.addmm(flat[features * classes :], rows, weights)
            loss = torch.nn.functional.cross_entropy(scores.double(), codes)
            slack = torch.softmax(scores, dim=1)
            slack[torch.arange(len(codes), device=rows.device), codes] -= 1.0
            slope = rows.T @ slack / len(codes) + strength * weights
            gradient = torch.cat([slope.ravel(), slack.mean(dim=0), loss.float()[None]])
            found = gradient.double().cpu().numpy()
            squares = float(np.sum(parameters[: features * classes] ** 2))
            return float(found[-1]) + strength / 2 * squares, found[:-1]

        return loss_and_gradient


def softmax_loss(X: Any, labels: NDArray[Any]) -> SoftmaxLoss:
    """Standardise the rows and return the loss of a linear classifier on them.

    A column that does not vary is left at zero.

    Examples
    --------
    >>> loss = softmax_loss([[0.0], [2.0]], np.array(["a", "b"]))
    >>> loss.rows.ravel().tolist(), loss.codes.tolist()
    ([-1.0, 1.0], [0, 1])
    """
    if labels.ndim != 1:
        raise InvalidInputError(f"y has {labels.ndim} dimensions: expected one label per row.")
    classes, codes = np.unique(labels, return_inverse=True)
    if _is_tensor(X) and X.is_cuda:
        _check_lengths(len(X), labels)
        rows = X.float()
        center, scale = rows.mean(dim=0), rows.std(dim=0, correction=0)
        scale = scale.where(scale > 0, 1.0)
        standard = (rows - center) / scale
        return SoftmaxLoss(
            standard, codes, classes, center.double().cpu().numpy(), scale.double().cpu().numpy()
        )
    checked = check_rows(X)
    _check_lengths(len(checked), labels)
    whole = np.empty((len(checked), checked.n_features), dtype=np.float32)
    for number in range(checked.n_chunks):
        first, last = checked.bounds(number)
        whole[first:last] = checked.block(number, np.float32)
    middle = whole.mean(axis=0, dtype=np.float64)
    spread = whole.std(axis=0, dtype=np.float64)
    spread[spread == 0] = 1.0
    whole -= middle.astype(np.float32)
    whole /= spread.astype(np.float32)
    return SoftmaxLoss(whole, codes, classes, middle, spread)


def _check_lengths(n: int, labels: NDArray[Any]) -> None:
    if len(labels) != n:
        raise InvalidInputError(f"y has {len(labels)} labels for {n} rows: expected one for each.")


def _is_tensor(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch"


def _mask_like(mask: Mask, rows: Any) -> Any:
    if not _is_tensor(rows):
        return mask
    import torch

    return torch.as_tensor(mask, device=rows.device)
