"""Rows that are worth a look, each on a card: the most suspicious ones, and the typical picks of each class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmmatch.report.content import Content
from gmmatch.report.names import LONGEST_NAME, Classes, RowNames, shown
from gmmatch.rows.rows import Rows
from gmmatch.selection.selection import Selection
from gmmatch.types import Indices, Vector, evenly_spaced

SHOWN_FIRST = 6
SUSPICIOUS_PER_REASON = 30
TYPICAL_PER_CLASS = 6
MOST_TYPICAL = 144
APART = "nearer to another class's picks than to its own"
FAR = "far from the picks of its class"
_BLOCK_ELEMENTS = 1 << 22
# Characters of an id that fit under a picture.
_SHORT_NAME = 20
# Among so many, evenly spaced, there is a typical one.
_CANDIDATES = 5_000


@dataclass(frozen=True, eq=False)
class Suspects:
    """Rows that something speaks against."""

    reason: str
    rows: Indices  # the most suspicious of each class, then the second of each
    looks_like: Indices  # the position of the class that each row looks most like; -1 where that is not known
    total: int  # all rows that it speaks against
    suspicion: Vector | None = None  # the probability that something is wrong with each row


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
            worst = _in_turns(rows, screening.probability, classes)[:SUSPICIOUS_PER_REASON]
            found.append(
                Suspects(words or "not trusted", worst, looks[worst], len(rows), screening.probability[worst])
            )
    return found


def _in_turns(rows: Indices, suspicion: Vector, classes: Classes) -> Indices:
    """The most suspicious row of each class by suspicion, then the second of each: no class fills the page."""
    ordered = rows[np.argsort(-suspicion[rows], kind="stable")]
    of_class = classes.of_row[ordered]
    by_class = np.argsort(of_class, kind="stable")
    first = np.searchsorted(of_class[by_class], of_class[by_class])
    turn = np.empty(len(ordered), dtype=np.int64)
    turn[by_class] = np.arange(len(ordered)) - first
    return ordered[np.argsort(turn, kind="stable")]


def largest_groups(selection: Selection) -> list[tuple[int, Indices]]:
    """Return the size and some rows of the largest groups of near-duplicates, where all but one were left out."""
    record = selection.provenance.get("duplicates")
    groups = record.get("largest", []) if isinstance(record, dict) else []
    return [(group["n_rows"], np.array(group["rows"], dtype=np.int64)) for group in groups]


def looks_like(selection: Selection, classes: Classes) -> Indices:
    """Return the position of the class that each row looks like; -1 where the screen does not say."""
    screening = selection.screening
    if screening is None or screening.suggested_labels is None or not classes.known:
        return np.full(selection.n_rows, -1, dtype=np.int64)
    return classes.positions_of(screening.suggested_labels)


def mislabeled_picks(selection: Selection, classes: Classes, true: Indices) -> Suspects:
    """Return the picks whose label is not the true one; ``true`` is the position of each row's true class, or -1."""
    picks = np.array(list(dict.fromkeys(selection.order.tolist())), dtype=np.int64)
    wrong = picks[true[picks] != classes.of_row[picks]]
    some = wrong[:SUSPICIOUS_PER_REASON]
    return Suspects("mislabeled", some, true[some], len(wrong))


def standing_apart(
    rows: Rows, examined: Indices, classes: Classes, centres: NDArray[np.float64]
) -> list[Suspects]:
    """Return rows that lie oddly, where no screen has judged them.

    With two classes or more, those that are nearer to the center of another class's picks than to that of their own,
    by how much; otherwise the rows farthest from the center. A class without picks has NaN for its center.
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
    """The distance to the own center and to the nearest other one, and whose that is."""
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
    """Return the picks of each class nearest to the mean of its picks; of many classes, those with the most picks."""
    picks = np.unique(selection.order)
    counts = np.bincount(classes.of_row[picks], minlength=len(classes))
    largest = np.sort(np.argsort(-counts, kind="stable")[: MOST_TYPICAL // TYPICAL_PER_CLASS])
    found = {}
    for number in largest.tolist():
        mine = picks[classes.of_row[picks] == number]
        if len(mine):
            mine = mine[evenly_spaced(len(mine), _CANDIDATES)]
            gaps = np.linalg.norm(rows.gather(mine) - centres[number], axis=1)
            found[number] = mine[np.argsort(gaps, kind="stable")[:TYPICAL_PER_CLASS]]
    return found


@dataclass(frozen=True)
class Card:
    """One row."""

    name: str  # its id, or its number
    short_name: str
    label: str  # empty where there are no labels
    looks_like: str  # empty where that is not known, or no other class than its label's
    suspicion: float | None
    content: Content | None
    place: int  # on the map; -1 if it is not drawn

    @property
    def alternative(self) -> str:
        """What stands for the picture where it cannot be seen."""
        return f"{self.name}, labeled {self.label}" if self.label else self.name


@dataclass(frozen=True)
class Gallery:
    """Cards under one heading."""

    title: str
    total: int
    cards: list[Card]


class CardMaker:
    """Makes cards of rows, with their contents and their places on the map."""

    def __init__(
        self, classes: Classes, names: RowNames, contents: dict[int, Content], places: Indices
    ) -> None:
        self._classes, self._names, self._contents, self._places = classes, names, contents, places

    def suspects(self, found: list[Suspects]) -> list[Gallery]:
        """Return a gallery for each reason."""
        return [
            Gallery(one.reason, one.total, self.cards(one.rows, one.looks_like, one.suspicion))
            for one in found
        ]

    def typical(self, found: dict[int, Indices], counts: Indices) -> list[Gallery]:
        """Return a gallery for each class."""
        return [
            Gallery(self._class_name(number), int(counts[number]), self.cards(rows))
            for number, rows in found.items()
        ]

    def groups(self, found: list[tuple[int, Indices]]) -> list[Gallery]:
        """Return a gallery for each group of near-duplicates, the row that stays first."""
        return [Gallery(f"Group {i + 1}", size, self.cards(rows)) for i, (size, rows) in enumerate(found)]

    def cards(
        self, rows: Indices, looks: Indices | None = None, suspicion: Vector | None = None
    ) -> list[Card]:
        """Return a card for each row."""
        own = self._classes.of_row[rows]
        looks = np.full(len(rows), -1) if looks is None else np.where(looks == own, -1, looks)
        names, short = self._names.of(rows), self._names.of(rows, _SHORT_NAME)
        known = self._classes.known
        return [
            Card(
                name=names[i] or f"row {row}",
                short_name=short[i] or f"row {row}",
                label=self._class_name(int(own[i])) if known else "",
                looks_like=self._class_name(int(looks[i])) if looks[i] >= 0 else "",
                suspicion=None if suspicion is None else float(suspicion[i]),
                content=self._contents.get(row),
                place=int(self._places[row]),
            )
            for i, row in enumerate(rows.tolist())
        ]

    def _class_name(self, number: int) -> str:
        return shown(self._classes.names[number], LONGEST_NAME)
