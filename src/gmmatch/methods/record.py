"""The provenance of a selection: how it was made, in JSON, so that it can be made again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import sample_indices
from gmmatch.errors import InvalidInputError
from gmmatch.problem import Problem
from gmmatch.rows.base import Rows

# Rows of which a fingerprint is made: enough to tell whether the same data came again.
_SAMPLED_ROWS = 256


def describe_input(rows: Rows, problem: Problem) -> dict[str, Any]:
    """Return the shape of the rows, and fingerprints of some rows and of every argument that has a value per row."""
    given: dict[str, Any] = {**rows.provenance(), "fingerprint": fingerprint_rows(rows)}
    if problem.classes is not None:
        labels = repr(problem.classes.labels).encode()
        given["labels"] = _hash(labels, problem.classes.codes)
    if np.any(problem.weights != 1.0):
        given["sample_weight"] = _hash(problem.weights)
    excluded = ~(problem.available | problem.included) & (problem.groups.codes >= 0)
    values = {
        "include": problem.included if problem.included.any() else None,
        "exclude": excluded if excluded.any() else None,
        "scores": problem.request.scores,
        "pred_probs": problem.request.pred_probs,
        "answers": None
        if problem.request.answers is None
        else np.array(list(map(repr, problem.request.answers))),
    }
    for name, array in values.items():
        if array is not None:
            given[name] = _hash(array)
    return given


def fingerprint_rows(rows: Rows) -> str:
    """Return a hash of the shape and of up to 256 evenly spaced rows."""
    sample = rows.take(sample_indices(len(rows), _SAMPLED_ROWS))
    return _hash(f"{len(rows)} {rows.n_features}".encode(), sample)


def _hash(*values: bytes | NDArray[Any]) -> str:
    digest = hashlib.sha256()
    for value in values:
        digest.update(value if isinstance(value, bytes) else np.ascontiguousarray(value).data)
    return digest.hexdigest()[:32]


def record_parameters(method: Any) -> dict[str, Any]:
    """Return the parameters of a method but its seed, as JSON can hold them.

    An option object becomes a mapping of its fields, with the name of its class as "kind".

    Examples
    --------
    >>> import gmmatch as gm
    >>> record_parameters(gm.Easy(k=np.int64(5), per_class={0: 2, 1: 3}))["per_class"]
    [[0, 2], [1, 3]]
    >>> record_parameters(gm.Easy(center=gm.Mean()))["center"]
    {'kind': 'Mean', 'unit': False}
    """
    recorded = to_json(method)
    del recorded["kind"], recorded["random_state"]
    return dict(recorded)


def to_json(value: Any) -> Any:
    """Return an option as JSON can hold it."""
    if is_dataclass(value) and not isinstance(value, type):
        options = {"kind": type(value).__name__}
        for option in fields(value):
            if option.init:
                options[option.name] = to_json(getattr(value, option.name))
        return options
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: to_json(item) for key, item in value.items()}
        return [[to_json(key), to_json(item)] for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def from_json(value: Any) -> Any:
    """Return the option that :func:`to_json` wrote; option objects are public names of the package.

    Examples
    --------
    >>> from_json({"kind": "GeometricMedian", "eps": 1e-6}).eps
    1e-06
    """
    if isinstance(value, Mapping) and "kind" in value:
        import gmmatch

        kind = getattr(gmmatch, str(value["kind"]), None)
        if not (isinstance(kind, type) and is_dataclass(kind)):
            raise InvalidInputError(f"The selection was made with {value['kind']!r}, which gmmatch lacks.")
        return kind(**{name: from_json(item) for name, item in value.items() if name != "kind"})
    return value
