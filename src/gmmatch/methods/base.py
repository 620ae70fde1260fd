"""What every method shares: parameters, and the way from X to a Selection."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from gmmatch import __version__
from gmmatch._array import Indices, RandomState
from gmmatch._threads import blas_threads_for
from gmmatch.budget import TRUSTED, Budget, PerClass
from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.frames import take_rows
from gmmatch.groups import Unlabeled
from gmmatch.methods.record import describe_input, record_parameters
from gmmatch.preprocess import Preprocess, apply_steps, list_steps
from gmmatch.problem import Problem, Reference, Screen
from gmmatch.rows import open_rows
from gmmatch.rows.open import per_row_values
from gmmatch.selection.selection import Selection
from gmmatch.targets import Mean, Targets


@dataclass(kw_only=True, eq=False, repr=False)
class Method(ABC):
    """Base class of the methods. A method implements :meth:`pick`, and what else it needs.

    It is an estimator of scikit-learn, whose base class it does without: importing it takes longer than most calls.

    Parameters
    ----------
    k : int, float or str, optional
        A count (500), a fraction (0.1) or a percentage ("10%"), or "trusted": every row that the screening trusts. By
        default what a mapping ``per_class`` sums to, and
        a tenth of the rows without one.
    per_class : "proportional", "balanced", mapping of class to budget, or None
        How ``k`` is shared among the classes; None ignores the labels.
    screening : Screen, optional
        Decides which rows may be picked at all, such as :class:`~gmmatch.Screening`.
    random_state : int, Generator, RandomState or None
        The seed that was used is recorded.
    """

    k: Budget | None = None
    per_class: PerClass = "proportional"
    screening: Screen | None = None
    random_state: RandomState = None

    name: ClassVar[str] = ""
    follows_target: ClassVar[bool] = False
    """Whether the picks depend on the targets, which reference rows can then give."""

    _sampling_type: ClassVar[str] = "clean-sampling"  # what imbalanced-learn asks a sampler

    def prepare(self, problem: Problem) -> Problem:
        """Return the problem to pick from: reweighted, or mapped to another space."""
        return problem

    def targets(self, problem: Problem) -> Targets:
        """Return the points that residuals are measured from, and that a matching approaches."""
        return Mean().compute(problem)

    @abstractmethod
    def pick(self, problem: Problem, targets: Targets) -> Indices:
        """Return row numbers in the order of the picks, group after group, ``problem.quotas`` of each."""

    def select(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        include: Any = None,
        exclude: Any = None,
        ids: Any = None,
        reference: Any = None,
        reference_weight: float = 1.0,
        scores: Any = None,
        pred_probs: Any = None,
        answers: Any = None,
        preprocess: Preprocess = None,
        unlabeled: Unlabeled = "drop",
        engine: Any = None,
        memory_limit: int | None = None,
        n_jobs: int | None = None,
    ) -> Selection:
        """Pick rows.

        Parameters
        ----------
        X : array of shape (n, s), tensor, paths of .npy files, store, Ray dataset or Rows
            The rows (embeddings). Never modified. An open store brings its labels and ids along.
        y : array of shape (n,), optional
            Labels; picks are then made per class. Of a Ray dataset, ``y`` and ``ids`` may name columns.
        sample_weight : array of shape (n,), optional
            How much each row counts in the target; for ``random``, in the draw.
        include, exclude : row numbers or boolean masks, optional
            Rows that are picked beforehand and count towards ``k``; rows that must not be picked, which still
            count in the target.
        ids : array of shape (n,) or callable, optional
            Your own ids of the rows, integers or strings; or a function that returns the ids of row numbers.
        reference : array of shape (m, s), or a pair of such an array and its labels, optional
            Rows that the picks should follow instead of the data: the targets are computed from them. With labels,
            each class follows the reference rows of its label; without, every class follows all of them.
        reference_weight : float
            How much the reference counts against the data's own target, above 0 and up to 1.
        scores : array of shape (n,), optional
            Scores for ``by-score`` and for methods that would compute them.
        pred_probs : array of shape (n, K), optional
            Out-of-fold probabilities of your own model, as evidence for a screening.
        answers : object array of shape (n,), optional
            The right label of each row that a person has settled, None for others: what
            :func:`~gmmatch.apply_decisions` returns. Rows count as what was said, and a screening learns from it.
        preprocess : str or list of str, optional
            Steps before anything else: "center", "scale", "pca:64", "unit".
        unlabeled : "drop" or "group"
            What becomes of rows without a label.
        engine, memory_limit, n_jobs
            How it runs; see :func:`~gmmatch.open_rows`.

        Returns
        -------
        Selection

        Examples
        --------
        >>> from gmmatch import GMMatching
        >>> X = [[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]]
        >>> GMMatching(k=4).select(X, y=["a", "a", "a", "b", "b", "b"], exclude=[5]).counts
        {'a': 2, 'b': 2}
        """
        ids = per_row_values(X, ids, "ids")
        with self.open_problem(
            X, y, sample_weight=sample_weight, include=include, exclude=exclude, reference=reference,
            reference_weight=reference_weight, scores=scores, pred_probs=pred_probs, answers=answers,
            preprocess=preprocess, unlabeled=unlabeled, engine=engine, memory_limit=memory_limit, n_jobs=n_jobs,
        ) as problem:  # fmt: skip
            targets = self.targets(problem)
            order = self.pick(problem, targets)
            provenance = {
                "method": self.name,
                "parameters": record_parameters(self),
                "seed": problem.seed,
                "version": __version__,
                "targets": targets.details,
                **problem.record,
            }
            return Selection.of(problem, targets, order, ids=ids, provenance=provenance)

    @contextmanager
    def open_problem(
        self,
        X: Any,
        y: Any = None,
        *,
        reference: Any = None,
        reference_weight: float = 1.0,
        preprocess: Preprocess = None,
        engine: Any = None,
        memory_limit: int | None = None,
        n_jobs: int | None = None,
        **arguments: Any,
    ) -> Iterator[Problem]:
        """Open the rows and yield the problem as the method picks from it; arguments are those of :meth:`select`."""
        self.check_parameters()
        y, steps = per_row_values(X, y, "labels"), list_steps(preprocess)
        with (
            open_rows(X, engine=engine, memory_limit=memory_limit, n_jobs=n_jobs) as rows,
            blas_threads_for(len(rows) * rows.n_features),
        ):
            problem = Problem.of(
                rows, y, k=self.k, per_class=self.per_class, replacement=getattr(self, "replacement", False),
                random_state=self.random_state, **arguments,
            )  # fmt: skip
            problem = problem.add_record(input=describe_input(rows, problem), preprocess=steps)
            problem = apply_steps(self._add_reference(problem, reference, reference_weight), steps)
            if self.screening is not None:
                problem = self.screening.apply(problem)
            elif problem.request.answers is not None:
                problem = problem.settle()
            yield self.prepare(problem)

    def check_parameters(self) -> None:
        """Raise for parameters that no data could make right, before any row is read."""
        for parameter in fields(self):
            value = getattr(self, parameter.name)
            # A text such as "false" would count as true.
            if isinstance(parameter.default, bool) and not isinstance(value, (bool, np.bool_)):
                raise InvalidInputError(f"{parameter.name}={value!r}: expected True or False.")
        check_option("screening", self.screening, "apply", "Screening()")
        if isinstance(self.k, str) and self.k == TRUSTED and self.screening is None:
            raise InvalidInputError(
                f"k='trusted': method {self.name!r} does not screen; give it a screening, or choose method='robust'."
            )

    def _add_reference(self, problem: Problem, reference: Any, weight: float) -> Problem:
        if reference is not None and not self.follows_target:
            raise InvalidInputError(f"reference: method {self.name!r} follows no target; leave it out.")
        if reference is None:
            if not isinstance(weight, (int, float)) or weight != 1.0:
                raise InvalidInputError(
                    "reference_weight goes with reference=, rows to follow: give them, too."
                )
            return problem
        pair = isinstance(reference, (tuple, list)) and len(reference) == 2 and np.ndim(reference[0]) != 1
        X, labels = reference if pair else (reference, None)
        with open_rows(X, name="reference") as rows:
            given = Reference.of(rows, labels, problem, weight)
            record = {"weight": given.weight, **describe_input(rows, given.problem)}
            return replace(problem, reference=given).add_record(reference=record)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, as scikit-learn's ``clone`` asks for them; none is an estimator itself."""
        return {parameter.name: getattr(self, parameter.name) for parameter in fields(self)}

    def set_params(self, **parameters: Any) -> Method:
        """Set parameters, as scikit-learn's grid search does."""
        for name, value in parameters.items():
            if name not in (known := self.get_params()):
                raise InvalidInputError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {list(known)!r}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Show the parameters that are not the default."""
        changed = (
            f"{parameter.name}={value!r}"
            for parameter in fields(self)
            if repr(value := getattr(self, parameter.name)) != repr(parameter.default)
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Method:
        """Select, and keep the result: ``selection_``, ``sample_indices_``, ``sampling_strategy_``."""
        validate_rows(self, X)
        self.selection_ = self.select(X, validate_labels(y, self.per_class), sample_weight=sample_weight)
        self.sample_indices_ = self.selection_.indices
        self.sampling_strategy_ = self.selection_.counts
        return self

    def fit_resample(self, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
        """Return the picked rows and their labels, as imbalanced-learn's samplers do, in the types they came in."""
        if y is None:
            raise InvalidInputError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None; "
                "use select(X) for rows without labels."
            )
        self.fit(X, y, **options)
        return take_rows(X, self.sample_indices_), take_rows(y, self.sample_indices_)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns, which a selection leaves as they are."""
        from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

        check_is_fitted(self, "n_features_in_")
        return _check_feature_names_in(self, input_features)

    def __sklearn_tags__(self) -> Any:
        return sampler_tags()


def check_option(name: str, value: Any, method: str, example: str) -> None:
    """Raise unless an option is None or an object with this method."""
    if value is not None and (isinstance(value, type) or not callable(getattr(value, method, None))):
        raise InvalidTypeError(f"{name}={value!r}: give an object with {method}, such as {example}.")


def validate_rows(estimator: Any, X: Any) -> None:
    """Set ``n_features_in_`` and, for a DataFrame, ``feature_names_in_``."""
    from sklearn.utils.validation import validate_data

    validate_data(estimator, X, reset=True, skip_check_array=True)


def validate_labels(y: Any, per_class: Any) -> Any:
    """Return labels as one column; refuse numbers that are measurements, and several outputs.

    One-versus-all rows (a single 1, the rest 0) are read as the column of the 1, as imbalanced-learn does. Labels
    that ``per_class=None`` ignores may be measurements.
    """
    if y is None:
        return None
    from sklearn.exceptions import DataConversionWarning
    from sklearn.utils.multiclass import check_classification_targets

    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] > 1 and _is_one_hot(values):
        return values.argmax(axis=1)
    if values.ndim == 2 and values.shape[1] == 1:
        message = "A column-vector y was passed when a 1d array was expected. Pass y.ravel()."
        warnings.warn(message, DataConversionWarning, stacklevel=3)
        y = values = values.ravel()
    if values.ndim > 1:
        raise InvalidInputError(
            "Multilabel and multioutput targets are not supported. "
            f"y should be a 1d array of one label per row, got an array of shape {values.shape} instead."
        )
    if values.dtype.kind == "f" and per_class is not None:
        known = values[np.isfinite(values)]
        try:
            check_classification_targets(known if len(known) else [0])
        except ValueError as error:
            raise InvalidInputError(f"{error} Pass per_class=None to ignore the labels.") from error
    return y if isinstance(y, (list, tuple)) or hasattr(y, "dtype") else values


def _is_one_hot(values: Any) -> bool:
    if values.dtype.kind not in "biuf":
        return False
    return bool(np.all((values == 0) | (values == 1)) and np.all(values.sum(axis=1) == 1))


def sampler_tags() -> Any:
    """Return scikit-learn's tags, with those that imbalanced-learn adds for samplers."""
    from sklearn.utils import InputTags, Tags, TargetTags

    class SamplerInput(InputTags):
        dataframe = True

    class Sampler(Tags):
        sampler_tags = SimpleNamespace(sample_indices=True)

    return Sampler(
        estimator_type=None,
        target_tags=TargetTags(required=False),
        input_tags=SamplerInput(sparse=False, allow_nan=False),
    )
