"""What a page is about: the rows, what they and their classes are called, and what became of each of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Mask
from gmmatch._threads import cached_property
from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.frames import count_rows, take_rows
from gmmatch.groups import Groups, Label
from gmmatch.rows import Rows
from gmmatch.screening.result import ScreeningResult
from gmmatch.selection.selection import Selection

REST, PICKED, DOUBTFUL, WRONG = range(4)
"""What became of a row: the page's script knows the same numbers."""

NO_LABEL = "(no label)"
# Characters of a name that fit a table, and of an id that fit a line.
_NAME_LENGTH = 60
_ID_LENGTH = 72
# Controls, and halves of characters (from file names that are no UTF-8), which no file can hold.
_UNSHOWABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def shorten(value: object, length: int = _NAME_LENGTH, *, middle: bool = False) -> str:
    """Return a text of at most ``length`` characters on one line; ``middle`` cuts there, as is best for paths.

    Examples
    --------
    >>> shorten("one\\ntwo   three", 10), shorten("photos/cat/0012.png", 12, middle=True)
    ('one two t…', 'photo…12.png')
    """
    # Of a book only the beginning and the end are looked at.
    text = str(value)
    is_cut = len(text) > 4 * length
    if is_cut:
        text = text[: 2 * length] + text[-2 * length :] if middle else text[: 4 * length]
    text = " ".join(_UNSHOWABLE.sub("\ufffd", text).split())
    if len(text) <= length and not is_cut:
        return text
    head = (length - 1) // 2 if middle else length - 1
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :] if middle else ''}"


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> count_of(1, "row"), count_of(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@dataclass(frozen=True, eq=False)
class Classes:
    """The class of each row, by the labels that were given.

    Attributes
    ----------
    labels : list of length C
        None for rows without a label.
    names : list of str
        What the page calls them.
    codes : int64 array of shape (n,)
        The class of each row.
    is_known : bool
        Whether there are labels; without, all rows are one class.

    Examples
    --------
    >>> classes = Classes.of([1, 0, 1], 3, class_names=["cat", "dog"])
    >>> classes.names, classes.codes
    (['cat', 'dog'], array([1, 0, 1]))
    """

    labels: list[Label]
    names: list[str]
    codes: Indices
    is_known: bool

    @classmethod
    def of(cls, y: Any, n: int, class_names: Any = None) -> Classes:
        """Return the classes; ``class_names`` maps labels to names, or lists them by integer label."""
        groups = Groups.of(y, n, unlabeled="group")
        if y is None:
            return cls([None], ["all rows"], groups.codes, False)
        if isinstance(class_names, (str, bytes)) or not isinstance(class_names, Iterable | None):
            kind = type(class_names).__name__
            raise InvalidTypeError(f"class_names has type {kind}: give label to name, or a list.")
        if not isinstance(class_names, Mapping):
            class_names = dict(enumerate(class_names or ()))
        names = [shorten(_class_name(label, class_names)) for label in groups.labels]
        return cls(groups.labels, names, groups.codes, True)

    def __len__(self) -> int:
        return len(self.labels)

    def count(self, rows: Any = slice(None)) -> list[int]:
        """Return how many of these rows each class has."""
        return [int(count) for count in np.bincount(self.codes[rows], minlength=len(self))]

    def find(self, labels: Any) -> Indices:
        """Return the class that each of some labels names, -1 for none."""
        numbers = {label: number for number, label in enumerate(self.labels) if label is not None}
        values = labels.tolist() if hasattr(labels, "tolist") else list(labels)
        return np.array([numbers.get(value, -1) for value in values], dtype=np.int64)


def _class_name(label: Label, class_names: Mapping[Any, Any]) -> str:
    return NO_LABEL if label is None else str(class_names.get(label, label))


class RowNames:
    """The ids of rows: given for all of them, from a function of row numbers, or those that the selections know.

    Examples
    --------
    >>> names = RowNames(["a", "b", "c"], 3)
    >>> names.ids(np.array([2, 0])), RowNames(None, 3).ids(np.array([1]))
    (['c', 'a'], [None])
    """

    def __init__(self, ids: Any, n: int, selections: Sequence[Selection] = ()) -> None:
        if ids is not None and not callable(ids) and count_rows(ids) != n:
            raise InvalidInputError(f"ids has {count_rows(ids):,} entries for {n:,} rows: give one for each.")
        self._given = ids
        self._picked = {
            row: value
            for selection in selections
            if selection.order_ids is not None
            for row, value in zip(selection.order.tolist(), selection.order_ids.tolist(), strict=True)
        }

    def ids(self, rows: Indices) -> list[Any]:
        """Return the ids of these rows; None where an id is no more than the row number."""
        if self._given is None:
            values = [self._picked.get(row) for row in rows.tolist()]
        else:
            taken = self._given(rows) if callable(self._given) else take_rows(self._given, rows)
            values = taken.tolist() if hasattr(taken, "tolist") else list(taken)
        return [None if value == row else value for row, value in zip(rows.tolist(), values, strict=True)]

    def short(self, rows: Indices, length: int = _ID_LENGTH) -> list[str]:
        """Return what the page calls these rows."""
        pairs = zip(rows.tolist(), self.ids(rows), strict=True)
        return [f"row {row}" if name is None else shorten(name, length, middle=True) for row, name in pairs]


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
    if isinstance(subject, Selection):
        subject = {str(subject.provenance.get("method") or "selection"): subject}
    selections: dict[str, Selection] = {}
    screening: ScreeningResult | None = None
    if isinstance(subject, ScreeningResult):
        screening, lengths = subject, {len(subject)}
    elif isinstance(subject, Mapping) and all(isinstance(value, Selection) for value in subject.values()):
        selections = {str(name): selection for name, selection in subject.items()}
        screening = next((s.screening for s in selections.values() if s.screening is not None), None)
        lengths = {selection.n_rows for selection in selections.values()}
    else:
        kind = type(subject).__name__
        raise InvalidTypeError(
            f"subject has type {kind}: give a Selection, several in a dict, or a ScreeningResult."
        )
    if screening is None and not any(len(selection.order) for selection in selections.values()):
        raise InvalidInputError("The selection is empty: there is nothing to report.")
    if lengths - {n}:
        kind = "selection" if selections else "screening"
        raise InvalidInputError(
            f"X has {n:,} rows, but the {kind} was made from {max(lengths - {n}):,}: give the rows it was made from."
        )
    return selections, screening
