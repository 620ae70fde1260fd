"""scikit-learn's and imbalanced-learn's conventions, on top of ``select``.

They are kept without scikit-learn's base class: importing it takes longer than selecting from a few thousand rows.
"""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.rows.taking import take_rows
from gmmatch.types import Indices

if TYPE_CHECKING:
    from gmmatch.selection.selection import Selection


class EstimatorConventions:
    """Parameters, ``fit``, ``fit_resample`` and the attributes they set.

    Attributes
    ----------
    selection_ : Selection
        The result of the last fit.
    sample_indices_ : int64 array
        The picked rows, ascending; imbalanced-learn's name for them.
    sampling_strategy_ : dict
        How many rows of each class were picked; imbalanced-learn's name for that.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only where ``X`` was a DataFrame with names of columns.
    """

    selection_: Selection
    sample_indices_: Indices
    sampling_strategy_: dict[Any, int]

    learned: ClassVar[tuple[str, ...]] = ()  # what a method learns from labels, unless one of them is given

    if TYPE_CHECKING:  # the selector's own
        per_class: Any
        select: Any

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Select, and keep the result as ``selection_`` and ``sample_indices_``."""
        from sklearn.utils.validation import validate_data

        if y is not None:
            y = _check_targets(y, ignored=self.per_class is None)
        validate_data(self, X, reset=True, skip_check_array=True)
        self.selection_ = self.select(X, y, sample_weight=sample_weight)
        self.sample_indices_ = self.selection_.indices
        self.sampling_strategy_ = self.selection_.counts
        return self

    def fit_resample(self, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
        """Select, and return the picked rows of ``X`` and ``y`` in the types they came in."""
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

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; ``deep`` changes nothing, as none of them has parameters of its own."""
        return {name: getattr(self, name) for name in sorted(_parameters(self))}

    def set_params(self, **params: Any) -> Any:
        """Change parameters, and return the selector itself."""
        known = _parameters(self)
        for name, value in params.items():
            if name not in known:
                raise InvalidInputError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {sorted(known)}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults, given = _parameters(self), {name: repr(value) for name, value in self.get_params().items()}
        changed = {name: text for name, text in given.items() if text != repr(defaults[name])}
        # A list of scores has as many numbers as X has rows.
        short = (
            f"{name}={text if len(text) < 300 else f'{text[:100]}...'}" for name, text in changed.items()
        )
        return f"{type(self).__name__}({', '.join(short)})"

    @property
    def needs_labels(self) -> bool:
        """Whether it learns from labels, which ``select`` must then be given."""
        return bool(self.learned) and all(getattr(self, name) is None for name in self.learned)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        class SamplerInput(InputTags):
            dataframe = True  # imbalanced-learn's own, like the tags of samplers

        class Sampler(Tags):
            sampler_tags = SimpleNamespace(sample_indices=True)

        return Sampler(
            estimator_type=None,
            target_tags=TargetTags(required=self.needs_labels),
            input_tags=SamplerInput(sparse=False, allow_nan=False),
        )


def _parameters(selector: Any) -> dict[str, Any]:
    """Return the defaults of a selector's parameters by name."""
    signature = inspect.signature(type(selector)).parameters
    return {name: parameter.default for name, parameter in signature.items()}


def _check_targets(y: Any, ignored: bool) -> Any:
    """Return labels as one column; refuse numbers that are measurements, and several outputs.

    One-versus-all rows (a single 1, the rest 0) are read as the column of the 1, which is what
    imbalanced-learn does. Labels that are ``ignored`` may be measurements.
    """
    import warnings

    from sklearn.exceptions import DataConversionWarning
    from sklearn.utils.multiclass import check_classification_targets

    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] > 1 and _is_one_hot(values):
        return values.argmax(axis=1)
    if values.ndim == 2 and values.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Pass y.ravel().",
            DataConversionWarning,
            stacklevel=3,
        )
        y = values = values.ravel()
    if values.ndim > 1:
        raise InvalidInputError(
            "Multilabel and multioutput targets are not supported. "
            f"y should be a 1d array of one label per row, got an array of shape {values.shape} instead."
        )
    if values.dtype.kind == "f" and not ignored:
        known = values[np.isfinite(values)]
        try:
            check_classification_targets(known if len(known) else [0])
        except ValueError as error:
            raise InvalidInputError(
                f"{error} Pass per_class=None to select from all rows together."
            ) from error
    return y if isinstance(y, (list, tuple)) or hasattr(y, "dtype") else values


def _is_one_hot(values: Any) -> bool:
    if values.dtype.kind not in "biuf":
        return False
    return bool(np.all((values == 0) | (values == 1)) and np.all(values.sum(axis=1) == 1))
