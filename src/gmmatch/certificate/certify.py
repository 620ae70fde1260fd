"""``certify``: from a person's answers to a bound on how many picks are mislabeled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gmmatch.certificate.bounds import Stratum, most_wrong
from gmmatch.certificate.sample import CheckSample, named_sample
from gmmatch.data.text_tables import csv_records
from gmmatch.errors import DataFileNotFoundError, InvalidInputError, listed
from gmmatch.files import csv_bytes, write_file
from gmmatch.selection.selection import Selection

COLUMNS = ("sample", "row", "id", "label", "answer")
RIGHT, WRONG, UNSURE = "right", "wrong", "unsure"


@dataclass(frozen=True)
class Certificate:
    """A bound on the number of mislabeled picks.

    Attributes
    ----------
    n_picks, n_checked, n_wrong, n_unsure : int
        How many picks there are, were checked, and were called wrong or unsure; unsure counts as wrong.
    most_wrong : int
        The largest number of mislabeled picks, with this confidence.
    confidence : float
        How often such a bound holds, over random samples.
    stratified : bool
        Whether the screening's probabilities were used.

    Examples
    --------
    >>> print(Certificate(5000, 200, 1, 0, 115, 0.95, False))
    At most 2.3% of the 5,000 picks are mislabeled, with 95% confidence (1 of 200 checked was wrong).
    """

    n_picks: int
    n_checked: int
    n_wrong: int
    n_unsure: int
    most_wrong: int
    confidence: float
    stratified: bool

    def __str__(self) -> str:
        share = np.ceil(1000.0 * self.most_wrong / self.n_picks) / 10.0  # never rounded down
        wrong = (
            f"{self.n_wrong:,} of {self.n_checked:,} checked {'was' if self.n_wrong == 1 else 'were'} wrong"
        )
        unsure = f", {self.n_unsure:,} could not be told and count as wrong" if self.n_unsure else ""
        return (
            f"At most {share:.1f}% of the {self.n_picks:,} picks are mislabeled, with "
            f"{100.0 * self.confidence:.4g}% confidence ({wrong}{unsure})."
        )

    def as_json(self) -> dict[str, Any]:
        """Return the numbers and the sentence, for a selection's provenance."""
        return {**asdict(self), "statement": str(self)}


def certify(
    selection: Selection,
    answers: Mapping[int, str] | str | os.PathLike[str],
    sample: CheckSample | None = None,
    *,
    confidence: float = 0.95,
) -> Certificate:
    """Bound how many picks are mislabeled, from answers about a random sample of them.

    Parameters
    ----------
    selection : Selection
        The picks.
    answers : mapping of row number to "right", "wrong" or "unsure", or the path of an answer file
        About each row of the sample.
    sample : CheckSample, optional
        What :func:`~gmmatch.check_sample` drew. An answer file names it itself.
    confidence : float
        Above 0.5 and below 1.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> from gmmatch.certificate.sample import check_sample
    >>> selection = Selection(np.arange(1000), n_rows=1000)
    >>> sample = check_sample(selection, 100)
    >>> print(certify(selection, {row: "right" for row in sample.rows.tolist()}, sample))
    At most 2.8% of the 1,000 picks are mislabeled, with 95% confidence (0 of 100 checked were wrong).
    """
    if not isinstance(confidence, (int, float)) or not 0.5 < confidence < 1.0:
        raise InvalidInputError(
            f"confidence={confidence!r}: expected a number above 0.5 and below 1, such as 0.95."
        )
    if not isinstance(answers, Mapping):
        sample, answers = read_answers(selection, answers)
    elif sample is None:
        raise InvalidInputError(
            "sample is missing: give what check_sample returned, of which these are the answers."
        )
    elif named_sample(selection, sample.name) is None:
        raise InvalidInputError("sample is of other picks: give what check_sample returned for these.")
    told = np.array([answers.get(row, "") for row in sample.rows.tolist()])
    _check_answers(told, sample)
    strata = [
        Stratum(size, int((sample.stratum == i).sum()), int((told[sample.stratum == i] != RIGHT).sum()))
        for i, size in enumerate(sample.sizes)
    ]
    return Certificate(
        n_picks=sum(sample.sizes),
        n_checked=len(sample),
        n_wrong=int((told == WRONG).sum()),
        n_unsure=int((told == UNSURE).sum()),
        most_wrong=most_wrong(strata, confidence),
        confidence=float(confidence),
        stratified=len(strata) > 1,
    )


def write_answers(sample: CheckSample, path: str | os.PathLike[str]) -> None:
    """Write a table to fill in: one line per row, with an empty answer."""
    ids = sample.ids or [""] * len(sample)
    rows = zip(sample.rows.tolist(), ids, sample.labels, strict=True)
    write_file(path, [csv_bytes([COLUMNS, *([sample.name, *row, ""] for row in rows)])])


def read_answers(selection: Selection, path: str | os.PathLike[str]) -> tuple[CheckSample, dict[int, str]]:
    """Return the sample that an answer file is about, and the answers by row."""
    file = Path(path)
    if not file.is_file():
        raise DataFileNotFoundError(f"answers={str(path)!r}: there is no such file.")
    records = csv_records(file)
    _, columns, _ = next(records, (0, [], ""))
    lines = {number: dict(zip(columns, cells, strict=False)) for number, cells, _ in records}
    for column in ("sample", "row", "answer"):
        if column not in columns:
            raise InvalidInputError(
                f"{path} has no column {column!r}: give the file that the page saved, or the table filled in."
            )
    names = {line.get("sample", "") for line in lines.values()}
    sample = named_sample(selection, names.pop()) if len(names) == 1 else None
    if sample is None:
        raise InvalidInputError(
            f"{path} has answers about other picks, or its column 'sample' was changed: give the answers about these."
        )
    answers: dict[int, str] = {}
    for number, line in lines.items():
        row, answer = line.get("row", "").strip(), line.get("answer", "").strip().lower()
        if not row.isdigit() or int(row) not in set(sample.rows.tolist()):
            raise InvalidInputError(f"{path}, line {number}: row {row!r} is not one of the sample.")
        if int(row) in answers:
            raise InvalidInputError(f"{path}, line {number}: row {row} is there twice.")
        answers[int(row)] = answer
    return sample, answers


def _check_answers(told: np.ndarray, sample: CheckSample) -> None:
    odd = [answer for answer in dict.fromkeys(told.tolist()) if answer not in (RIGHT, WRONG, UNSURE, "")]
    if odd:
        raise InvalidInputError(f"Answers are {RIGHT}, {WRONG} or {UNSURE}; got {listed(odd)}.")
    open_rows = sample.rows[told == ""]
    if len(open_rows):
        raise InvalidInputError(
            f"{len(open_rows):,} of the {len(sample):,} rows have no answer, row {open_rows[0]} for one: answer all, "
            "as those that are easy to answer would prove nothing. 'unsure' counts as wrong."
        )
