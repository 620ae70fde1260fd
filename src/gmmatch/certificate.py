"""A bound on the number of mislabeled picks, from a random sample that a person has checked."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices
from gmmatch._checks import check_whole_number
from gmmatch.errors import InvalidInputError, listed
from gmmatch.review.decisions import RIGHT, UNSURE, WRONG, Decision, Decisions, read_decisions
from gmmatch.selection.selection import Selection


@dataclass(frozen=True, eq=False)
class CheckSample:
    """A sample of picks to check, in random order; what :func:`gmmatch.check_sample` returns.

    Attributes
    ----------
    rows : int64 array of shape (m,)
        Their row numbers.
    labels, ids : list
        Their labels, and the caller's ids (None where there are none).
    n_picks : int
        How many picks the sample is from.
    name : str
        What an answer file calls the sample: size, seed, and a hash of the picks.

    Examples
    --------
    >>> sample = check_sample(Selection([3, 0, 4, 1], n_rows=5, ids=["d", "a", "e", "b"]), 3)
    >>> len(sample), sample.n_picks, sample.name[:4]
    (3, 4, '3-0-')
    """

    rows: Indices
    labels: list[Any]
    ids: list[Any] | None
    n_picks: int
    name: str

    def __len__(self) -> int:
        return len(self.rows)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a table (CSV) to fill in, a line for each row with an empty answer: a file of decisions."""
        rows = zip(self.rows.tolist(), self.ids or [""] * len(self), self.labels, strict=True)
        Decisions(
            Decision(row, str(name), "" if label is None else str(label), "", sample=self.name)
            for row, name, label in rows
        ).write(path)


def check_sample(selection: Selection, n: int = 200, *, random_state: int = 0) -> CheckSample:
    """Draw a random sample of the picks for a person to check.

    Parameters
    ----------
    selection : Selection
        The picks; a row that was picked twice counts once.
    n : int
        How many to check; all of them if there are fewer.
    random_state : int
        Random seed.

    Returns
    -------
    CheckSample

    Examples
    --------
    >>> sample = check_sample(Selection([3, 0, 4, 1], n_rows=5), 4)
    >>> sorted(sample.rows.tolist())
    [0, 1, 3, 4]
    """
    check_whole_number(n, "n")
    check_whole_number(random_state, "random_state", 0)
    rows, first = np.unique(selection.indices, return_index=True)
    if not len(rows):
        raise InvalidInputError("The selection is empty: there is nothing to check.")
    drawn = np.random.default_rng([*b"certificate", random_state]).permutation(len(rows))[:n]
    picks = first[drawn]
    ids = None if selection.ids is None else selection.ids[picks].tolist()
    name = f"{len(drawn)}-{random_state}-{_hash_picks(selection)}"
    return CheckSample(rows[drawn], selection.labels[picks].tolist(), ids, len(rows), name)


@dataclass(frozen=True)
class Certificate:
    """A bound on the number of mislabeled picks; what :func:`gmmatch.certify` returns.

    Attributes
    ----------
    n_picks, n_checked, n_wrong, n_unsure : int
        How many picks there are, were checked, and were called wrong or unsure; unsure counts as wrong.
    most_wrong : int
        The largest number of mislabeled picks, with this confidence.
    confidence : float
        How often such a bound holds, over random samples.

    Examples
    --------
    >>> print(Certificate(5000, 200, 1, 0, 115, 0.95))
    At most 2.3% of the 5,000 picks are mislabeled, with 95% confidence (1 of 200 checked was wrong).
    """

    n_picks: int
    n_checked: int
    n_wrong: int
    n_unsure: int
    most_wrong: int
    confidence: float

    def __str__(self) -> str:
        share = np.ceil(1000.0 * self.most_wrong / self.n_picks) / 10.0  # never rounded down
        verb = "was" if self.n_wrong == 1 else "were"
        wrong = f"{self.n_wrong:,} of {self.n_checked:,} checked {verb} wrong"
        unsure = f", {self.n_unsure:,} were unsure and count as wrong" if self.n_unsure else ""
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
    >>> selection = Selection(np.arange(1000), n_rows=1000)
    >>> sample = check_sample(selection, 100)
    >>> print(certify(selection, {row: "right" for row in sample.rows.tolist()}, sample))
    At most 2.8% of the 1,000 picks are mislabeled, with 95% confidence (0 of 100 checked were wrong).
    """
    if not isinstance(confidence, (int, float)) or not 0.5 < confidence < 1.0:
        raise InvalidInputError(f"confidence={confidence!r}: expected a number from 0.5 to 1, such as 0.95.")
    if not isinstance(answers, Mapping):
        sample, answers = _read_answers(selection, answers)
    elif sample is None:
        raise InvalidInputError("sample is missing: give what check_sample returned for these answers.")
    elif _find_sample(selection, sample.name) is None:
        raise InvalidInputError("sample is of other picks: give what check_sample returned for these.")
    given = np.array([answers.get(row, "") for row in sample.rows.tolist()])
    _check_answers(given, sample)
    n_wrong, n_unsure = (int((given == answer).sum()) for answer in (WRONG, UNSURE))
    most = most_wrong(sample.n_picks, len(sample), n_wrong + n_unsure, confidence)
    return Certificate(sample.n_picks, len(sample), n_wrong, n_unsure, most, float(confidence))


def most_wrong(n_picks: int, n_checked: int, n_wrong: int, confidence: float = 0.95) -> int:
    """Return how many picks are wrong at most, with this confidence.

    The bound of Clopper and Pearson for a finite population: the largest number of wrong picks with which a sample
    would hold so few of them with a probability above 1 − confidence. It holds for any number of picks.

    Parameters
    ----------
    n_picks, n_checked, n_wrong : int
        How many there are, how many were checked, and how many of these are wrong.
    confidence : float

    Examples
    --------
    >>> most_wrong(5000, 200, 0), most_wrong(200, 200, 3)
    (72, 3)
    """
    from scipy.stats import hypergeom

    # The probability falls as more are wrong: search for the largest number by halves.
    low, high = n_wrong, n_picks - (n_checked - n_wrong)
    while low < high:
        middle = (low + high + 1) // 2
        possible = hypergeom.cdf(n_wrong, n_picks, middle, n_checked) > 1.0 - confidence
        low, high = (middle, high) if possible else (low, middle - 1)
    return low


def _find_sample(selection: Selection, name: str) -> CheckSample | None:
    """Return the sample of these picks that goes by a name; None for a name of no sample, or of other picks."""
    size, _, rest = name.partition("-")
    seed, _, picks = rest.partition("-")
    if not (size.isdigit() and seed.isdigit() and int(size) and picks == _hash_picks(selection)):
        return None
    return check_sample(selection, int(size), random_state=int(seed))


def _read_answers(selection: Selection, path: str | os.PathLike[str]) -> tuple[CheckSample, dict[int, str]]:
    """Return the sample that an answer file is about, and the answers by row."""
    decisions = list(read_decisions(path))
    names = {decision.sample for decision in decisions}
    sample = _find_sample(selection, names.pop()) if len(names) == 1 else None
    if not decisions:
        raise InvalidInputError(
            f"{path}: its rows have no answer; give what the page saved, or fill in the table."
        )
    if sample is None:
        raise InvalidInputError(
            f"{path} has answers about other picks, or its column 'sample' was changed: give the answers about these."
        )
    answers = {decision.row: decision.answer for decision in decisions}
    if others := set(answers) - set(sample.rows.tolist()):
        raise InvalidInputError(f"{path}: row {min(others)} is not one of the sample.")
    return sample, answers


def _check_answers(answers: NDArray[Any], sample: CheckSample) -> None:
    unknown = [
        answer for answer in dict.fromkeys(answers.tolist()) if answer not in (RIGHT, WRONG, UNSURE, "")
    ]
    if unknown:
        raise InvalidInputError(f"Answers are {RIGHT}, {WRONG} or {UNSURE}; got {listed(unknown)}.")
    unanswered = sample.rows[answers == ""]
    if len(unanswered):
        raise InvalidInputError(
            f"{len(unanswered):,} of the {len(sample):,} rows have no answer, such as {unanswered[0]}: answer all "
            "of them, as those that are easy to answer would prove nothing. 'unsure' counts as wrong."
        )


def _hash_picks(selection: Selection) -> str:
    """Return a name for the picks and their labels."""
    labels = [str(label) for label in selection.labels.tolist()]
    content = [selection.n_rows, selection.indices.tolist(), labels]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
