"""Conventions of scikit-learn and imbalanced-learn for samplers: checks of X and y, and tags."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np

from gmmatch.errors import InvalidInputError


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
            raise InvalidInputError(
                f"{error} Pass per_class=None to select from all rows together."
            ) from error
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
