"""Simple steps between the embeddings and the selection: centre, scale, PCA, unit length.

A step makes a new array, in float32 where the input has no more digits than that; without steps the
input is read where it lies. Steps look at all rows alike, whatever their weight or class, and are
recorded in the selection's provenance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.median.passes import weighted_mean
from gmmatch.rows.rows import Rows, read_only
from gmmatch.types import Vector

# scikit-learn's scaler, PCA and normalizer work on float32 in float32, which changes picks: on 40,000 isotropic
# rows of 256 numbers the coordinates of 64 components were off by up to 2.2 (here by 2e-7), unit lengths by 2e-8
# (4e-9), scaled numbers by 1e-6 (5e-7). In float64 they would take a copy of all rows of twice the size.
_EXPECTED = (
    'expected a list of steps out of "center", "scale", "pca:64" (any number of components) and "unit"'
)


def parse_steps(preprocess: str | Sequence[str] | None) -> list[tuple[str, int]]:
    """Return steps as ``(name, components)`` pairs, 0 where a step takes no number.

    Examples
    --------
    >>> parse_steps(["center", "pca:64", "unit"])
    [('center', 0), ('pca', 64), ('unit', 0)]
    """
    if preprocess is None:
        return []
    if not isinstance(preprocess, (str, list, tuple)):
        raise InvalidTypeError(f"preprocess={preprocess!r}: {_EXPECTED}.")
    names = [preprocess] if isinstance(preprocess, str) else preprocess
    steps = []
    for step in names:
        name, _, number = str(step).partition(":")
        takes_number = name == "pca"
        if name not in ("center", "scale", "pca", "unit") or takes_number != bool(number):
            raise InvalidInputError(f"preprocess={preprocess!r}: {step!r} is not a step; {_EXPECTED}.")
        if takes_number and (not number.isdecimal() or int(number) < 1):
            raise InvalidInputError(
                f"preprocess={preprocess!r}: {step!r} needs a number of components; {_EXPECTED}."
            )
        steps.append((name, int(number) if number else 0))
    return steps


def preprocess_rows(rows: Rows, steps: list[tuple[str, int]]) -> Rows:
    """Apply the steps to all rows, in order.

    Examples
    --------
    >>> preprocess_rows(Rows(np.array([[3.0, 4.0], [0.0, 2.0]])), [("unit", 0)]).copied()
    array([[0.6, 0.8],
           [0. , 1. ]])
    """
    if not steps:
        return rows
    data = rows.copied()
    for name, number in steps:
        if name == "center":
            data -= _mean(data)
        elif name == "scale":
            data /= _deviation(data)
        elif name == "pca":
            data = _principal_components(data, number)
        else:
            unit_length(data)
    return Rows(read_only(data))


def unit_length(data: NDArray[Any]) -> None:
    """Scale each row to length 1 in place; a row of zeros stays as it is."""
    lengths = np.sqrt(np.einsum("ij,ij->i", data, data, dtype=np.float64))
    lengths[lengths == 0.0] = 1.0
    data /= lengths[:, None]


def _mean(data: NDArray[Any]) -> Vector:
    return weighted_mean(Rows(read_only(data)), np.ones(len(data)))


def _deviation(data: NDArray[Any]) -> Vector:
    """Return the standard deviation of each column, 1 for a constant one."""
    center = _mean(data)
    squares = np.zeros(data.shape[1])
    for block in _centered_blocks(data, center):
        squares += np.einsum("ij,ij->j", block, block)
    deviation: Vector = np.sqrt(squares / len(data))
    # Not "deviation == 0": the mean of equal numbers may be off by rounding, and dividing by that
    # would blow the column up.
    return np.where(data.min(axis=0) == data.max(axis=0), 1.0, deviation)


def _centered_blocks(data: NDArray[Any], center: Vector) -> Iterator[NDArray[np.float64]]:
    for first in range(0, len(data), 4096):
        yield data[first : first + 4096] - center


def _principal_components(data: NDArray[Any], number: int) -> NDArray[Any]:
    largest = min(data.shape)
    if number > largest:
        raise InvalidInputError(
            f'preprocess step "pca:{number}" asks for more components than X has rows or columns; '
            f'"pca:{largest}" is the most.'
        )
    center = _mean(data)
    scatter = np.zeros((data.shape[1], data.shape[1]))
    for block in _centered_blocks(data, center):
        scatter += block.T @ block
    _, vectors = np.linalg.eigh(scatter)
    axes = vectors[:, ::-1][:, :number]
    # An eigenvector's sign is arbitrary: fix it, so that two machines agree.
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(number)])
    return np.concatenate([(block @ axes).astype(data.dtype) for block in _centered_blocks(data, center)])
