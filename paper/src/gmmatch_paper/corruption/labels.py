"""Label noise: classes turned into others, at exactly the rate that was asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch_paper.arrays import Indices
from gmmatch_paper.checks import check_whole_number
from gmmatch_paper.corruption.result import Corrupted, one_kind
from gmmatch_paper.corruption.seeding import RateAndSeed, choice_generator, count_of


@dataclass(frozen=True)
class _Classes:
    """The labels of all rows as numbers of classes; -1 for rows without a label, which are left alone."""

    codes: Indices
    names: list[Any]

    @property
    def sizes(self) -> Indices:
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.names))

    @classmethod
    def of(cls, y: NDArray[Any], known: Sequence[Any] | None) -> _Classes:
        labels = [None if _is_missing(label) else label for label in y.tolist()]
        integers = {label for label in labels if type(label) is int}
        # -1 marks a row without a label, unless the classes are -1 and 1.
        if -1 in integers and integers != {-1, 1}:
            labels = [None if label == -1 else label for label in labels]
        present = _sort_classes({label for label in labels if label is not None})
        names = (
            present if known is None else [name.item() if hasattr(name, "item") else name for name in known]
        )
        position = {name: number for number, name in enumerate(names)}
        if len(position) != len(names):
            raise InvalidInputError("classes names a class twice: give each once.")
        for label in present:
            if label not in position:
                raise InvalidInputError(f"y holds the class {label!r}, which classes does not name.")
        codes = [-1 if label is None else position[label] for label in labels]
        return cls(np.array(codes, dtype=np.int64), names)


def _is_missing(label: Any) -> bool:
    return label is None or type(label).__name__ == "NAType" or label != label


def _sort_classes(classes: set[Any]) -> list[Any]:
    """Return classes in order: numbers numerically, strings alphabetically, a mixture as text."""
    try:
        return sorted(classes)
    except TypeError:
        return sorted(classes, key=lambda label: (str(label), type(label).__name__))


def _divide(count: int, shares: Any) -> Indices:
    """Split a count in proportion to shares; what rounding leaves goes to the largest remainders."""
    weights = [Fraction(share) for share in np.asarray(shares).tolist()]
    total = sum(weights) or Fraction(1)
    # Fractions: ties are real ties, and go to the first.
    quotas = [divmod(count * weight, total) for weight in weights]
    whole = np.array([quota for quota, _ in quotas], dtype=np.int64)
    order = sorted(range(len(quotas)), key=lambda number: -quotas[number][1])
    whole[order[: count - int(whole.sum())]] += 1
    return whole


class LabelNoise(ABC):
    """What the kinds of label noise share; a subclass says which rows get which class."""

    name: str
    seed: int
    classes: Sequence[Any] | None

    def apply(self, y: Any, /) -> Corrupted:
        """Return a noisy copy of labels.

        Parameters
        ----------
        y : array of shape (n,)
            Integers, strings or booleans. Rows without a label (None, NaN, -1) stay as they are.

        Returns
        -------
        Corrupted
            Its ``data`` is a NumPy array of the labels' own type; its mask marks the labels that changed.
        """
        labels = _as_labels(y)
        classes = _Classes.of(labels, self.classes)
        if len(classes.names) < 2:
            raise InvalidInputError(
                f"{len(classes.names)} classes in y: labels can turn into others only where there are two."
            )
        rows, turned = self._flips(classes, choice_generator(self.seed))
        data = _with_room(labels, classes.names)
        # One by one, as an array of the names would turn numbers among strings into strings.
        for row, code in zip(rows.tolist(), turned.tolist(), strict=True):
            data[row] = classes.names[code]
        mask = np.zeros(len(labels), dtype=np.bool_)
        mask[rows] = True
        return Corrupted(data, mask, one_kind(self.name, mask))

    @abstractmethod
    def _flips(self, classes: _Classes, random: np.random.Generator) -> tuple[Indices, Indices]:
        """Return which rows change, and the number of the class that each becomes."""


@dataclass(frozen=True, kw_only=True)
class _RatedNoise(RateAndSeed, LabelNoise):
    """Noise of one rate."""

    rate: float = 0.2

    def _chosen(self, classes: _Classes, random: np.random.Generator) -> Indices:
        """Return the rows that change: a share ``rate`` of every class."""
        shuffled = random.permutation(np.flatnonzero(classes.codes >= 0))
        quotas = _divide(count_of(self.rate, len(shuffled)), classes.sizes)
        of_class = classes.codes[shuffled]
        parts = [shuffled[of_class == number][:quota] for number, quota in enumerate(quotas.tolist())]
        return np.sort(np.concatenate(parts))


@dataclass(frozen=True, kw_only=True)
class SymmetricNoise(_RatedNoise):
    """Turn a share of the labels into any other class, all others equally likely.

    A label never turns into itself, so the rate is the share of wrong labels.

    Parameters
    ----------
    rate : float
        Share of the labeled rows. Exactly rate · n of them, rounded half up, change; they are divided among the
        classes by largest remainder, so that each loses rate times its size to within one row.
    classes : sequence, optional
        All classes, where ``y`` may not hold every one.
    seed : int
        The same seed gives the same flips.

    Examples
    --------
    >>> y = ["cat"] * 5 + ["dog"] * 5
    >>> result = SymmetricNoise(rate=0.4, seed=0).apply(y)
    >>> int(result.mask.sum()), sorted(result.data[:5].tolist())
    (4, ['cat', 'cat', 'cat', 'dog', 'dog'])
    """

    classes: Sequence[Any] | None = None

    name = "symmetric"

    def _flips(self, classes: _Classes, random: np.random.Generator) -> tuple[Indices, Indices]:
        rows = self._chosen(classes, random)
        steps = random.integers(1, len(classes.names), size=len(rows))
        return rows, (classes.codes[rows] + steps) % len(classes.names)


@dataclass(frozen=True, kw_only=True)
class PairFlip(_RatedNoise):
    """Turn a share of each class into the next one in order, and of the last into the first.

    Parameters
    ----------
    rate, classes, seed
        As for :class:`SymmetricNoise`; ``classes`` in their order.

    Examples
    --------
    >>> sorted(PairFlip(rate=0.5, seed=0).apply([0, 0, 0, 0, 1, 1]).data[:4].tolist())
    [0, 0, 1, 1]
    """

    classes: Sequence[Any] | None = None

    name = "pair-flip"

    def _flips(self, classes: _Classes, random: np.random.Generator) -> tuple[Indices, Indices]:
        rows = self._chosen(classes, random)
        return rows, (classes.codes[rows] + 1) % len(classes.names)


@dataclass(frozen=True, kw_only=True)
class TransitionNoise(LabelNoise):
    """Turn labels as a matrix says: entry (i, j) is the share of class i that becomes class j.

    The shares are exact: the n_i rows of class i are divided among the entries of row i by largest
    remainder, so that every count is within one of n_i times its entry.

    Parameters
    ----------
    matrix : array of shape (c, c)
        Not negative; each row sums to 1. What is on the diagonal stays.
    classes : sequence, optional
        The classes in the order of the matrix; by default those of ``y``, numbers numerically and strings
        alphabetically.
    seed : int
        Decides which rows change.

    Examples
    --------
    >>> noise = TransitionNoise(matrix=[[0.5, 0.5], [0.0, 1.0]], seed=0)
    >>> result = noise.apply(["cat", "cat", "dog", "dog"])
    >>> sorted(result.data[:2].tolist()), result.data[2:].tolist()
    (['cat', 'dog'], ['dog', 'dog'])
    """

    matrix: Any
    classes: Sequence[Any] | None = None
    seed: int = 0

    name = "transition"

    def __post_init__(self) -> None:
        check_whole_number(self.seed, "seed", 0)
        shares = self._shares()
        if shares.ndim != 2 or shares.shape[0] != shares.shape[1]:
            raise InvalidInputError(
                f"matrix has shape {shares.shape}: give one row and one column per class."
            )
        if not (np.isfinite(shares).all() and (shares >= 0.0).all()):
            raise InvalidInputError(
                "matrix holds a number that is negative or not finite: its entries are shares."
            )
        off = np.flatnonzero(np.abs(shares.sum(axis=1) - 1.0) > 1e-6)
        if len(off):
            total = shares[off[0]].sum()
            raise InvalidInputError(f"matrix: row {off[0]} sums to {total:.6g}, where shares sum to 1.")

    def _shares(self) -> NDArray[np.float64]:
        return np.asarray(self.matrix, dtype=np.float64)

    def _flips(self, classes: _Classes, random: np.random.Generator) -> tuple[Indices, Indices]:
        shares = self._shares()
        if len(shares) != len(classes.names):
            raise InvalidInputError(
                f"matrix is for {len(shares)} classes, but there are {len(classes.names)}: name them by classes."
            )
        turned = classes.codes.copy()
        for number, row in enumerate(shares):
            mine = random.permutation(np.flatnonzero(classes.codes == number))
            turned[mine] = np.repeat(np.arange(len(row)), _divide(len(mine), row))
        rows = np.flatnonzero(turned != classes.codes)
        return rows, turned[rows]


def _as_labels(y: Any) -> NDArray[Any]:
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidInputError(f"y has shape {array.shape}: give one label per row, shape (n,).")
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8")
    # NumPy would write numbers among strings as strings.
    if isinstance(y, (list, tuple)) and array.dtype.kind in "US" and not all(isinstance(v, str) for v in y):
        array = np.array(list(y), dtype=object)
    return array


def _with_room(labels: NDArray[Any], names: list[Any]) -> NDArray[Any]:
    """A copy of the labels whose type can hold every class, also those that no row has yet."""
    known = np.array(names, dtype=object)
    try:
        if (known.astype(labels.dtype) == known).all():
            return labels.copy()
    except (ValueError, TypeError, OverflowError):
        return labels.astype(object)
    wider = np.asarray(names).dtype
    return labels.astype(np.result_type(labels.dtype, wider) if wider.kind in "USiu" else object)
