"""Names for the array types that signatures speak of, and how to tell tensors apart."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Matrix: TypeAlias = NDArray[np.floating[Any]]
"""Rows by features, float32 or float64."""

Vector: TypeAlias = NDArray[np.float64]
"""One float64 number per row or per feature."""

Indices: TypeAlias = NDArray[np.int64]
"""Row numbers."""

Mask: TypeAlias = NDArray[np.bool_]
"""One yes or no per row."""

RandomState: TypeAlias = "int | np.random.Generator | np.random.RandomState | None"
"""What scikit-learn accepts as a seed, and NumPy's new generators."""

Start: TypeAlias = Literal["target", "zero"]
"""Where the greedy matching starts: the paper's θ₀ = μ, or 0."""


def is_tensor(values: object) -> bool:
    """Whether this is a torch tensor, or of a class derived from it, without importing torch to find out."""
    kinds = type(values).__mro__
    return hasattr(values, "detach") and any(kind.__module__.partition(".")[0] == "torch" for kind in kinds)


def namespace(values: object) -> ModuleType:
    """Return the module whose functions take these values: torch or NumPy."""
    if is_tensor(values):
        import torch

        module: ModuleType = torch
        return module
    return np


def beside(values: Any, block: Any) -> Any:
    """Return an array where a block lies: as a tensor on its device if that is one.

    Examples
    --------
    >>> beside(np.ones(2), np.zeros((3, 2)))
    array([1., 1.])
    """
    if not is_tensor(block):
        return values
    return namespace(block).as_tensor(values, device=block.device)


def stable_order(values: Any) -> Any:
    """Return the positions that sort an array or a tensor; equals stay in their order.

    Examples
    --------
    >>> stable_order(np.array([2, 1, 2, 0]))
    array([3, 1, 0, 2])
    """
    if is_tensor(values):
        return values.sort(stable=True).indices
    return np.argsort(values, kind="stable")


def on_host(values: Any) -> NDArray[Any]:
    """Return an array or a tensor, wherever it lies, as an array.

    Examples
    --------
    >>> on_host([1, 2])
    array([1, 2])
    """
    if not is_tensor(values):
        return np.asarray(values)
    if values.device.type == "cuda":
        # Memory that the device writes to by itself: ten times as fast, and kept for the next time.
        values = namespace(values).empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(values)
    return np.asarray(values)


def evenly_spaced(n: int, at_most: int) -> Indices:
    """Return up to ``at_most`` positions among n, the first and the last included.

    Examples
    --------
    >>> evenly_spaced(10, 3), evenly_spaced(2, 3)
    (array([0, 4, 9]), array([0, 1]))
    """
    return np.unique(np.linspace(0, max(0, n - 1), min(n, at_most)).astype(np.int64))


def offsets_of(sizes: ArrayLike) -> Indices:
    """Return where each of several runs begins in the whole, and where the last ends.

    Examples
    --------
    >>> offsets_of([2, 0, 1])
    array([0, 2, 2, 3])
    """
    counts = np.asarray(sizes, dtype=np.int64)
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
