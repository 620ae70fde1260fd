"""The picks that a person is asked about: a random sample, which picks, size and seed determine."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.rows.checks import check_whole_number
from gmmatch.selection.selection import Selection
from gmmatch.types import Indices, Vector

# Strata pay if the estimate is expected to vary by less than this part of what it would without them.
_WORTH = 0.9


@dataclass(frozen=True, eq=False)
class CheckSample:
    """A sample of picks to check, in random order; what :func:`gmmatch.check_sample` returns.

    Attributes
    ----------
    rows : int64 array
        Their row numbers.
    labels, ids : list
        Their labels, and the caller's ids (None where there are none).
    stratum : int64 array
        The stratum that each was drawn from.
    sizes : tuple of int
        How many picks each stratum has.
    name : str
        What an answer file calls the sample: it says how it was drawn, and which picks it is of.

    Examples
    --------
    >>> sample = check_sample(Selection([3, 0, 4, 1], n_rows=5, ids=["d", "a", "e", "b"]), 4)
    >>> sorted(sample.ids), sample.sizes
    (['a', 'b', 'd', 'e'], (4,))
    """

    rows: Indices
    labels: list[Any]
    ids: list[Any] | None
    stratum: Indices
    sizes: tuple[int, ...]
    name: str

    def __len__(self) -> int:
        return len(self.rows)


def check_sample(
    selection: Selection, size: int = 200, *, seed: int = 0, stratified: bool = False
) -> CheckSample:
    """Draw a random sample of the picks for a person to check.

    Parameters
    ----------
    selection : Selection
        The picks; one that was picked twice counts once.
    size : int
        How many to check; all of them if there are fewer.
    seed : int
        Random seed.
    stratified : bool
        Draw from likely right and from likely wrong picks in proportion, by the probabilities of the selection's
        screening. The bound is then tighter where these differ much, and holds even if they are wrong.

    Returns
    -------
    CheckSample

    Examples
    --------
    >>> sample = check_sample(Selection([3, 0, 4, 1], n_rows=5), 2)
    >>> len(sample), sample.name[:6]
    (2, '2-0-r-')
    """
    check_whole_number(size, "size")
    check_whole_number(seed, "seed", 0)
    places = np.unique(selection.indices, return_index=True)[1]
    if not len(places):
        raise InvalidInputError("The selection is empty: there is nothing to check.")
    rows = selection.indices[places]
    strata = [np.arange(len(rows))]
    if stratified:
        if selection.screening is None:
            raise InvalidInputError(
                "stratified=True needs a screening's probabilities, and the selection has none: select by robust."
            )
        strata = _strata(selection.screening.probability[rows])
    size = min(size, len(rows))
    random = np.random.default_rng([*b"certificate", seed])
    shares = _shares([len(part) for part in strata], size)
    drawn = [random.permutation(part)[:share] for part, share in zip(strata, shares, strict=True)]
    order = random.permutation(size)
    chosen = np.concatenate(drawn)[order]
    ids = None if selection.ids is None else selection.ids[places[chosen]].tolist()
    return CheckSample(
        rows=rows[chosen],
        labels=selection.labels[places[chosen]].tolist(),
        ids=ids,
        stratum=np.repeat(np.arange(len(strata)), shares)[order],
        sizes=tuple(len(part) for part in strata),
        name=f"{size}-{seed}-{'s' if stratified else 'r'}-{_digest(selection)}",
    )


def named_sample(selection: Selection, name: str) -> CheckSample | None:
    """Return the sample of these picks that goes by a name; None if the name is of no sample, or of other picks."""
    parts = name.split("-")
    if len(parts) != 4 or not (parts[0].isdigit() and parts[1].isdigit() and parts[2] in ("r", "s")):
        return None
    if parts[3] != _digest(selection) or int(parts[0]) < 1:
        return None
    if parts[2] == "s" and selection.screening is None:
        return None
    return check_sample(selection, int(parts[0]), seed=int(parts[1]), stratified=parts[2] == "s")


def _strata(probability: Vector) -> list[Indices]:
    """Return the places of likely right and of likely wrong picks, cut where an estimate would vary least."""
    order = np.argsort(probability, kind="stable")
    chances = np.clip(probability[order], 1e-3, 1.0 - 1e-3)
    n = len(chances)
    sums, counts = np.cumsum(chances)[:-1], np.arange(1, n)
    below, above = sums / counts, (chances.sum() - sums) / (n - counts)
    within = (counts * below * (1.0 - below) + (n - counts) * above * (1.0 - above)) / n
    # A stratum of a few rows gets no sample to speak of, and equal chances cannot be told apart.
    within[(counts < 0.05 * n) | (counts > 0.95 * n) | (chances[1:] == chances[:-1])] = np.inf
    mean = chances.mean()
    if n < 40 or within.min() > _WORTH**2 * mean * (1.0 - mean):
        return [np.arange(n)]
    cut = int(within.argmin()) + 1
    return [np.sort(order[:cut]), np.sort(order[cut:])]


def _shares(sizes: list[int], total: int) -> list[int]:
    if len(sizes) == 1:
        return [total]
    first = int(np.clip(round(total * sizes[0] / sum(sizes)), min(1, total), max(total - 1, 1)))
    return [first, total - first]


def _digest(selection: Selection) -> str:
    """Return a name for the picks and their labels."""
    content = [
        selection.n_rows,
        selection.indices.tolist(),
        [str(label) for label in selection.labels.tolist()],
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
