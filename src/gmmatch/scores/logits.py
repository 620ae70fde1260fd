"""What a batch of logits says about its rows, on NumPy arrays or on torch tensors where they lie.

NumPy and torch agree on the names of the few functions needed here, so each formula stands here once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.types import is_tensor, namespace


def as_logits(logits: Any, labels: Any) -> tuple[Any, Any]:
    """Return logits (m, classes) in at least float32 and labels (m,) beside them, both without a gradient.

    Class numbers are checked where that is free: not on a GPU, which would have to stop for it.
    """
    if is_tensor(logits):
        import torch

        values = logits.detach()
        values = values if values.dtype in (torch.float32, torch.float64) else values.float()
        classes = torch.as_tensor(labels).detach().to(values.device)
        on_host, whole = (
            values.device.type == "cpu",
            not (classes.is_floating_point() or classes.is_complex()),
        )
    else:
        values = np.asarray(logits, dtype=np.float64)
        classes = np.asarray(labels.detach().cpu() if is_tensor(labels) else labels)
        on_host, whole = True, classes.dtype.kind in "iu"
    if values.ndim != 2 or not values.shape[1]:
        raise InvalidInputError(f"logits has shape {tuple(values.shape)}: expected (rows, classes).")
    if tuple(classes.shape) != (len(values),) or not whole:
        raise InvalidInputError(
            f"labels has shape {tuple(classes.shape)} and type {classes.dtype}: expected {len(values)} class "
            "numbers, one for each row of logits."
        )
    if on_host and len(classes) and not 0 <= int(classes.min()) <= int(classes.max()) < values.shape[1]:
        raise InvalidInputError(
            f"labels runs from {int(classes.min())} to {int(classes.max())}: expected class numbers from 0 to "
            f"{values.shape[1] - 1}, for {values.shape[1]} columns of logits."
        )
    return values, classes


def own_class(logits: Any, labels: Any) -> Any:
    """Return a mask (m, classes) that is true at each row's own class."""
    if is_tensor(logits):
        import torch

        return labels[:, None] == torch.arange(logits.shape[1], device=logits.device)
    return labels[:, None] == np.arange(logits.shape[1])


def errors(logits: Any, labels: Any) -> Any:
    """Return softmax(logits) minus the one-hot labels: the gradient of the cross-entropy by the logits.

    Examples
    --------
    >>> errors(np.array([[0.0, 0.0]]), np.array([1]))
    array([[ 0.5, -0.5]])
    """
    xp = namespace(logits)
    weights = xp.exp(logits - xp.amax(logits, axis=1, keepdims=True))
    shares = weights / xp.sum(weights, axis=1, keepdims=True)
    return xp.where(own_class(logits, labels), shares - 1.0, shares)


def margins(logits: Any, labels: Any) -> Any:
    """Return the logit of each row's own class minus the largest of the others.

    Examples
    --------
    >>> margins(np.array([[3.0, 1.0, 2.5]]), np.array([0]))
    array([0.5])
    """
    xp = namespace(logits)
    own = own_class(logits, labels)
    if logits.shape[1] == 1:
        return xp.zeros_like(logits[:, 0])
    own_logits = xp.sum(xp.where(own, logits, 0.0), axis=1)
    return own_logits - xp.amax(xp.where(own, -np.inf, logits), axis=1)


def is_right(logits: Any, labels: Any) -> Any:
    """Whether the largest logit is that of the row's own class."""
    return namespace(logits).argmax(logits, axis=1) == labels


def lengths(values: Any) -> Any:
    """Return the Euclidean length of each row."""
    xp = namespace(values)
    return xp.sqrt(xp.sum(values * values, axis=1))


def el2n(logits: Any, labels: Any) -> Any:
    """Return ‖softmax(logits) − one-hot label‖ for each row: from 0 (sure and right) to √2 (sure and wrong).

    Paul et al., 2021. Arrays give arrays, tensors give tensors on their device.

    Examples
    --------
    >>> el2n(np.array([[0.0, 0.0], [0.0, 50.0]]), np.array([0, 1])).round(3)
    array([0.707, 0.   ])
    """
    return lengths(errors(*as_logits(logits, labels)))


def last_layer_grand(logits: Any, labels: Any, features: Any, *, bias: bool = True) -> Any:
    """Return the length of the gradient of each row's cross-entropy by the last layer's parameters.

    For logits = W h + b the gradient by W is (p − y) hᵀ and the one by b is p − y, so its length is
    ‖p − y‖ · ‖(h, 1)‖: EL2N times the length of the features h, of shape (m, s).

    Examples
    --------
    >>> last_layer_grand(np.array([[0.0, 0.0]]), np.array([0]), np.array([[1.0, 1.0, 1.0]])).round(3)
    array([1.414])
    """
    values, classes = as_logits(logits, labels)
    if is_tensor(values):
        inputs = features.detach().to(device=values.device, dtype=values.dtype)
    else:
        inputs = np.asarray(features, dtype=np.float64)
    if inputs.ndim != 2 or len(inputs) != len(values):
        raise InvalidInputError(
            f"features has shape {tuple(inputs.shape)}: expected ({len(values)}, features), one row for each "
            "row of logits."
        )
    size = lengths(inputs)
    size = (size * size + 1.0) ** 0.5 if bias else size
    return lengths(errors(values, classes)) * size
