"""Distributions that an adversary may put in place of rows, after a look at all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError, InvalidTypeError, unknown_name
from gmmatch_paper.arrays import Vector, float_blocks


class Adversary(Protocol):
    """A function that looks at all rows and returns the ones to put in place of some."""

    def __call__(self, rows: Any, count: int, random: np.random.Generator, /) -> Any:
        """Return ``count`` rows with as many columns as ``rows``, which is an (n, s) array."""
        ...


AdversaryName: TypeAlias = "str | Adversary"
"""The name of an adversary, or one of your own."""


@dataclass(frozen=True)
class FarCluster:
    """A Gaussian blob far away, which pulls the mean towards it.

    Parameters
    ----------
    distance : float
        From the mean of the rows to the blob's, in units of the rows' own root mean squared distance
        from their mean.
    spread : float
        The blob's root mean squared distance from its mean, in the same units.

    Examples
    --------
    >>> clean = np.random.default_rng(0).normal(size=(100, 2))
    >>> FarCluster(distance=50.0)(clean, 3, np.random.default_rng(0)).shape
    (3, 2)
    """

    distance: float = 10.0
    spread: float = 1.0

    def __call__(self, rows: Any, count: int, random: np.random.Generator) -> NDArray[np.float64]:
        """Return ``count`` rows of the blob."""
        mean, radius = center_and_radius(rows)
        center = mean + self.distance * radius * _directions(1, len(mean), random)[0]
        blob = center + random.normal(size=(count, len(mean))) * (self.spread * radius / np.sqrt(len(mean)))
        return np.asarray(blob)


@dataclass(frozen=True)
class Shell:
    """Rows in all directions at one distance, which hardly move the mean but hide the center.

    Parameters
    ----------
    distance : float
        From the mean of the rows, in units of the rows' root mean squared distance from it.

    Examples
    --------
    >>> shell = Shell(distance=2.0)([[-1.0], [1.0]], 5, np.random.default_rng(0))
    >>> sorted({float(value) for value in shell[:, 0]})
    [-2.0, 2.0]
    """

    distance: float = 10.0

    def __call__(self, rows: Any, count: int, random: np.random.Generator) -> NDArray[np.float64]:
        """Return ``count`` rows of the shell."""
        mean, radius = center_and_radius(rows)
        return np.asarray(mean + self.distance * radius * _directions(count, len(mean), random))


@dataclass(frozen=True)
class HeavyTail:
    """Student's t distribution around the mean: most rows near, a few extremely far.

    Parameters
    ----------
    degrees : float
        Degrees of freedom; 1 is the Cauchy distribution, which has no mean, and from 3 on there is a
        variance.
    scale : float
        How wide it is, in units of the rows' root mean squared distance from their mean.

    Examples
    --------
    >>> HeavyTail()(np.eye(3), 4, np.random.default_rng(0)).shape
    (4, 3)
    """

    degrees: float = 1.0
    scale: float = 1.0

    def __call__(self, rows: Any, count: int, random: np.random.Generator) -> NDArray[np.float64]:
        """Return ``count`` rows of the distribution."""
        if not self.degrees > 0.0:
            raise InvalidInputError(f"degrees={self.degrees}: degrees of freedom must be above 0.")
        mean, radius = center_and_radius(rows)
        normal = random.normal(size=(count, len(mean))) * (self.scale * radius / np.sqrt(len(mean)))
        # One divisor per row: a row is far out in all of its columns or in none.
        stretch = np.sqrt(random.chisquare(self.degrees, size=(count, 1)) / self.degrees)
        return np.asarray(mean + normal / np.maximum(stretch, 1e-12))


_NAMED: dict[str, type[FarCluster] | type[Shell] | type[HeavyTail]] = {
    "far-cluster": FarCluster,
    "shell": Shell,
    "heavy-tail": HeavyTail,
}


def adversaries() -> tuple[str, ...]:
    """Return the names of the adversaries.

    Examples
    --------
    >>> adversaries()
    ('far-cluster', 'shell', 'heavy-tail')
    """
    return tuple(_NAMED)


def adversary_class(name: str) -> type[FarCluster] | type[Shell] | type[HeavyTail]:
    """Return the class of an adversary, by its name."""
    if name not in _NAMED:
        raise unknown_name("adversary", name, _NAMED, "there is no such adversary; there are")
    return _NAMED[name]


def as_adversary(adversary: AdversaryName) -> tuple[str, Adversary]:
    """Return an adversary with the name that is recorded for the rows it touches."""
    if isinstance(adversary, str):
        return adversary, adversary_class(adversary)()
    if not callable(adversary):
        raise InvalidTypeError(
            f"adversary has type {type(adversary).__name__}: give one of {', '.join(_NAMED)}, or a function "
            "of the rows, a count and a random generator."
        )
    known = next((name for name, cls in _NAMED.items() if isinstance(adversary, cls)), "adversary")
    return known, adversary


def center_and_radius(rows: Any) -> tuple[Vector, float]:
    """Return the mean of the rows and their root mean squared distance from it, read in chunks."""
    array = np.asarray(rows)
    mean: Vector = sum((block.sum(axis=0) for block in float_blocks(array)), np.zeros(1)) / len(array)
    squared = sum(float(((block - mean) ** 2).sum()) for block in float_blocks(array))
    return mean, float(np.sqrt(squared / len(array)))


def _directions(count: int, n_features: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Unit vectors, uniform on the sphere."""
    vectors = random.normal(size=(count, n_features))
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300))
