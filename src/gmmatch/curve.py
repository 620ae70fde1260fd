"""``budget_curve``: what the first picks of a selection are worth at several sizes, against random rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Mask, Matrix, Vector, sample_indices
from gmmatch._checks import check_columns, check_whole_number
from gmmatch._threads import blas_threads_for
from gmmatch.budget import Budget, resolve_count
from gmmatch.errors import InvalidInputError, imported
from gmmatch.frames import Package, as_frame, html_table
from gmmatch.groups import Groups
from gmmatch.metrics import SubsetMetrics
from gmmatch.rows import Rows, open_rows
from gmmatch.rows.open import per_row_values
from gmmatch.selection.selection import Selection

RANDOM = "random"
# Sizes that are measured by default, and the smallest of them as a share of the picks.
_SIZES, _SMALLEST = 7, 0.02
# Each repeat holds out one of so many parts of the rows, and judges by at most so many of them.
_FOLDS, _JUDGED = 10, 10_000
# Wider rows are projected to their principal components, computed from so many rows, before the probe is trained.
_COMPONENTS, _SAMPLE = 128, 5_000
# MMD and coverage are those of samples: curves are compared with each other, and need no more.
_MMD_ROWS, _COVERAGE_ROWS = 2_000, 500
# Sizes within one point of the largest are as good.
_POINT = 0.01


@dataclass(frozen=True)
class CurvePoint:
    """What is known of a method's first ``k`` picks; None for what is not.

    Attributes
    ----------
    moment_error, mmd, coverage_mean, coverage_max
        As in :class:`gmmatch.metrics.Metrics`, of samples; less is better.
    mislabeled
        The expected number of mislabeled picks, if rows were screened.
    accuracy, low, high
        Of a linear probe on held-out rows, and a 95% interval.
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


@dataclass(frozen=True, repr=False)
class BudgetCurve:
    """Figures of selections at several sizes; what :func:`budget_curve` returns.

    Attributes
    ----------
    points : tuple of CurvePoint
        One for each method and size, in ascending order of sizes.
    n_rows : int
        How many rows were picked from.
    judged_by : str
        What the accuracy is measured on.

    Examples
    --------
    >>> small, large = (CurvePoint("easy", k, 0.1, 0.1, 1.0, 3.0, accuracy=a) for k, a in ((10, 0.9), (50, 0.905)))
    >>> chance = CurvePoint("random", 50, 0.1, 0.1, 1.0, 3.0, accuracy=0.85)
    >>> BudgetCurve((small, large, chance), 100, "20 test rows").sentence
    '10 easy picks beat 50 random ones (90.0% against 85.0%); accuracy hardly rises after 10.'
    """

    points: tuple[CurvePoint, ...]
    n_rows: int
    judged_by: str

    @property
    def methods(self) -> list[str]:
        """The methods, random rows last."""
        return list(dict.fromkeys(point.method for point in self.points))

    def of(self, method: str) -> list[CurvePoint]:
        """Return the points of one method."""
        return [point for point in self.points if point.method == method]

    def enough(self, method: str) -> CurvePoint | None:
        """Return the smallest size whose accuracy is within one point of the largest one's."""
        points = [point for point in self.of(method) if point.accuracy is not None]
        return next((p for p in points if _accuracy(p) >= _accuracy(points[-1]) - _POINT), None)

    @property
    def sentence(self) -> str:
        """What to learn from the curve, a sentence for each method."""
        names = [name for name in self.methods if name != RANDOM] or [RANDOM]
        return " ".join(self._tell(name) for name in names)

    def _tell(self, method: str) -> str:
        enough, last = self.enough(method), self.of(method)[-1]
        if enough is None:
            return f"{method}: there is no accuracy, which takes labels of two classes and ten rows."
        rises = f"accuracy still rises at {last.k:,}"
        if enough is not last:
            rises = f"accuracy hardly rises after {enough.k:,}"
        chance = self.of(RANDOM)[-1] if method != RANDOM and RANDOM in self.methods else None
        if chance is None or chance.accuracy is None:
            return f"{last.k:,} {method} picks reach {last.accuracy:.1%}; {rises}."
        least = chance.accuracy
        verb, point = "do not reach", last
        for words, bar in (("match", least - _POINT), ("beat", least + _POINT)):
            reached = next((p for p in self.of(method) if _accuracy(p) >= bar), None)
            if reached is not None:
                verb, point = words, reached
        percentages = f"{point.accuracy:.1%} against {least:.1%}"
        return f"{point.k:,} {method} picks {verb} {chance.k:,} random ones ({percentages}); {rises}."

    def __repr__(self) -> str:
        return f"BudgetCurve of {', '.join(self.methods)}: {self.sentence}"

    def _repr_html_(self) -> str:
        lines = [
            (p.method, f"{p.k:,}", "" if p.accuracy is None else f"{p.accuracy:.1%}") for p in self.points
        ]
        return html_table(self.sentence, ["method", "picks", "accuracy"], lines)

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        points = [asdict(point) for point in self.points]
        return {
            "n_rows": self.n_rows, "judged_by": self.judged_by, "sentence": self.sentence, "points": points,
        }  # fmt: skip

    def to_frame(self, package: Package = "pandas") -> Any:
        """Return a table with a line for each method and size.

        Parameters
        ----------
        package : "pandas", "polars" or "pyarrow"
        """
        import pyarrow as pa

        names = [field.name for field in fields(CurvePoint)]
        return as_frame(pa.table({name: [getattr(p, name) for p in self.points] for name in names}), package)

    def figure(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw accuracy, or MMD where there are no labels, against the number of picks.

        Parameters
        ----------
        path : path, optional
            A file to write, such as ``curve.png`` or ``curve.pdf``.

        Returns
        -------
        matplotlib.figure.Figure
        """
        module = imported("matplotlib.figure", "A figure needs Matplotlib", "report")
        figure = module.Figure(figsize=(6.4, 4.0), layout="constrained")
        axes = figure.subplots()
        has_accuracy = any(point.accuracy is not None for point in self.points)
        for method in self.methods:
            points = self.of(method)
            sizes = [point.k for point in points]
            axes.plot(sizes, [p.accuracy if has_accuracy else p.mmd for p in points], "o-", label=method)
            if has_accuracy and all(point.low is not None for point in points):
                axes.fill_between(sizes, [p.low for p in points], [p.high for p in points], alpha=0.2)
        axes.set(xlabel="picks", xscale="log", ylabel="accuracy of a linear probe" if has_accuracy else "MMD")
        axes.set_xticks(sizes, [f"{k:,}" for k in sizes])
        axes.minorticks_off()
        axes.legend()
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure


def _accuracy(point: CurvePoint) -> float:
    return -1.0 if point.accuracy is None else point.accuracy


def budget_curve(
    selection: Selection | Mapping[str, Selection],
    X: Any,
    y: Any = None,
    *,
    sizes: Budget | Sequence[Budget] | None = None,
    test: tuple[Any, Any] | None = None,
    repeats: int = 5,
    random_state: int = 0,
    engine: Any = None,
    memory_limit: int | None = None,
    n_jobs: int | None = None,
) -> BudgetCurve:
    """Measure the first picks of selections: how well they match, and how well a model learns from them.

    Random rows are measured as well. The accuracy is that of scikit-learn's logistic regression on rows that it was
    not trained on, and whose labels can be trusted, if a selection was screened: each repeat holds out a random tenth
    of the rows.

    Parameters
    ----------
    selection : Selection, or mapping of names to selections
    X, y
        The rows and labels that it was made from. Without labels there is no accuracy.
    sizes : counts or shares of the rows, optional
        Where to measure; seven sizes up to that of the smallest selection by default.
    test : pair of an array of shape (m, s) and its labels, optional
        Rows to judge by instead.
    repeats : int
        How many tenths are held out, at most 10. The interval is Student's over the repeats; with ``test``, binomial.
    random_state : int
        Random seed.
    engine, memory_limit, n_jobs
        How it runs; see :func:`~gmmatch.open_rows`.

    Returns
    -------
    BudgetCurve

    Examples
    --------
    >>> from gmmatch import select
    >>> y = np.arange(400) % 2
    >>> X = 3.0 * y[:, None] + np.random.default_rng(0).standard_normal((400, 4))
    >>> curve = budget_curve(select(X, y, k=200, method="herding"), X, y, sizes=[20, "50%"], repeats=2)
    >>> [(point.k, point.accuracy > 0.95) for point in curve.of("herding")]
    [(20, True), (200, True)]
    """
    check_whole_number(repeats, "repeats")
    if repeats > _FOLDS:
        raise InvalidInputError(f"repeats={repeats}: each holds out another tenth; give at most {_FOLDS}.")
    if isinstance(selection, Mapping):
        selections = dict(selection)
    else:
        selections = {str(selection.provenance.get("method", "selection")): selection}
    if not selections:
        raise InvalidInputError("selection is empty: give at least one selection.")
    y = per_row_values(X, y, "labels")
    with open_rows(X, engine=engine, memory_limit=memory_limit, n_jobs=n_jobs) as rows:
        for name, other in selections.items():
            if other.n_rows != len(rows):
                raise InvalidInputError(f"{name} was made from {other.n_rows:,} rows, X has {len(rows):,}.")
        groups = Groups.of(y, len(rows), warn=False)
        counts = _resolve_sizes(sizes, selections, len(rows))
        trusted = next((s.screening.trusted for s in selections.values() if s.screening is not None), None)
        held_out = np.flatnonzero((groups.codes >= 0) & (True if trusted is None else trusted))
        probed = len(groups) > 1 and (test is not None or len(held_out) >= _FOLDS)
        if test is not None and not probed:
            raise InvalidInputError("test= is for the accuracy of a probe, which needs y with two classes.")
        orders = _draw_orders(selections, groups, int(counts[-1]), repeats, random_state)
        with blas_threads_for(len(rows) * rows.n_features):
            accuracies: dict[str, Matrix] = {}
            judged_by = "nothing: there are no ten rows with labels of two classes"
            if probed:
                judge = _Judge(rows, groups, held_out, test, repeats, random_state)
                accuracies = judge.measure(orders, counts)
                kind = "rows" if trusted is None else "trusted rows"
                judged_by = f"held-out {kind} of the data, {repeats} repeats"
                judged_by = judged_by if judge.test is None else f"{len(judge.test[1]):,} test rows"
            points = _measure_points(rows, groups, trusted, selections, orders, counts, accuracies, test)
    return BudgetCurve(tuple(points), len(rows), judged_by)


def _resolve_sizes(sizes: Any, selections: Mapping[str, Selection], n: int) -> Indices:
    """Return the sizes as ascending counts."""
    most = min(selection.k for selection in selections.values())
    if sizes is None:
        smallest = max(1.0, _SMALLEST * most)
        return np.unique(np.geomspace(smallest, max(most, 1), _SIZES).round().astype(np.int64))
    requested = [sizes] if isinstance(sizes, (str, int, float)) else list(sizes)
    if not requested:
        raise InvalidInputError("sizes is empty: give at least one count or share of the rows.")
    counts = np.unique([resolve_count(size, n, name="sizes") for size in requested]).astype(np.int64)
    if counts[-1] > most:
        raise InvalidInputError(f"sizes ask for {counts[-1]:,}, but a selection has {most:,}: select more.")
    return counts


def _draw_orders(
    selections: Mapping[str, Selection], groups: Groups, most: int, repeats: int, seed: int
) -> dict[str, list[Indices]]:
    """Return the picks of each method in order, once for each repeat; other random rows in each."""
    orders = {name: [selection.order[:most]] * repeats for name, selection in selections.items()}
    if RANDOM not in orders:
        random, labeled = np.random.default_rng([seed, 1]), np.flatnonzero(groups.codes >= 0)
        orders[RANDOM] = [random.permutation(labeled)[:most] for _ in range(repeats)]
    return orders


class _Judge:
    """Trains probes on the first picks, and judges them by rows that were held out."""

    def __init__(
        self, rows: Rows, groups: Groups, held_out: Indices, test: Any, repeats: int, seed: int
    ) -> None:
        self.rows, self.codes = rows, groups.codes
        self.center, self.projection = _principal_components(rows)
        folds = np.array_split(np.random.default_rng(seed).permutation(held_out), _FOLDS)
        self.folds = [fold[:_JUDGED] for fold in folds[:repeats]]
        self.test = None if test is None else self._read_test(test, groups)

    def measure(self, orders: Mapping[str, list[Indices]], counts: Indices) -> dict[str, Matrix]:
        """Return the accuracies of each method, shape (repeats, sizes)."""
        return {name: np.array([self._measure_repeat(r, order, counts) for r, order in enumerate(repeated)])
                for name, repeated in orders.items()}  # fmt: skip

    def _measure_repeat(self, repeat: int, order: Indices, counts: Indices) -> list[float]:
        fold = self.folds[repeat]
        if self.test is None:
            test_rows, truth = self._read(fold), self.codes[fold]
        else:
            fold, (test_rows, truth) = fold[:0], self.test
        usable = ~np.isin(order, fold) & (self.codes[order] >= 0)
        values = self._read(order)
        return [
            _probe(values[:k][usable[:k]], self.codes[order[:k]][usable[:k]], test_rows, truth)
            for k in counts.tolist()
        ]

    def _read(self, numbers: Indices) -> NDArray[np.float32]:
        return np.concatenate(
            [self._project(self.rows.take(numbers[some])) for some in _pieces(len(numbers))]
        )

    def _project(self, values: Matrix) -> NDArray[np.float32]:
        return np.asarray((values - self.center) @ self.projection, dtype=np.float32)

    def _read_test(self, test: Any, groups: Groups) -> tuple[NDArray[np.float32], Indices]:
        if not isinstance(test, (tuple, list)) or len(test) != 2:
            raise InvalidInputError("test: give a pair of rows and their labels, (X_test, y_test).")
        with open_rows(test[0], name="test") as rows:
            check_columns(rows, self.rows, "test")
            test_groups = Groups.of(test[1], len(rows), warn=False)
            position = {(type(label), label): i for i, label in enumerate(groups.labels)}
            # A class that the data does not have is never predicted.
            known = np.array([position.get((type(label), label), -1) for label in test_groups.labels])
            if not (known >= 0).any():
                raise InvalidInputError(
                    f"test has labels such as {test_groups.labels[:1]}, and none of them is among those of y."
                )
            labeled = np.flatnonzero(test_groups.codes >= 0)
            values = [self._project(rows.take(labeled[some])) for some in _pieces(len(labeled))]
        return np.concatenate(values), known[test_groups.codes[labeled]]


def _pieces(n: int) -> Iterator[slice]:
    for first in range(0, n, 4096):
        yield slice(first, first + 4096)


def _principal_components(rows: Rows) -> tuple[Vector, Matrix]:
    """Return a center, and a projection to standardized columns or, for wide rows, to principal components."""
    sample = rows.take(sample_indices(len(rows), _SAMPLE))
    center = sample.mean(axis=0)
    sample -= center
    if sample.shape[1] <= _COMPONENTS:
        deviations = sample.std(axis=0)
        return center, np.diag(1.0 / np.where(deviations > 0.0, deviations, np.inf))
    eigenvalues, eigenvectors = np.linalg.eigh(sample.T @ sample / len(sample))
    # One scale for all components keeps the weight of the long ones.
    scale = np.sqrt(eigenvalues[-_COMPONENTS:].clip(0.0).mean()) or 1.0
    return center, eigenvectors[:, -_COMPONENTS:] / scale


def _probe(X: NDArray[Any], codes: Indices, test_rows: NDArray[Any], truth: Indices) -> float:
    """Return the share of rows that a logistic regression classifies right."""
    classes = np.unique(codes)
    if len(classes) < 2:
        return float((truth == classes[0]).mean()) if len(classes) else 0.0
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=0.1, max_iter=200, tol=1e-3).fit(X, codes)
    return float((model.predict(test_rows) == truth).mean())


def _measure_points(
    rows: Rows, groups: Groups, trusted: Mask | None, selections: Mapping[str, Selection],
    orders: Mapping[str, list[Indices]], counts: Indices, accuracies: Mapping[str, Matrix], test: Any,
) -> list[CurvePoint]:  # fmt: skip
    reference = trusted if trusted is not None and trusted.any() else None
    subset = SubsetMetrics(
        rows, groups.codes, reference=reference, mmd_rows=_MMD_ROWS, coverage_rows=_COVERAGE_ROWS
    )
    n_test, points = None if test is None else len(test[1]), []
    for name, (order, *_) in orders.items():
        screening = selections[name].screening if name in selections else None
        for position, k in enumerate(counts.tolist()):
            known: dict[str, Any] = asdict(subset.measure(order[:k]))
            if screening is not None and screening.noise_rate is not None:
                known["mislabeled"] = float(screening.probability[order[:k]].sum())
            if name in accuracies:
                known |= _interval(accuracies[name][:, position], n_test)
            points.append(CurvePoint(name, k, **known))
    return points


def _interval(values: Vector, n_test: int | None) -> dict[str, float]:
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
