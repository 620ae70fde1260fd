"""What a page is about: the rows, what they are called, and what became of each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Mask
from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.report.names import Classes, RowNames
from gmmatch.rows import Rows
from gmmatch.screening.result import ScreeningResult
from gmmatch.selection.selection import Selection

REST, PICKED, DOUBTFUL, WRONG = range(4)
"""What became of a row: the page's script knows the same numbers."""


@dataclass(frozen=True, eq=False)
class Subject:
    """One selection, several of the same rows, or a screening alone."""

    rows: Rows
    classes: Classes
    names: RowNames
    selections: dict[str, Selection]
    screening: ScreeningResult | None

    @property
    def selection(self) -> Selection | None:
        """The only selection, if there is one."""
        return next(iter(self.selections.values())) if len(self.selections) == 1 else None

    @property
    def seed(self) -> int:
        """The seed of the first selection: the same page for the same picks."""
        seeds = [selection.provenance.get("seed") for selection in self.selections.values()]
        return next((seed for seed in seeds if isinstance(seed, int) and seed >= 0), 0)

    @cached_property
    def states(self) -> NDArray[np.uint8]:
        """What became of each row: picked by any selection, else what the screening says of it."""
        states = np.full(len(self.rows), REST, dtype=np.uint8)
        states[self.has_verdict("doubtful")] = DOUBTFUL
        states[self.has_verdict("wrong")] = WRONG
        states[self.picks] = PICKED
        return states

    @cached_property
    def picks(self) -> Indices:
        """The rows picked by any selection, each once, in the order of the picks."""
        rows = [row for selection in self.selections.values() for row in selection.order.tolist()]
        return np.array(list(dict.fromkeys(rows)), dtype=np.int64)

    @property
    def rest_name(self) -> str:
        """What the page calls rows that were neither picked nor doubted."""
        if self.screening is None or self.selections:
            return "not picked"
        names = [verdict for verdict in ("trusted", "not judged") if self.has_verdict(verdict).any()]
        return " or ".join(names)

    def has_verdict(self, verdict: str) -> Mask:
        """Return which rows have a verdict."""
        if self.screening is None:
            return np.zeros(len(self.rows), dtype=np.bool_)
        return np.asarray(self.screening.verdict == verdict)

    def looks_like(self, rows: Indices) -> Indices:
        """Return the class that each of these rows looks like; -1 where no other than its own is known."""
        if self.screening is None or not self.classes.is_known:
            return np.full(len(rows), -1, dtype=np.int64)
        likely = self.classes.find(np.asarray(self.screening.suggested, dtype=object)[rows])
        return np.where(likely == self.classes.codes[rows], -1, likely)


def split_subject(subject: Any, n: int) -> tuple[dict[str, Selection], ScreeningResult | None]:
    """Return the selections by name and the screening that ``subject`` holds; raise unless it is about n rows."""
    selections: dict[str, Selection] = {}
    screening: ScreeningResult | None = None
    if isinstance(subject, ScreeningResult):
        screening, n_rows = subject, len(subject)
    elif isinstance(subject, Selection):
        name = str(subject.provenance.get("method") or "selection")
        selections, screening, n_rows = {name: subject}, subject.screening, subject.n_rows
    elif isinstance(subject, Mapping) and all(isinstance(value, Selection) for value in subject.values()):
        selections = {str(name): selection for name, selection in subject.items()}
        screenings = [
            selection.screening for selection in selections.values() if selection.screening is not None
        ]
        screening = screenings[0] if screenings else None
        n_rows = next((selection.n_rows for selection in selections.values() if selection.n_rows != n), n)
    else:
        raise InvalidTypeError(
            f"subject has type {type(subject).__name__}: give a Selection, a ScreeningResult or a dict of selections."
        )
    if screening is None and not any(len(selection.order) for selection in selections.values()):
        raise InvalidInputError("The selection is empty: there is nothing to report.")
    if n_rows != n:
        raise InvalidInputError(
            f"X has {n:,} rows, but the {'selection' if selections else 'screening'} was made from {n_rows:,}: "
            "give the rows it was made from."
        )
    return selections, screening
