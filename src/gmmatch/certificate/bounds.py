"""Upper bounds on how many of N rows are wrong, from a sample without replacement; valid for any N and any truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmmatch.types import Indices, Vector

# Of the risk that the bound is wrong, this part goes to ranges for the strata, the rest to the bound within them.
_RANGES = 0.1
# Ways to share wrong rows between two strata that are looked at; between them the bound is on the safe side.
_STEPS = 200


@dataclass(frozen=True)
class Stratum:
    """Some rows, of which a random sample was looked at."""

    n_rows: int
    n_sampled: int
    n_wrong: int


def most_wrong(strata: Sequence[Stratum], confidence: float = 0.95) -> int:
    """Return how many rows are wrong at most, with this confidence.

    One stratum: the bound of Clopper and Pearson for a finite population, which is the largest number of wrong rows
    with which so few would be seen in a sample with a probability above 1 − confidence. Two strata: the same for the
    estimate of the total, over all ways to share wrong rows between the strata that are not ruled out by what was
    seen in each of them (Berger and Boos, 1994).

    Examples
    --------
    >>> most_wrong([Stratum(5000, 200, 0)]), most_wrong([Stratum(200, 200, 3)])
    (72, 3)
    >>> most_wrong([Stratum(3000, 120, 2), Stratum(2000, 80, 76)]), most_wrong([Stratum(5000, 200, 78)])
    (2119, 2245)
    """
    risk = 1.0 - confidence
    if len(strata) == 1:
        return _single(strata[0], risk)
    one, other = strata
    ranges = [
        (_least(part, _RANGES * risk / 4.0), _single(part, _RANGES * risk / 4.0)) for part in (one, other)
    ]
    (low, high), (below, above) = ranges
    left = (1.0 - _RANGES) * risk
    return _largest(
        lambda total: _chance(one, other, total, (low, high), (below, above)) > left,
        low + below,
        high + above,
    )


def _single(part: Stratum, risk: float) -> int:
    return _largest(
        lambda wrong: bool(_chances(part, np.array([wrong]))[: part.n_wrong + 1].sum() > risk),
        part.n_wrong,
        part.n_rows - (part.n_sampled - part.n_wrong),
    )


def _chances(part: Stratum, wrong: Indices) -> Vector:
    """Return how probable 0, 1, ... wrong rows in the sample are, a column for each number of wrong rows in all."""
    from scipy.special import gammaln

    def ways(n: Any, k: Any) -> Any:
        possible = (k >= 0) & (k <= n)
        k = np.where(possible, k, 0)
        return np.where(possible, gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1), -np.inf)

    seen = np.arange(part.n_sampled + 1)[:, None]
    drawn = ways(wrong, seen) + ways(part.n_rows - wrong, part.n_sampled - seen)
    found: Vector = np.exp(drawn - ways(part.n_rows, part.n_sampled))
    return found


def _least(part: Stratum, risk: float) -> int:
    """Return how many rows are wrong at least."""
    turned = Stratum(part.n_rows, part.n_sampled, part.n_sampled - part.n_wrong)
    return part.n_rows - _single(turned, risk)


def _largest(possible: Callable[[int], bool], low: int, high: int) -> int:
    """Return the largest number from ``low`` to ``high`` that is possible; if one is, smaller ones are."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if possible(middle) else (low, middle - 1)
    return low


def _chance(
    one: Stratum, other: Stratum, total: int, first: tuple[int, int], second: tuple[int, int]
) -> float:
    """Return at least how probable so low an estimate is, with this many wrong rows shared as is worst."""
    low, high = max(first[0], total - second[1]), min(first[1], total - second[0])
    if low > high:
        return 0.0
    edges = np.unique(np.linspace(low, high + 1, min(_STEPS, high - low + 1) + 1).astype(np.int64))
    # Fewer wrong rows make a low estimate more probable: the fewest of each stratum in a step bound the whole step.
    starts, ends = edges[:-1], edges[1:] - 1
    return float(_low_estimate(one, other, starts, np.maximum(total - ends, 0)).max())


def _low_estimate(one: Stratum, other: Stratum, wrong: Indices, beside: Indices) -> Vector:
    """Return how probable an estimate of at most the one that was seen is, for numbers of wrong rows."""
    weight, weight_beside = one.n_rows / one.n_sampled, other.n_rows / other.n_sampled
    seen = weight * one.n_wrong + weight_beside * other.n_wrong
    room = np.floor((seen - weight * np.arange(one.n_sampled + 1)) / weight_beside + 1e-9).astype(np.int64)
    at_most = np.concatenate([np.zeros((1, len(beside))), np.cumsum(_chances(other, beside), axis=0)])
    found: Vector = (_chances(one, wrong) * at_most[np.clip(room + 1, 0, other.n_sampled + 1)]).sum(axis=0)
    return found
