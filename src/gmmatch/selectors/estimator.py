"""scikit-learn's and imbalanced-learn's conventions, on top of ``select``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gmmatch.types import Indices

if TYPE_CHECKING:
    from gmmatch.selection import Selection


class EstimatorConventions:
    """``fit``, ``fit_resample`` and the attributes they set.

    Attributes
    ----------
    selection_ : Selection
        The result of the last fit.
    sample_indices_ : int64 array
        The picked rows, ascending; imbalanced-learn's name for them.
    n_features_in_ : int
    """

    selection_: Selection
    sample_indices_: Indices
    _sampling_type = "clean-sampling"

    if TYPE_CHECKING:

        def select(self, X: Any, y: Any = None, **options: Any) -> Selection:
            """Provided by the selector."""
            ...

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Select, and keep the result as ``selection_`` and ``sample_indices_``."""
        from sklearn.utils.validation import validate_data

        if y is not None:
            _check_targets(y)
        validate_data(self, X, reset=True, skip_check_array=True)
        self.selection_ = self.select(X, y, sample_weight=sample_weight)
        self.sample_indices_ = self.selection_.indices
        return self

    def fit_resample(self, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
        """Select, and return the picked rows of ``X`` and ``y`` in the types they came in."""
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None; "
                "use select(X) for rows without labels."
            )
        self.fit(X, y, **options)
        return _take(X, self.sample_indices_), _take(y, self.sample_indices_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = False
        tags.target_tags.required = False
        return tags


def _check_targets(y: Any) -> None:
    from sklearn.utils.multiclass import check_classification_targets

    values = np.asarray(y)
    if values.dtype.kind == "f" and values.ndim == 1:
        check_classification_targets(values)


def _take(data: Any, rows: Indices) -> Any:
    if hasattr(data, "iloc"):
        return data.iloc[rows]
    if isinstance(data, (list, tuple)):
        return [data[row] for row in rows]
    return data[rows]
