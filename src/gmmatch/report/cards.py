"""The galleries as the page shows them: a card for each row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gmmatch.report.classes import Classes
from gmmatch.report.content import Content
from gmmatch.report.galleries import Suspects
from gmmatch.report.names import RowNames
from gmmatch.report.text import LONGEST_NAME, shown
from gmmatch.types import Indices


@dataclass(frozen=True)
class Card:
    """One row.

    Attributes
    ----------
    name
        Its id, or its number.
    label
        The class it is given; empty where there are no labels.
    looks_like
        The class it looks most like; empty where that is not known.
    content
        Its picture or text, if there is one.
    place
        Its place on the map, or -1 if it is not drawn.
    """

    name: str
    label: str
    looks_like: str
    content: Content | None
    place: int

    @property
    def alternative(self) -> str:
        """What stands for the picture where it cannot be seen."""
        return f"{self.name}, labelled {self.label}" if self.label else self.name


@dataclass(frozen=True)
class Gallery:
    """Cards under one heading."""

    title: str
    total: int
    cards: list[Card]


class CardMaker:
    """Makes cards of rows.

    Parameters
    ----------
    classes, names
        What rows are called.
    contents
        Pictures and texts by row.
    drawn
        The rows on the map.
    """

    def __init__(
        self, classes: Classes, names: RowNames, contents: dict[int, Content], drawn: Indices
    ) -> None:
        self._classes, self._names, self._contents = classes, names, contents
        self._place = np.full(len(classes.of_row), -1, dtype=np.int64)
        self._place[drawn] = np.arange(len(drawn))

    def suspects(self, found: list[Suspects]) -> list[Gallery]:
        """Return a gallery for each reason."""
        return [Gallery(one.reason, one.total, self._cards(one.rows, one.looks_like)) for one in found]

    def typical(self, found: dict[int, Indices], counts: Indices) -> list[Gallery]:
        """Return a gallery for each class."""
        return [
            Gallery(self._class_name(number), int(counts[number]), self._cards(rows))
            for number, rows in found.items()
        ]

    def _cards(self, rows: Indices, looks: Indices | None = None) -> list[Card]:
        if looks is None:
            looks = np.full(len(rows), -1, dtype=np.int64)
        known = self._classes.known
        return [
            Card(
                name=name or f"row {row}",
                label=self._class_name(int(self._classes.of_row[row])) if known else "",
                looks_like=self._class_name(like) if like >= 0 else "",
                content=self._contents.get(row),
                place=int(self._place[row]),
            )
            for row, like, name in zip(rows.tolist(), looks.tolist(), self._names.of(rows), strict=True)
        ]

    def _class_name(self, number: int) -> str:
        return shown(self._classes.names[number], LONGEST_NAME)
