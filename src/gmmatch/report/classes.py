"""The classes of the rows as a page speaks of them: a name each, and a number for every row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.selection.labels import Label, group_rows
from gmmatch.types import Indices

NO_LABEL = "(no label)"
ALL_ROWS = "all rows"


@dataclass(frozen=True, eq=False)
class Classes:
    """Which class each row is of.

    Attributes
    ----------
    labels
        One per class, as the selection has them; None stands for rows without a label.
    names
        What to call each class.
    of_row
        The position of each row's class, shape (n,).
    known
        Whether there are labels; without, all rows are one class.

    Examples
    --------
    >>> classes = classes_of(["dog", "cat", None], 3)
    >>> classes.names, classes.of_row
    (['cat', 'dog', '(no label)'], array([1, 0, 2]))
    """

    labels: list[Label]
    names: list[str]
    of_row: Indices
    known: bool

    def __len__(self) -> int:
        return len(self.names)

    def position(self, label: Label) -> int | None:
        """Return the position of a label; 1, 1.0 and True are different ones."""
        kinds = [(type(one), one) for one in self.labels]
        return kinds.index((type(label), label)) if (type(label), label) in kinds else None


def classes_of(y: Any, n: int, class_names: Any = None) -> Classes:
    """Return the classes that labels make.

    Parameters
    ----------
    y : array of shape (n,), optional
        Labels; without, all rows are one class.
    n
        How many rows there are.
    class_names : mapping of label to name, or sequence of names by integer label, optional
        What to call the classes; by default what their labels say.

    Returns
    -------
    Classes

    Examples
    --------
    >>> classes_of([1, 0, 1], 3, class_names=["cat", "dog"]).names
    ['cat', 'dog']
    >>> classes_of(None, 2).names
    ['all rows']
    """
    groups = group_rows(y, n=n, unlabeled="group")
    of_row = np.zeros(n, dtype=np.int64)
    for number, group in enumerate(groups):
        of_row[group.rows] = number
    labels = [group.label for group in groups]
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
