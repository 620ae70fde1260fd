"""``budget_curve``: what a selection is worth at several sizes, from one selection per method."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gmmatch.curve.figures import Measures
from gmmatch.curve.probe import FOLDS, TestSet, accuracies
from gmmatch.errors import InvalidInputError
from gmmatch.rows.checks import check_pair, check_rows, check_whole_number
from gmmatch.rows.parallel import resolve_jobs
from gmmatch.rows.rows import Rows
from gmmatch.selection.budget import Budget, resolve_count
from gmmatch.selection.labels import Groups, group_rows
from gmmatch.selection.selection import Selection
from gmmatch.selectors.registry import DEFAULT_METHOD
from gmmatch.types import Indices, Vector

SIZES = ("1%", "2%", "5%", "10%", "20%", "50%")
# Sizes within so much of the largest one's accuracy are as good.
_POINT = 0.01


@dataclass(frozen=True)
class CurvePoint:
    """What is known of a method's first ``k`` picks; None for what is not.

    Attributes
    ----------
    moment_error, mmd, coverage_mean, coverage_max
        As in :class:`gmmatch.yardsticks.Figures`, of samples; less is better. The MMD is that of 256 random features.
    mislabeled
        The expected number of mislabeled picks, if the method screens labels.
    accuracy, low, high
        Of a linear probe on rows that it has not seen, and a 95% interval.
    """

    method: str
    k: int
    moment_error: float
    mmd: float
    coverage_mean: float
    coverage_max: float
    mislabeled: float | None = None
    accuracy: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class BudgetCurve:
    """Figures of selections at several sizes; what :func:`budget_curve` returns.

    Attributes
    ----------
    points
        One for each method and size, in ascending order of sizes.
    n_rows
        How many rows were picked from.
    judged_by
        What the accuracy is measured on.

    Examples
    --------
    >>> small = CurvePoint("easy", 10, 0.2, 0.1, 1.0, 3.0, accuracy=0.9)
    >>> large = CurvePoint("easy", 50, 0.1, 0.1, 1.0, 3.0, accuracy=0.905)
    >>> BudgetCurve((small, large), 100, "20 test rows").sentence
    'easy: 10 rows (10% of all) are at most one point below 50: 90.0% against 90.5%.'
    """

    points: tuple[CurvePoint, ...]
    n_rows: int
    judged_by: str

    @property
    def methods(self) -> list[str]:
        """The methods, in the order they were asked for."""
        return list(dict.fromkeys(point.method for point in self.points))

    def of(self, method: str) -> list[CurvePoint]:
        """Return the points of one method."""
        return [point for point in self.points if point.method == method]

    def enough(self, method: str) -> CurvePoint | None:
        """Return the smallest size whose accuracy is within one point of the largest one's."""
        own = self.of(method)
        if own[-1].accuracy is None:
            return None
        return next(
            one for one in own if one.accuracy is not None and one.accuracy >= own[-1].accuracy - _POINT
        )

    @property
    def sentence(self) -> str:
        """What to learn from the curve, a sentence for each method."""
        said = []
        for method in self.methods:
            last, best = self.of(method)[-1], self.enough(method)
            if best is None or best.accuracy is None or last.accuracy is None:
                said.append(
                    f"{method}: without labels of two classes there is no accuracy to compare sizes by."
                )
            elif best is last:
                said.append(
                    f"{method}: no smaller size is within one point of {last.k:,} rows ({last.accuracy:.1%})."
                )
            else:
                said.append(
                    f"{method}: {best.k:,} rows ({100 * best.k / self.n_rows:.3g}% of all) are at most one point "
                    f"below {last.k:,}: {best.accuracy:.1%} against {last.accuracy:.1%}."
                )
        return " ".join(said)

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        points = [asdict(point) for point in self.points]
        return {
            "n_rows": self.n_rows, "judged_by": self.judged_by, "sentence": self.sentence, "points": points,
        }  # fmt: skip

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the curves and their table as a page, one ``.html`` file."""
        from gmmatch.report.curve_page import write_curve

        write_curve(self, path)


def budget_curve(
    X: Any,
    y: Any = None,
    *,
    sizes: Budget | Sequence[Budget] = SIZES,
    methods: str | Sequence[str] = DEFAULT_METHOD,
    test: tuple[Any, Any] | None = None,
    repeats: int = 5,
    random_state: int = 0,
    n_jobs: int | None = -1,
    **options: Any,
) -> BudgetCurve:
    """Measure selections of several sizes: how well they match, and how well a model learns from them.

    One selection is made for each method; its first picks are the smaller ones.

    Parameters
    ----------
    X : array of shape (n, s)
        The rows (embeddings).
    y : array of shape (n,), optional
        Labels. Without labels there is no accuracy.
    sizes : counts or shares of the rows
        Where to measure. Shares are of the rows that can be picked, as in :func:`~gmmatch.select`.
    methods : str or list of str
        See :func:`~gmmatch.methods`.
    test : pair of an array of shape (m, s) and its labels, optional
        Rows to measure the accuracy on, by a probe trained on the picks. By default it is measured on rows of ``X``:
        each repeat judges a random tenth of them, picks among these by a probe that was trained without them.
    repeats : int
        How many tenths are judged, at most 10. The interval is Student's over the repeats; with ``test``, binomial.
    random_state : int
        Random seed.
    n_jobs : int or None
        Threads.
    **options
        Of the methods, as in :func:`~gmmatch.select`.

    Returns
    -------
    BudgetCurve

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(400) % 2
    >>> X = 3.0 * y[:, None] + rng.standard_normal((400, 4))
    >>> curve = budget_curve(X, y, sizes=[20, "50%"], methods="herding")
    >>> [(point.k, point.accuracy > 0.95) for point in curve.points]
    [(20, True), (200, True)]
    """
    from gmmatch.selectors.registry import select

    check_whole_number(repeats, "repeats")
    if repeats > FOLDS:
        raise InvalidInputError(
            f"repeats={repeats}: each judges another tenth of the rows; give at most {FOLDS}."
        )
    threads = resolve_jobs(n_jobs)
    rows = check_rows(X, threads=threads)
    codes, labels = _codes(y, len(rows))
    by_label = options.get("per_class", "proportional") is not None and options.get("unlabeled") != "group"
    n, unit = (int((codes >= 0).sum()), "rows with a label") if by_label else (len(rows), "rows")
    asked = [sizes] if isinstance(sizes, (str, int, float)) else sizes
    counts = np.unique([resolve_count(size, n, name="sizes", unit=unit) for size in asked]).astype(np.int64)
    names = [methods] if isinstance(methods, str) else list(dict.fromkeys(methods))
    if not len(counts) or not names:
        raise InvalidInputError("sizes and methods: give at least one of each.")
    if "k" in options:
        raise InvalidInputError("k: the sizes say how many rows are picked; pass sizes= instead.")
    judged = None if test is None else _test_set(rows, labels, test, threads)
    probed = len(labels) > 1
    measures, points = Measures(rows, np.maximum(codes, 0) if not probed else codes, random_state), []
    for name in names:
        found = select(
            rows, y=y, k=int(counts[-1]), method=name, random_state=random_state, n_jobs=n_jobs, **options
        )
        accuracy = None
        if probed:
            accuracy = accuracies(
                rows, codes, found.order, counts, repeats=repeats, test=judged,
                random=np.random.default_rng(random_state), threads=threads,
            )  # fmt: skip
        points += _points(name, found, counts, measures.along(found.order, counts), accuracy, judged)
    return BudgetCurve(tuple(points), len(rows), _judged_by(probed, judged, repeats))


def _codes(y: Any, n: int) -> tuple[Indices, list[Any]]:
    """Return the number of each row's class, -1 without a label, and the labels."""
    if y is None:
        return np.zeros(n, dtype=np.int64), []
    groups = Groups.of([one for one in group_rows(y, n=n, unlabeled="group") if one.label is not None])
    return groups.codes(n), groups.labels


def _test_set(rows: Rows, labels: list[Any], test: tuple[Any, Any], threads: int) -> TestSet:
    if not isinstance(test, (tuple, list)) or len(test) != 2:
        raise InvalidInputError("test: give a pair of rows and their labels, (X_test, y_test).")
    if len(labels) < 2:
        raise InvalidInputError(
            "test= measures the accuracy of a probe, which needs y with two classes or more."
        )
    _, seen = check_pair(rows, test[0], ("X", "test"), threads)
    codes, others = _codes(test[1], len(seen))
    place = {(type(label), label): number for number, label in enumerate(labels)}
    known = np.array([place.get((type(label), label), -1) for label in others] + [-1])
    if not (known >= 0).any():
        raise InvalidInputError(
            f"test has labels such as {others[:1]}, and none of them is among those of y."
        )
    labeled = np.flatnonzero(codes >= 0)
    return TestSet(seen.subset(labeled), known[codes[labeled]])


def _points(
    method: str,
    found: Selection,
    sizes: Indices,
    along: dict[str, Vector],
    accuracy: Vector | None,
    test: TestSet | None,
) -> list[CurvePoint]:
    wrong = None
    if found.screening is not None and found.screening.noise_rate is not None:
        wrong = np.cumsum(found.screening.probability[found.order])[sizes - 1]
    points = []
    for number, size in enumerate(sizes.tolist()):
        known: dict[str, Any] = {name: float(values[number]) for name, values in along.items()}
        if wrong is not None:
            known["mislabeled"] = float(wrong[number])
        if accuracy is not None:
            known |= _interval(accuracy[:, number], None if test is None else len(test.codes))
        points.append(CurvePoint(method, size, **known))
    return points


def _interval(values: Vector, n_test: int | None) -> dict[str, float | None]:
    """Return the accuracy and its interval: over the repeats, or by the number of test rows."""
    from scipy.stats import t

    mean = float(values.mean())
    if n_test is not None:
        half = 1.96 * float(np.sqrt(mean * (1.0 - mean) / n_test))
    elif len(values) > 1:
        half = float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    else:
        return {"accuracy": mean}
    return {"accuracy": mean, "low": max(0.0, mean - half), "high": min(1.0, mean + half)}


def _judged_by(probed: bool, test: TestSet | None, repeats: int) -> str:
    if not probed:
        return "nothing: there are no labels of two classes or more"
    if test is not None:
        return f"{len(test.codes):,} test rows"
    return f"rows of the data that the probe has not seen, {repeats} repeats"
