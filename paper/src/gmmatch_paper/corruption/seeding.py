"""Which rows are touched, and where each of them gets its random numbers from.

The rows are drawn once from the number of all rows and the seed, and every row then has a stream of random
numbers of its own. So with the same seed a higher rate touches the same rows and more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real

import numpy as np

from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch_paper.arrays import Mask
from gmmatch_paper.checks import check_whole_number

# Different uses of one seed must not draw the same numbers.
_CHOICE, _ROWS = 0, 1


@dataclass(frozen=True, kw_only=True)
class RateAndSeed:
    """What corruptions share: the share of the rows that they touch, and their seed.

    Parameters
    ----------
    rate : float
        Share of the rows, from 0 to 1. The count is the rate times the number of rows, rounded half up.
    seed : int
        The same seed gives the same result.
    """

    rate: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_rate(self.rate)
        check_whole_number(self.seed, "seed", 0)

    def choose(self, n: int) -> Mask:
        """Return which of ``n`` rows are touched."""
        return chosen_rows(n, count_of(self.rate, n), self.seed)


def check_rate(rate: float) -> None:
    """Raise unless the rate is a number from 0 to 1."""
    if isinstance(rate, (bool, np.bool_)) or not isinstance(rate, Real):
        raise InvalidTypeError(f"rate={rate!r} has type {type(rate).__name__}: give a number from 0 to 1.")
    if not 0.0 <= rate <= 1.0:
        raise InvalidInputError(f"rate={rate}: give a share of the rows, a number from 0 to 1.")


def count_of(rate: float, n: int) -> int:
    """Return the rate's share of ``n`` rows, rounded half up.

    The rate is read as the decimal number that was written, so that half a row is really half of one.

    Examples
    --------
    >>> count_of(0.35, 10), count_of(0.3, 10), count_of(0.0, 10)
    (4, 3, 0)
    """
    return math.floor(Fraction(str(float(rate))) * n + Fraction(1, 2))


def choice_generator(seed: int) -> np.random.Generator:
    """Return the generator that decides which rows are touched."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_CHOICE,)))


def chosen_rows(n: int, count: int, seed: int) -> Mask:
    """Return a read-only mask with ``count`` of ``n`` rows, drawn without replacement."""
    mask = np.zeros(n, dtype=np.bool_)
    mask[choice_generator(seed).permutation(n)[:count]] = True
    mask.setflags(write=False)
    return mask


def row_stream(seed: int, row: int) -> np.random.Generator:
    """Return the random numbers of one row, whatever other rows there are."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_ROWS, row)))
