"""Rows that are worth a look, each on a card: suspects, near-duplicates, and the typical picks of each class."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gmmatch._array import Indices, sample_indices
from gmmatch.report.content import Content
from gmmatch.report.subject import Subject
from gmmatch.screening.result import ScreeningResult

_SUSPECTS_PER_REASON = 30
_GALLERY_ROWS = 6
_MAX_TYPICAL = 144
_MAX_GROUPS = 6
# Characters of an id that fit under a picture.
_ID_LENGTH = 20
# Among so many, evenly spaced, there is a typical one.
_CANDIDATES = 5_000


@dataclass(frozen=True)
class Card:
    """One row.

    Attributes
    ----------
    name, short_name : str
        Its id, or its number.
    label, looks_like : str
        Empty where not known, or where it looks like no other class than its label's.
    chance : float or None
        The probability that something is wrong with it; None where only its neighbors speak against it.
    content : Content or None
    position : int
        On the map; -1 if it is not drawn.
    """

    name: str
    short_name: str
    label: str
    looks_like: str
    chance: float | None
    content: Content | None
    position: int

    @property
    def alternative(self) -> str:
        """What stands for the picture where it cannot be seen."""
        return f"{self.name}, labeled {self.label}" if self.label else self.name


@dataclass(frozen=True, eq=False)
class Gallery:
    """Rows under one heading; ``cards`` are filled in when the pictures have been read.

    Attributes
    ----------
    title, verdict : str
        The verdict is empty where rows are not suspects.
    total : int
        All rows of which ``rows`` are shown.
    rows : int64 array
    """

    title: str
    verdict: str
    total: int
    rows: Indices
    cards: list[Card] = field(default_factory=list)


def suspects(subject: Subject, verdict: str) -> list[Gallery]:
    """Return the rows of a verdict, a gallery for each reason, the most frequent first."""
    if subject.screening is None:
        return []
    rows = np.flatnonzero(subject.has_verdict(verdict))
    reasons = np.asarray(subject.screening.reason)[rows].astype(str)
    names, counts = np.unique(reasons, return_counts=True)
    by_name = {name: rows[reasons == name] for name in names[np.argsort(-counts, kind="stable")].tolist()}
    return [_show_worst(subject, name, verdict, chosen) for name, chosen in by_name.items()]


def wrong_picks(subject: Subject) -> list[Gallery]:
    """Return the picks of each of several selections that look wrong."""
    is_wrong = subject.has_verdict("wrong")
    picks = {name: np.unique(selection.order) for name, selection in subject.selections.items()}
    wrong = {name: rows[is_wrong[rows]] for name, rows in picks.items()}
    return [_show_worst(subject, name, "wrong", rows) for name, rows in wrong.items() if len(rows)]


def _show_worst(subject: Subject, title: str, verdict: str, rows: Indices) -> Gallery:
    return Gallery(title, verdict, len(rows), _take_turns(rows, subject)[:_SUSPECTS_PER_REASON])


def _take_turns(rows: Indices, subject: Subject) -> Indices:
    """Return the most suspicious row of each class by suspicion, then the second of each: no class fills the page."""
    ordered = rows
    if subject.screening is not None:
        ordered = rows[np.argsort(-subject.screening.suspicion[rows], kind="stable")]
    codes = subject.classes.codes[ordered]
    by_class = np.argsort(codes, kind="stable")
    rank = np.empty(len(ordered), dtype=np.int64)
    rank[by_class] = np.arange(len(ordered)) - np.searchsorted(codes[by_class], codes[by_class])
    return ordered[np.argsort(rank, kind="stable")]


def duplicate_groups(screening: ScreeningResult | None) -> list[Gallery]:
    """Return the largest groups of near-duplicates, each with the row that stays first."""
    galleries: list[Gallery] = []
    if screening is None:
        return galleries
    originals = screening.duplicate_of
    copies = np.flatnonzero(originals >= 0)
    heads, counts = np.unique(originals[copies], return_counts=True)
    for number in np.argsort(-counts, kind="stable")[:_MAX_GROUPS].tolist():
        rows = np.concatenate([heads[number : number + 1], copies[originals[copies] == heads[number]]])
        title = f"Group {len(galleries) + 1}"
        galleries.append(Gallery(title, "", len(rows), rows[:_GALLERY_ROWS].astype(np.int64)))
    return galleries


def typical_picks(subject: Subject) -> list[Gallery]:
    """Return the picks of each class nearest to the mean of its picks; of many classes, those with the most."""
    selection, classes = subject.selection, subject.classes
    if selection is None:
        return []
    counts = classes.count(subject.picks)
    largest = np.sort(np.argsort(-np.array(counts), kind="stable")[: _MAX_TYPICAL // _GALLERY_ROWS])
    galleries = []
    for number in largest.tolist():
        picks = subject.picks[classes.codes[subject.picks] == number]
        picks = np.sort(picks)[sample_indices(len(picks), _CANDIDATES)]
        if len(picks):
            values = subject.rows.take(picks)
            distances = np.linalg.norm(values - values.mean(axis=0), axis=1)
            nearest = picks[np.argsort(distances, kind="stable")[:_GALLERY_ROWS]]
            galleries.append(Gallery(classes.names[number], "", counts[number], nearest))
    return galleries


def fill_gallery(
    gallery: Gallery, subject: Subject, contents: dict[int, Content], positions: Indices
) -> Gallery:
    """Return a gallery with a card for each of its rows."""
    rows, classes, screening = gallery.rows, subject.classes, subject.screening
    looks = subject.looks_like(rows) if gallery.verdict else np.full(len(rows), -1)
    names, short_names = subject.names.short(rows), subject.names.short(rows, _ID_LENGTH)
    chances = None if screening is None or not gallery.verdict else np.asarray(screening.probability)[rows]
    cards = [
        Card(
            name=names[i],
            short_name=short_names[i],
            label=classes.names[classes.codes[row]] if classes.is_known else "",
            looks_like=classes.names[looks[i]] if looks[i] >= 0 else "",
            chance=float(chances[i]) if chances is not None and chances[i] > 0.0 else None,
            content=contents.get(row),
            position=int(positions[row]),
        )
        for i, row in enumerate(rows.tolist())
    ]
    return Gallery(gallery.title, gallery.verdict, gallery.total, rows, cards)
