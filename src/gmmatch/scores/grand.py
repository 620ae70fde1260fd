"""GraNd of the last layer: the length of the loss's gradient, in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.scores.logits import as_logits, errors, is_tensor, lengths


def last_layer_grand(logits: Any, labels: Any, features: Any, *, bias: bool = True) -> Any:
    """Return the length of the gradient of each row's cross-entropy by the last layer's parameters.

    For logits = W h + b the gradient by W is (p − y) hᵀ and the one by b is p − y, so its length is
    ‖p − y‖ · ‖(h, 1)‖: EL2N times the length of the features.

    Parameters
    ----------
    logits : array or tensor of shape (m, classes)
    labels : array or tensor of shape (m,)
        Class numbers.
    features : array or tensor of shape (m, s)
        What goes into the last layer, h.
    bias : bool
        Whether the last layer has a bias b.

    Returns
    -------
    array or tensor of shape (m,)

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
