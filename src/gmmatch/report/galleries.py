"""Which rows are worth a look: the most suspicious ones, and the typical picks of each class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch.report.classes import Classes
from gmmatch.report.content import spread
from gmmatch.rows.rows import Rows
from gmmatch.selection.selection import Selection
from gmmatch.types import Indices

SUSPICIOUS_PER_REASON = 24
TYPICAL_PER_CLASS = 6
MOST_TYPICAL = 144
APART = "nearer to another class's picks than to its own"
FAR = "far from the picks of its class"
_BLOCK_ELEMENTS = 1 << 22
# Among so many, evenly spaced, there is a typical one.
_CANDIDATES = 5_000


@dataclass(frozen=True, eq=False)
class Suspects:
    """Rows that something speaks against.

    Attributes
    ----------
    reason
        What that is, in plain words.
    rows
        The most suspicious first.
    looks_like
        The class that each row looks most like, by its position; -1 where that is not known.
    total
        How many rows it speaks against.
    """

    reason: str
    rows: Indices
    looks_like: Indices
    total: int


def screened_out(selection: Selection, classes: Classes) -> list[Suspects]:
    """Return the rows that a selection's screen ruled out, a list for each reason that occurred."""
    screening = selection.screening
    if screening is None:
        return []
    looks = looks_like(selection, classes)
    found = []
    for number, words in enumerate(screening.reasons):
        rows = np.flatnonzero(~screening.kept & (screening.reason == number))
        if len(rows):
            worst = rows[np.argsort(-screening.suspicion[rows], kind="stable")][:SUSPICIOUS_PER_REASON]
            found.append(Suspects(words or "screened out", worst, looks[worst], len(rows)))
    return found


def looks_like(selection: Selection, classes: Classes) -> Indices:
    """Return the position of the class that each row looks like; -1 where the screen does not say."""
    nothing = np.full(selection.n_rows, -1, dtype=np.int64)
    screening = selection.screening
    if screening is None or screening.looks_like is None or not classes.known:
        return nothing
    values = screening.looks_like.tolist()
    where = {value: classes.position(value) for value in dict.fromkeys(values)}
    return np.array([-1 if where[value] is None else where[value] for value in values], dtype=np.int64)


def standing_apart(
    rows: Rows, examined: Indices, classes: Classes, centres: NDArray[np.float64]
) -> list[Suspects]:
    """Return rows that lie oddly, where no screen has judged them.

    Parameters
    ----------
    rows
        All rows.
    examined
        Which of them to look at.
    classes
        Their classes.
    centres
        The mean of the picks of each class, shape (classes, s); NaN where there is none.

    Returns
    -------
    list of Suspects
        With two classes or more, rows that are nearer to the centre of another class than to their own's,
        by how much; otherwise the rows farthest from the centre.
    """
    has_centre = np.flatnonzero(~np.isnan(centres).any(axis=1))
    judged = examined[np.isin(classes.of_row[examined], has_centre)]
    if not len(judged):
        return []
    own, other, nearest = _distances(rows, judged, classes, centres, has_centre)
    if len(has_centre) < 2:
        worst = np.argsort(-own, kind="stable")[:SUSPICIOUS_PER_REASON]
        return [Suspects(FAR, judged[worst], np.full(len(worst), -1, dtype=np.int64), len(judged))]
    wrong = np.flatnonzero(own > other)
    ratio = own[wrong] / np.maximum(other[wrong], np.finfo(np.float64).tiny)
    worst = wrong[np.argsort(-ratio, kind="stable")][:SUSPICIOUS_PER_REASON]
    return [Suspects(APART, judged[worst], nearest[worst], len(wrong))] if len(wrong) else []


def _distances(
    rows: Rows, judged: Indices, classes: Classes, centres: NDArray[np.float64], has_centre: Indices
) -> tuple[NDArray[np.float64], NDArray[np.float64], Indices]:
    """The distance to the own centre and to the nearest other one, and whose that is."""
    from sklearn.metrics import pairwise_distances

    points = centres[has_centre]
    origin = points.mean(axis=0)
    own, other = np.empty(len(judged)), np.empty(len(judged))
    nearest = np.empty(len(judged), dtype=np.int64)
    step = max(1, _BLOCK_ELEMENTS // max(rows.n_features, len(points)))
    for start in range(0, len(judged), step):
        part = judged[start : start + step]
        gaps = pairwise_distances(rows.gather(part) - origin, points - origin)
        mine = np.searchsorted(has_centre, classes.of_row[part])
        lines = np.arange(len(part))
        own[start : start + step] = gaps[lines, mine]
        gaps[lines, mine] = np.inf
        found = gaps.argmin(axis=1)
        other[start : start + step] = gaps[lines, found]
        nearest[start : start + step] = has_centre[found]
    return own, other, nearest


def typical_picks(
    rows: Rows, selection: Selection, classes: Classes, centres: NDArray[np.float64]
) -> dict[int, Indices]:
    """Return the picks of each class that are nearest to the mean of its picks, the nearest first.

    Of very many classes only those with the most picks are there.
    """
    picks = np.unique(selection.order)
    counts = np.bincount(classes.of_row[picks], minlength=len(classes))
    shown = np.sort(np.argsort(-counts, kind="stable")[: MOST_TYPICAL // TYPICAL_PER_CLASS])
    found = {}
    for number in shown.tolist():
        mine = picks[classes.of_row[picks] == number]
        if len(mine):
            mine = spread(mine, _CANDIDATES)
            gaps = np.linalg.norm(rows.gather(mine) - centres[number], axis=1)
            found[number] = mine[np.argsort(gaps, kind="stable")[:TYPICAL_PER_CLASS]]
    return found
