"""Gross corruption: an adversary looks at all rows and replaces some of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch_paper.arrays import Indices, Vector, float_blocks
from gmmatch_paper.checks import check_matrix, check_whole_number
from gmmatch_paper.corruption.adversaries import AdversaryName, as_adversary, center_and_radius
from gmmatch_paper.corruption.result import Corrupted, one_kind
from gmmatch_paper.corruption.seeding import RateAndSeed

_ADVERSARY = 2


@dataclass(frozen=True, kw_only=True)
class GrossCorruption(RateAndSeed):
    """Replace a share ψ of the rows by an adversary's (the paper's definition of gross corruption).

    Parameters
    ----------
    rate : float
        The paper's ψ. Exactly ψn rows, rounded half up, are replaced.
    adversary : str or callable
        ``"far-cluster"``, ``"shell"``, ``"heavy-tail"``; an object of
        :mod:`gmmatch_paper.corruption.adversaries` with other settings; or any function ``(rows, count, random)``
        that returns ``count`` rows. ``rows`` are all rows, read-only: the adversary inspects everything.
    seed : int
        Decides which rows are replaced, and feeds the adversary's ``random``.

    Examples
    --------
    >>> X = np.zeros((10, 2))
    >>> result = GrossCorruption(rate=0.2, adversary=lambda rows, count, random: np.full((count, 2), 9.0)).apply(X)
    >>> int(result.mask.sum()), result.data[result.mask].tolist(), float(X.max())
    (2, [[9.0, 9.0], [9.0, 9.0]], 0.0)
    """

    rate: float = 0.4
    adversary: AdversaryName = "far-cluster"

    def __post_init__(self) -> None:
        super().__post_init__()
        as_adversary(self.adversary)

    def apply(self, X: Any, /) -> Corrupted:
        """Return a corrupted copy of ``X``.

        Parameters
        ----------
        X : array of shape (n, s)
            Floats keep their type; integers become floats.

        Returns
        -------
        Corrupted
        """
        return _corrupted(self, X)

    @property
    def name(self) -> str:
        """What the replaced rows are called in :attr:`Corrupted.kinds`."""
        return as_adversary(self.adversary)[0]

    def replacements(self, X: Any) -> tuple[Indices, NDArray[np.float64]]:
        """Return which rows are replaced, and by what; for rows of which no copy fits in memory."""
        rows = check_matrix(X)
        places = np.flatnonzero(self.choose(len(rows)))
        random = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(_ADVERSARY,)))
        adversary = as_adversary(self.adversary)[1]
        visible = rows.view()
        visible.flags.writeable = False
        bad = np.asarray(adversary(visible, len(places), random), dtype=np.float64)
        if bad.shape != (len(places), rows.shape[1]):
            raise InvalidInputError(
                f"adversary returned an array of shape {bad.shape}, where ({len(places)}, {rows.shape[1]}) is "
                "expected: one row per row that is replaced."
            )
        return places, bad


@dataclass(frozen=True, kw_only=True)
class MeanAttack:
    """Replace a single row so that the mean of all becomes any point that the adversary chooses.

    The row is :math:`x_B = n \\mu_B - \\sum_{i \\neq B} x_i` (the paper's ``sec:vulnerability``), which is why
    the mean has a breakdown point of 0.

    Parameters
    ----------
    target : array of shape (s,), optional
        Where the mean is to go.
    distance : float, optional
        In place of a target: how far the mean is to move, in a random direction, in units of the rows'
        root mean squared distance from their mean.
    seed : int
        Of the row that is replaced, and of the direction.

    Examples
    --------
    >>> result = MeanAttack(target=(100.0, -7.0)).apply([[0.0, 0.0], [1.0, 1.0], [2.0, 5.0]])
    >>> result.data.mean(axis=0), int(result.mask.sum())
    (array([100.,  -7.]), 1)
    """

    target: Any = None
    distance: float | None = None
    seed: int = 0

    name = "mean-attack"

    def __post_init__(self) -> None:
        check_whole_number(self.seed, "seed", 0)
        if (self.target is None) == (self.distance is None):
            raise InvalidInputError(
                "target and distance: give one of the two, which says where the mean goes."
            )

    def apply(self, X: Any, /) -> Corrupted:
        """Return a copy of ``X``, of shape (n, s), with one other row."""
        return _corrupted(self, X)

    def replacements(self, X: Any) -> tuple[Indices, NDArray[np.float64]]:
        """Return the number of the row that is replaced, and by what, both as arrays with one entry."""
        rows = check_matrix(X)
        n = len(rows)
        random = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(_ADVERSARY,)))
        row = int(random.integers(n))
        wanted = self._wanted(rows, random)
        # Not the sum of all less the row: that would lose the others' digits if the row is huge.
        others = chain(float_blocks(rows[:row]), float_blocks(rows[row + 1 :]))
        total: Vector = sum((block.sum(axis=0) for block in others), np.zeros(rows.shape[1]))
        return np.array([row]), (n * wanted - total)[None]

    def _wanted(self, rows: NDArray[Any], random: np.random.Generator) -> Vector:
        if self.distance is not None:
            mean, radius = center_and_radius(rows)
            direction = random.normal(size=len(mean))
            return np.asarray(mean + self.distance * radius * direction / np.linalg.norm(direction))
        wanted = np.asarray(self.target, dtype=np.float64)
        if wanted.shape != (rows.shape[1],):
            raise InvalidInputError(
                f"target has shape {wanted.shape}: give one number per column of X, shape ({rows.shape[1]},)."
            )
        return wanted


def _corrupted(corruption: GrossCorruption | MeanAttack, X: Any) -> Corrupted:
    rows = check_matrix(X)
    places, bad = corruption.replacements(rows)
    mask = np.zeros(len(rows), dtype=np.bool_)
    mask[places] = True
    return Corrupted(replaced(rows, places, bad), mask, one_kind(corruption.name, mask))


def replaced(array: NDArray[Any], places: Indices, bad: NDArray[np.float64]) -> NDArray[Any]:
    """Return a copy of an array with an adversary's rows in some places; integers become floats."""
    copy = np.array(array, dtype=array.dtype if array.dtype.kind == "f" else np.float64)
    with np.errstate(over="ignore"):
        copy[places] = bad
    if not np.isfinite(copy[places]).all():
        largest = float(np.abs(bad).max())
        raise InvalidInputError(
            f"{copy.dtype} cannot hold the adversary's rows (up to {largest:.3g}): convert X to float64."
        )
    return copy
