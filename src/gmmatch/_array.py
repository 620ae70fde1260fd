"""Arrays of NumPy and torch behind one set of functions.

Functions of blocks call :func:`array_namespace` and then use the names of the array API standard. What the
standard lacks (copies between devices, sums and maxima by group) is here, and nowhere else.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace as array_namespace
from array_api_compat import device as device
from array_api_compat import is_numpy_array as is_numpy_array
from array_api_compat import is_torch_array as is_torch_array
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Block: TypeAlias = NDArray[Any]

RandomState: TypeAlias = "int | np.random.Generator | np.random.RandomState | None"
"""What scikit-learn accepts as a seed, and NumPy's new generators."""


def sample_indices(n: int, size: int) -> Indices:
    """Return up to ``size`` evenly spaced positions among n, the first and the last included.

    Examples
    --------
    >>> sample_indices(10, 3), sample_indices(2, 3)
    (array([0, 4, 9]), array([0, 1]))
    """
    return np.unique(np.linspace(0, max(0, n - 1), min(n, size)).astype(np.int64))


def start_indices(sizes: Any) -> Indices:
    """Return where each of several runs starts in the whole, and where the last ends.

    Examples
    --------
    >>> start_indices([2, 0, 1])
    array([0, 2, 2, 3])
    """
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))])


def read_only(values: Any) -> NDArray[Any]:
    """Return a contiguous view that cannot be written to.

    Compiled functions then see one type of array, and are compiled once.
    """
    view = np.ascontiguousarray(values).view(np.ndarray)
    view.flags.writeable = False
    return view


def to_numpy(values: Any) -> NDArray[Any]:
    """Return an array of any namespace as a NumPy array in main memory; bfloat16, which NumPy lacks, as float32."""
    if not is_torch_array(values):
        return np.asarray(values)
    values = values.detach().cpu()
    return np.asarray(values.float() if str(values.dtype) == "torch.bfloat16" else values)


def asarray_like(values: Any, block: Any) -> Any:
    """Return a NumPy array in the namespace and on the device of ``block``."""
    if is_numpy_array(block):
        return values
    return array_namespace(block).asarray(np.array(values), device=device(block))


def sum_groups(values: Any, codes: Any, n_groups: int) -> Any:
    """Return the sums of ``values`` over the rows of each group; rows with a code of -1 are left out.

    Examples
    --------
    >>> sum_groups(np.array([1.0, 2.0, 4.0]), np.array([1, -1, 1]), 2)
    array([0., 5.])
    """
    xp, kept = array_namespace(values), codes >= 0
    total = xp.zeros((n_groups, *values.shape[1:]), dtype=values.dtype, device=device(values))
    if is_numpy_array(values):
        np.add.at(total, codes[kept], values[kept])
        return total
    return total.index_add_(0, codes[kept], values[kept])


def max_groups(values: Any, codes: Any, n_groups: int) -> Any:
    """Return the largest of ``values`` in each group, -inf without one; rows with a code of -1 are left out.

    Examples
    --------
    >>> max_groups(np.array([1.0, 2.0, 4.0]), np.array([1, 1, -1]), 2)
    array([-inf,   2.])
    """
    xp, kept = array_namespace(values), codes >= 0
    largest = xp.full((n_groups,), -xp.inf, dtype=values.dtype, device=device(values))
    if is_numpy_array(values):
        np.maximum.at(largest, codes[kept], values[kept])
        return largest
    return largest.scatter_reduce_(0, codes[kept], values[kept], "amax")


def best_in_groups(scores: Any, codes: Any) -> tuple[Any, Any]:
    """Return the groups that have a row, and the position of the highest score in each; the first of equals.

    Examples
    --------
    >>> best_in_groups(np.array([3.0, 5.0, 5.0, 9.0]), np.array([0, 2, 2, -1]))
    (array([0, 2]), array([0, 1]))
    """
    xp = array_namespace(scores)
    order = xp.argsort(scores, descending=True, stable=True)
    order = order[xp.argsort(codes[order], stable=True)]
    owners = codes[order]
    first = xp.concat([owners[:1] >= 0, (owners[1:] != owners[:-1]) & (owners[1:] >= 0)])
    return owners[first], order[first]
