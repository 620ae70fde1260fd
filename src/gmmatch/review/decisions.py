"""Decisions: what a person said of single rows, as a file (CSV) with one line for each, and what follows from it."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Mask, to_numpy
from gmmatch._checks import warn_caller
from gmmatch.errors import DataFileNotFoundError, GMMatchWarning, InvalidInputError, listed
from gmmatch.files import csv_bytes, explain_failure, write_file
from gmmatch.frames import SHOWN, html_table
from gmmatch.groups import Groups, Label
from gmmatch.review.tools import read_answers, read_label_issues

RIGHT, WRONG, DUPLICATE, DROP, UNSURE = ANSWERS = ("right", "wrong", "duplicate", "drop", "unsure")
# A spreadsheet runs texts that begin like this; those that begin with a quote need one more, to be read as they were.
_GET_A_QUOTE = ("=", "+", "-", "@", "\t", "\r", "'")


@dataclass(frozen=True)
class Decision:
    """What a person said of a row: one line of a file of decisions.

    Attributes
    ----------
    row : int
        The row number, -1 if only the id is known.
    id : str
        The row's id; empty where rows have none.
    given : str
        The label that the person saw; empty if unknown.
    answer : "right", "wrong", "duplicate", "drop" or "unsure"
    label : str
        For "wrong", the right label; empty if it is unknown, so that the row is dropped.
    keep : str
        For "duplicate", the id (or row number) of the copy that stays in place of this row.
    sample : str
        The sample that the row was drawn for, where :func:`gmmatch.certify` asked.

    Examples
    --------
    >>> Decision(7, "cat/7.png", "cat", "wrong", "dog").key
    'cat/7.png'
    """

    row: int
    id: str
    given: str
    answer: str
    label: str = ""
    keep: str = ""
    sample: str = ""

    @property
    def key(self) -> str:
        """What the row goes by: its id, or its number."""
        return self.id or str(self.row)


COLUMNS = tuple(field.name for field in fields(Decision))


class Decisions:
    """Decisions by row, in the order in which they were made; the last word about a row counts.

    Parameters
    ----------
    decisions : iterable of Decision

    Examples
    --------
    >>> decisions = Decisions([Decision(0, "", "cat", "right"), Decision(2, "", "cat", "wrong", "dog")])
    >>> len(decisions), decisions.get("2").label, decisions.counts
    (2, 'dog', {'right': 1, 'wrong': 1})
    """

    def __init__(self, decisions: Iterable[Decision] = ()) -> None:
        self._by_key: dict[str, Decision] = {}
        for decision in decisions:
            self.add(decision)

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Decision]:
        return iter(self._by_key.values())

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {answer}" for answer, count in self.counts.items())
        return f"Decisions about {len(self):,} rows{counts and ': '}{counts}"

    def _repr_html_(self) -> str:
        lines = [[getattr(decision, name) for name in COLUMNS[:-1]] for decision in list(self)[-SHOWN:]]
        return html_table(repr(self), COLUMNS[:-1], lines, len(self))

    @property
    def counts(self) -> dict[str, int]:
        """How many rows have each answer that occurs."""
        answers = [decision.answer for decision in self]
        return {answer: answers.count(answer) for answer in ANSWERS if answer in answers}

    def get(self, key: str) -> Decision | None:
        """Return the decision about a row, by its id or number."""
        return self._by_key.get(key)

    def add(self, decision: Decision) -> None:
        """Add a decision, in place of an earlier one about the row."""
        self._by_key.pop(decision.key, None)
        self._by_key[decision.key] = decision

    def remove(self, key: str) -> None:
        """Forget what was said of a row."""
        self._by_key.pop(key, None)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a CSV file, whole or not at all."""
        lines = ([_quote(cell) for cell in vars(decision).values()] for decision in self)
        with explain_failure(Path(path)):
            write_file(path, csv_bytes([COLUMNS, *lines]))


def _quote(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_GET_A_QUOTE) else cell


def read_decisions(path: str | os.PathLike[str]) -> Decisions:
    """Read a file of decisions: what ``gmmatch review`` saved, the export of another tool, or a table of your own.

    Parameters
    ----------
    path
        A CSV file with the columns ``id`` or ``row``, ``answer`` and, for corrected labels, ``label``; also ``keep``
        for duplicates and ``given``, the label that was looked at. Or the answers to what ``gmmatch review --tool``
        wrote: JSON of Label Studio, Argilla or FiftyOne, or the lines filled in (``.jsonl``). Or cleanlab's table of
        label issues (CSV), which are dropped.

    Returns
    -------
    Decisions

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "d.csv").write_text("id,answer,label\\na.png,wrong,dog\\nb.png,right,\\n")
    ...     read_decisions(f"{folder}/d.csv")
    Decisions about 2 rows: 1 right, 1 wrong
    """
    is_export = Path(path).suffix.lower() in (".json", ".jsonl")
    lines, decisions = read_answers(path, _read_text(path)) if is_export else read_table(path), Decisions()
    if lines and "is_label_issue" in lines[0]:
        lines = read_label_issues(lines)
    for column in ("answer", "row" if lines and "id" not in lines[0] else "id"):
        if lines and column not in lines[0]:
            raise InvalidInputError(
                f"{path} has no column {column!r}: a table of decisions has id (or row), answer and label."
            )
    for number, line in enumerate(lines, 2):
        cells = {name: line.get(name) or "" for name in COLUMNS}
        row, answer = cells.pop("row").strip(), cells.pop("answer").strip().lower()
        if not answer:
            continue
        if answer not in ANSWERS:
            raise InvalidInputError(f"{path}, line {number}: answers are {listed(ANSWERS)}; got {answer!r}.")
        if not (row.isdecimal() or (cells["id"] and row in ("", "-1"))):
            raise InvalidInputError(f"{path}, line {number}: row {row!r} is no row number.")
        decision = Decision(int(row or -1), answer=answer, **cells)
        if decisions.get(decision.key) is not None:
            raise InvalidInputError(f"{path}, line {number}: row {decision.key} is there twice.")
        decisions.add(decision)
    return decisions


def read_table(path: str | os.PathLike[str]) -> list[dict[str, str]]:
    """Read a CSV file, with commas or, as some spreadsheets save it, with semicolons or tabs.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    list of dict
        The texts of each line by column.
    """
    text = _read_text(path)
    header = text.partition("\n")[0]
    delimiter = max(",;\t", key=header.count)
    lines = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    return [{name: _unquote(cell) for name, cell in line.items() if isinstance(cell, str)} for line in lines]


def _read_text(path: str | os.PathLike[str]) -> str:
    file = Path(path)
    if not file.is_file():
        raise DataFileNotFoundError(f"{file}: there is no such file.")
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInputError(f"{file} is not UTF-8 text: save it in UTF-8.") from None


def _unquote(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_GET_A_QUOTE) else cell


class Settled(NamedTuple):
    """What follows from decisions; what :func:`gmmatch.apply_decisions` returns.

    Attributes
    ----------
    labels : array of shape (n,), or None
        The labels, corrected where a person did so; None without labels.
    keep : boolean array of shape (n,)
        False for rows that must not be picked: dropped, copies of another row, or wrong without a right label.
    answers : object array of shape (n,), or None
        The right label of each row that a person has settled, NaN where all that is known is that the given one is
        wrong, None for the other rows: what ``gm.screen`` and ``gm.select`` take as ``answers``.
    decided : boolean array of shape (n,)
        Rows that a person has decided about, copies that stay in place of others included.
    """

    labels: NDArray[Any] | None
    keep: Mask
    answers: NDArray[Any] | None
    decided: Mask


def apply_decisions(X: Any, y: Any, decisions: Decisions | str | os.PathLike[str]) -> Settled:
    """Correct labels, and say which rows stay, by a person's decisions.

    Parameters
    ----------
    X : store, array of shape (n, s), or sequence of n ids
        The rows that the decisions are about: an open store, their ids, or, where rows go by their number, an array.
    y : array of shape (n,), optional
        The given labels; not modified.
    decisions : Decisions or path
        What :func:`gmmatch.read_decisions` takes or returns.

    Returns
    -------
    Settled
        ``labels``, ``keep``, ``answers`` and ``decided``.

    Examples
    --------
    >>> decisions = Decisions([Decision(-1, "b", "cat", "wrong", "dog"), Decision(-1, "c", "dog", "drop")])
    >>> settled = apply_decisions(["a", "b", "c"], ["cat", "cat", "dog"], decisions)
    >>> settled.labels.tolist(), settled.keep.tolist(), settled.answers.tolist()
    (['cat', 'dog', 'dog'], [True, True, False], [None, 'dog', None])
    """
    if not isinstance(decisions, Decisions):
        decisions = read_decisions(decisions)
    ids = X.ids if hasattr(X, "ids") else X if np.ndim(X) == 1 else None
    n = len(X)
    find = RowFinder(n, ids, y)
    keep, answers = np.ones(n, dtype=np.bool_), np.empty(n, dtype=object)
    decided = np.zeros(n, dtype=np.bool_)
    copies: dict[int, int] = {}
    missing = []
    for decision in decisions:
        row = find.row_of(decision)
        if row is None:
            missing.append(decision.key)
            continue
        answers[row] = find.settle(decision, row)
        decided[row] = decision.answer != UNSURE
        keep[row] = decision.answer in (RIGHT, UNSURE) or (decision.answer == WRONG and decision.label != "")
        if decision.answer == DUPLICATE and (stays := find.number(decision.keep)) is not None:
            copies[row] = stays
            decided[stays] = True
    if missing:
        _warn_missing(missing, len(decisions))
    _check_copies(copies, find)
    if find.names is None:
        return Settled(None, keep, None, decided)
    labels = to_numpy(y).reshape(-1)
    corrected = np.array(labels, dtype=labels.dtype if labels.dtype.kind in "iufb" else object)
    for row in np.flatnonzero(keep & decided).tolist():
        if answers[row] not in (None, find.label_of(row)):
            # A new label is written as y itself writes it: b"cat" stays bytes.
            corrected[row] = labels[find.first_row[answers[row]]]
    return Settled(corrected.astype(labels.dtype), keep, answers, decided)


class RowFinder:
    """Finds the rows that decisions are about, and the labels that these name.

    Parameters
    ----------
    n : int
        How many rows there are.
    ids : sequence of length n, optional
        Their ids; without, rows go by their number.
    y : array of shape (n,), optional
    """

    def __init__(self, n: int, ids: Any, y: Any) -> None:
        values = None if ids is None else ids.tolist() if hasattr(ids, "tolist") else list(ids)
        self.n = n
        self._rows = None if values is None else {str(value): row for row, value in enumerate(values)}
        if self._rows is not None and len(self._rows) < n:
            raise InvalidInputError("Several rows have the same id: decisions need an id for each.")
        self.names: list[Label] | None = None
        if y is None:
            return
        groups = Groups.of(y, n, warn=False)
        self._codes, self.names = groups.codes, groups.labels
        self._by_text = {str(label): label for label in groups.labels if label is not None}
        codes, rows = np.unique(groups.codes, return_index=True)
        self.first_row = {groups.labels[code]: row for code, row in zip(codes, rows, strict=True)}

    def number(self, key: str) -> int | None:
        """Return the row that goes by an id, or by a number where there are no ids."""
        if self._rows is not None:
            return self._rows.get(key)
        return int(key) if key.isdecimal() and int(key) < self.n else None

    def row_of(self, decision: Decision) -> int | None:
        """Return the row of a decision, None if it is not there; raise if other data are meant."""
        if self._rows is not None and decision.id:
            return self._rows.get(decision.id)
        row = decision.row
        if not 0 <= row < self.n:
            have = "no ids" if decision.id else f"numbers up to {self.n - 1}"
            raise InvalidInputError(
                f"The decisions are about row {decision.key}, but the rows have {have}: give the data that they were "
                "made for."
            )
        given = self.label_of(row)
        if decision.given and given is not None and str(given) not in (decision.given, decision.label):
            raise InvalidInputError(
                f"Row {row} is labeled {str(given)!r}, but was {decision.given!r} when it was decided about: give "
                "the data that the decisions were made for."
            )
        return row

    def label_of(self, row: int) -> Label:
        """Return the given label of a row."""
        return None if self.names is None or self._codes[row] < 0 else self.names[self._codes[row]]

    def settle(self, decision: Decision, row: int) -> Label:
        """Return the right label of a row by a decision: NaN if it is another one, None if nothing is said of it."""
        if self.names is None or decision.answer not in (RIGHT, WRONG):
            return None
        text = decision.given if decision.answer == RIGHT else decision.label
        if not text:
            return self.label_of(row) if decision.answer == RIGHT else np.nan
        if text not in self._by_text:
            raise InvalidInputError(
                f"The decision about row {decision.key} names the label {text!r}, which no row has: give one of "
                f"{listed(list(self._by_text), 5)}."
            )
        return self._by_text[text]


def _warn_missing(keys: list[str], n_decisions: int) -> None:
    """Warn of decisions about rows that are not there; raise if that is all of them."""
    message = f"{len(keys):,} of the {n_decisions:,} decisions are about rows that are not there, such as {keys[0]!r}"
    if len(keys) == n_decisions:
        raise InvalidInputError(f"{message}: give the data that they were made for.")
    warn_caller(GMMatchWarning(f"{message}."))


def _check_copies(copies: dict[int, int], find: RowFinder) -> None:
    """Raise if copies are said to stay in place of each other, so that none would."""
    for first in copies:
        row, passed = first, set[int]()
        while row in copies:
            passed.add(row)
            row = copies[row]
            if row in passed:
                raise InvalidInputError(
                    f"Of the copies of row {row} none would stay: each is said to be a duplicate of another."
                )
