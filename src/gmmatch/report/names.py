"""What a page calls things: the classes, the rows, and any text cut to what a page can show."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.rows.taking import count_rows, take_rows
from gmmatch.selection.labels import Label, group_rows
from gmmatch.selection.selection import Selection
from gmmatch.types import Indices

LONGEST_NAME = 60
"""Characters of a class's name that a page shows."""

# Controls, and halves of characters (they come from file names that are no UTF-8), which no file can hold.
_UNSHOWABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def shown(value: object, longest: int, *, middle: bool = False) -> str:
    """Return a text of at most ``longest`` characters, on one line; ``middle`` cuts there, as is best for paths.

    Examples
    --------
    >>> shown("one\\ntwo   three", 10), shown("photos/cat/0012.png", 12, middle=True)
    ('one two t…', 'photo…12.png')
    """
    # Of a book only the beginning and the end are looked at.
    text = str(value)
    cut = len(text) > 4 * longest
    if cut:
        text = text[: 2 * longest] + text[-2 * longest :] if middle else text[: 4 * longest]
    text = " ".join(_UNSHOWABLE.sub("\ufffd", text).split())
    if len(text) <= longest and not cut:
        return text
    head = (longest - 1) // 2 if middle else longest - 1
    return f"{text[:head]}…{text[len(text) - (longest - 1 - head) :] if middle else ''}"


NO_LABEL = "(no label)"
ALL_ROWS = "all rows"


@dataclass(frozen=True, eq=False)
class Classes:
    """Which class each row is of.

    Examples
    --------
    >>> classes = classes_of(["dog", "cat", None], 3)
    >>> classes.names, classes.of_row
    (['cat', 'dog', '(no label)'], array([1, 0, 2]))
    """

    labels: list[Label]  # as the selection has them; None for rows without a label
    names: list[str]
    of_row: Indices  # the position of each row's class
    known: bool  # without labels, all rows are one class

    def __len__(self) -> int:
        return len(self.names)

    def positions_of(self, labels: Any) -> Indices:
        """Return the position of each row's class by other labels; -1 where that is none of these classes.

        1, 1.0 and True are different labels.

        Examples
        --------
        >>> classes_of(["cat", "dog"], 2).positions_of(["dog", "owl"])
        array([ 1, -1])
        """
        other = classes_of(labels, len(self.of_row))
        known = {(type(label), label): position for position, label in enumerate(self.labels)}
        positions = [known.get((type(label), label), -1) for label in other.labels]
        return np.array(positions, dtype=np.int64)[other.of_row]


def classes_of(y: Any, n: int, class_names: Any = None) -> Classes:
    """Return the classes that labels make; ``class_names`` maps labels to names, or lists them by integer label.

    Examples
    --------
    >>> classes_of([1, 0, 1], 3, class_names=["cat", "dog"]).names
    ['cat', 'dog']
    >>> classes_of(None, 2).names
    ['all rows']
    """
    groups = group_rows(y, n=n, unlabeled="group")
    of_row, labels = groups.codes(n), groups.labels
    if y is None:
        return Classes(labels, [ALL_ROWS], of_row, known=False)
    return Classes(labels, [_name(label, class_names) for label in labels], of_row, known=True)


def _name(label: Label, class_names: Any) -> str:
    if label is None:
        return NO_LABEL
    if class_names is None:
        return str(label)
    if isinstance(class_names, Mapping):
        return str(class_names.get(label, label))
    if isinstance(class_names, (str, bytes)) or not isinstance(class_names, (Sequence, np.ndarray)):
        raise InvalidTypeError(
            f"class_names has type {type(class_names).__name__}: give a mapping of label to name, or a list."
        )
    if not isinstance(label, int) or not 0 <= label < len(class_names):
        raise InvalidInputError(
            f"class_names is a list of {len(class_names)} names, and the label {label!r} is no position in it: "
            "give a mapping of label to name."
        )
    return str(class_names[label])


LONGEST = 72


class RowNames:
    """The ids of rows: one per row, or from a function of row numbers, or those that the selections know.

    Examples
    --------
    >>> RowNames(["a", "b", "c"], [], 3).of(np.array([2, 0]))
    ['c', 'a']
    >>> RowNames(None, [Selection([1], n_rows=3, ids=["b"])], 3).of(np.array([0, 1]))
    [None, 'b']
    """

    def __init__(self, ids: Any, selections: list[Selection], n: int) -> None:
        self._look_up: Callable[[Indices], Any] | None = None
        if callable(ids):
            self._look_up = ids
        elif ids is not None:
            found = count_rows(ids)
            if found != n:
                raise InvalidInputError(f"ids has {found:,} entries for {n:,} rows: give one for each.")
            self._look_up = lambda rows: take_rows(ids, rows)
        self._known: dict[int, Any] = {}
        for selection in selections:
            if selection.order_ids is not None:
                pairs = zip(selection.order.tolist(), selection.order_ids.tolist(), strict=True)
                self._known.update(pairs)

    def look_up(self, rows: Indices) -> None:
        """Find the ids of many rows at once, which may mean reading files."""
        wanted = np.array([row for row in np.unique(rows).tolist() if row not in self._known], dtype=np.int64)
        if self._look_up is None or not len(wanted):
            return
        found = self._look_up(wanted)
        if found is None:
            self._look_up = None  # ids are no more than row numbers
            return
        values = found.tolist() if hasattr(found, "tolist") else list(found)
        self._known.update(zip(wanted.tolist(), values, strict=True))

    def of(self, rows: Indices, longest: int = LONGEST) -> list[str | None]:
        """Return what to call these rows; None where there is no more to say than the row number."""
        return [None if value is None else shown(value, longest, middle=True) for value in self.ids(rows)]

    def ids(self, rows: Indices) -> list[Any]:
        """Return the ids of these rows as they are; None where an id is no more than the row number."""
        self.look_up(rows)
        return [None if (value := self._known.get(row)) == row else value for row in rows.tolist()]
