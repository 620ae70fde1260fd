"""Simple steps between the embeddings and the selection: center, scale, PCA, unit length.

A step is fitted by sums over all rows, whatever their weight or class, and then makes a row of each row, in
float32 where the input has no more digits than that. Without steps the input is read where it lies.
Steps are recorded in the selection's provenance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.median.passes import weighted_mean
from gmmatch.rows.checks import LARGEST
from gmmatch.rows.rows import RowMap, Rows, read_only
from gmmatch.types import Indices, Matrix, Vector, beside, is_tensor, namespace

# Rows whose float64 differences are held at a time.
_AT_ONCE = 4096

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


def fit_steps(
    rows: Rows, steps: list[tuple[str, int]], threads: int = 1, *, among: Indices | None = None
) -> tuple[Rows, list[RowMap]]:
    """Return the rows after the steps, in order, and what does the same to other rows.

    Steps are fitted to all rows, or to those at the positions ``among``. Rows on disk are preprocessed as they are
    read.

    Examples
    --------
    >>> fit_steps(Rows(np.array([[3.0, 4.0], [0.0, 2.0]])), [("unit", 0)])[0].copied()
    array([[0.6, 0.8],
           [0. , 1. ]])
    """
    maps = []
    for name, number in steps:
        examples = rows if among is None else rows.subset(among)
        maps.append(_fitted(examples, name, number, threads))
        rows = rows.mapped(maps[-1])
    return rows.made(), maps


def _fitted(rows: Rows, name: str, number: int, threads: int) -> RowMap:
    if name == "unit":
        return UnitLength()
    ones = np.ones(len(rows))
    center = weighted_mean(rows, ones, threads)
    if name == "center":
        return Centered(center)
    if name == "scale":
        # Not "deviation == 0" alone: the mean of equal numbers may be off by rounding, and dividing by that
        # would blow the column up. Squares of tiny numbers vanish.
        squares, from_first = rows.total(_squares, ones, center, rows.row(0), threads=threads)
        variance = squares / len(rows)
        return Scaled(np.where((from_first == 0.0) | (variance == 0.0), 1.0, np.sqrt(variance)))
    largest = min(len(rows), rows.n_features)
    if number > largest:
        raise InvalidInputError(
            f'preprocess step "pca:{number}" asks for more components than X has rows or columns; '
            f'"pca:{largest}" is the most.'
        )
    _, vectors = np.linalg.eigh(rows.total(_scatter, ones, center, threads=threads))
    axes = vectors[:, ::-1][:, :number]
    # An eigenvector's sign is arbitrary: fix it, so that two machines agree.
    return Projected(center, axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(number)]))


@dataclass(frozen=True)
class Centered:
    """Takes a point off every row."""

    center: Vector
    takes_tensors: ClassVar[bool] = True

    def __call__(self, block: Any) -> Any:
        """Return the rows that become of a block's."""
        if is_tensor(block):
            return (block - beside(self.center, block)).to(block.dtype)
        with np.errstate(over="ignore"):  # numbers at the end of float32
            return _saturated(np.subtract(block, self.center, out=np.empty_like(block), casting="same_kind"))


@dataclass(frozen=True)
class Scaled:
    """Divides every column by its deviation."""

    deviation: Vector
    takes_tensors: ClassVar[bool] = True

    def __call__(self, block: Any) -> Any:
        """Return the rows that become of a block's."""
        if is_tensor(block):
            return (block / beside(self.deviation, block)).to(block.dtype)
        with np.errstate(over="ignore"):  # rows that the deviation is not of
            return _saturated(np.divide(block, self.deviation, out=np.empty_like(block), casting="same_kind"))


@dataclass(frozen=True)
class Projected:
    """Principal components of every row."""

    center: Vector
    axes: NDArray[np.float64]
    takes_tensors: ClassVar[bool] = True

    def __call__(self, block: Any) -> Any:
        """Return the rows that become of a block's."""
        if is_tensor(block):
            return ((block - beside(self.center, block)) @ beside(self.axes, block)).to(block.dtype)
        out = np.empty((len(block), self.axes.shape[1]), dtype=block.dtype)
        for first in range(0, len(block), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            with np.errstate(over="ignore"):
                out[part] = (block[part] - self.center) @ self.axes
        return _saturated(out)


@dataclass(frozen=True)
class UnitLength:
    """Scales every row to length 1; a row of zeros stays as it is."""

    takes_tensors: ClassVar[bool] = True

    def __call__(self, block: Any) -> Any:
        """Return the rows that become of a block's."""
        if is_tensor(block):
            wide = block.double()
            lengths = wide.norm(dim=1, keepdim=True)
            return (wide / lengths.where(lengths > 0.0, 1.0)).to(block.dtype)
        from gmmatch.rows.compiled import unit_rows  # compiled: loaded where it is needed

        out = np.empty_like(block)
        unit_rows(read_only(block), out)
        return out


def _saturated(values: NDArray[Any]) -> NDArray[Any]:
    """Put the largest number that can be squared in the place of larger ones.

    Examples
    --------
    >>> _saturated(np.array([1.0, -np.inf], dtype=np.float32))
    array([ 1.0000000e+00, -3.4028235e+38], dtype=float32)
    """
    largest = min(float(np.finfo(values.dtype).max), LARGEST)
    return np.clip(values, -largest, largest, out=values)


def _squares(block: Matrix, index: Indices, weights: Vector, center: Vector, first: Vector) -> Vector:
    """Return the sums of the squared differences to two points, column by column."""
    found: Any = 0.0
    for part in _parts(block, index):
        apart = [part - point for point in (center, first)]
        xp = namespace(part)
        found = found + xp.stack([xp.einsum("ij,ij->j", one, one) for one in apart])
    return found  # type: ignore[no-any-return]


def _scatter(block: Matrix, index: Indices, weights: Vector, center: Vector) -> NDArray[np.float64]:
    found: Any = 0.0
    for part in _parts(block, index):
        apart = part - center
        found = found + apart.T @ apart
    return found  # type: ignore[no-any-return]


def _parts(block: Matrix, index: Indices) -> Iterator[Matrix]:
    for first in range(0, len(index), _AT_ONCE):
        yield block[index[first : first + _AT_ONCE]]
