"""The provenance of a selection: how it was made, in JSON, so that it can be made again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.kernels.kernels import Kernel
from gmmatch.rows.rows import Rows
from gmmatch.selection.labels import Group, Groups
from gmmatch.types import evenly_spaced

if TYPE_CHECKING:
    from gmmatch.selection.selection import Selection


# Numbers for every row, of which no more is recorded than that they were given.
_FOR_ROWS = ("scores", "dynamics", "vectors")
GIVEN = "given"


def recorded_parameters(selector: Any) -> dict[str, Any]:
    """Return the parameters of a selector but its seed and its reference, as its class would take them again.

    Examples
    --------
    >>> from gmmatch import Easy
    >>> recorded_parameters(Easy(k=np.int64(5), per_class={0: 2, 1: 3}))["per_class"]
    [[0, 2], [1, 3]]
    """
    values = {field.name: getattr(selector, field.name) for field in fields(selector)}
    return {
        name: GIVEN
        if name in _FOR_ROWS and not isinstance(value, (str, os.PathLike, type(None)))
        else _plain(value)
        for name, value in values.items()
        if name not in ("random_state", "reference")
    }


def arguments_again(selection: Selection, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what :func:`gmmatch.select` takes to make a selection again; ``given`` comes first.

    Examples
    --------
    >>> from gmmatch import Easy
    >>> arguments_again(Easy(k=2, random_state=7).select([[0.0], [1.0], [1.2], [3.0]]), {"k": 3})["k"]
    3
    """
    facts = selection.provenance
    if not {"method", "parameters", "seed"} <= set(facts):
        raise InvalidInputError(
            "How this selection was made is not recorded: only what select made can be rerun."
        )
    if "updates" in facts:
        raise InvalidInputError("This selection was updated: rerun the first one, and update it again.")
    found = {"method": facts["method"], **facts["parameters"], "random_state": facts["seed"]}
    if "engine" in facts:
        found["engine"] = facts["engine"]["name"]
    if "relabeled" in facts:
        found["relabel"] = facts["relabeled"]["min_confidence"]
    of_rows = [name for name in ("sample_weight", "include", "exclude") if name in facts["input"]]
    of_rows += ["reference"] * ("reference" in facts)
    missing = [name for name, value in found.items() if name in _FOR_ROWS and value == GIVEN] + of_rows
    missing = [name for name in missing if name not in given]
    if missing:
        words = " and ".join(f"{name}=" for name in missing)
        raise InvalidInputError(
            f"The selection was made with {words}, which it does not hold: pass it again."
        )
    return {**found, **given}


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _plain(item) for key, item in value.items()}
        return [[_plain(key), _plain(item)] for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Kernel):
        return [value.name, value.params]
    return repr(value)


def fingerprint(rows: Rows) -> str:
    """Return a hash of the shape, the type and up to 1,024 evenly spaced rows.

    Enough to tell whether the same data came again, without reading all of a large input once more.
    """
    kind = "bfloat16" if rows.bfloat16 else rows.source.dtype
    digest = hashlib.sha256(f"{len(rows)} {rows.n_features} {kind}".encode())
    some = rows.subset(evenly_spaced(len(rows), 1024)).index
    digest.update(np.ascontiguousarray(rows.source[some]).tobytes())
    return digest.hexdigest()[:32]


def array_fingerprint(array: NDArray[Any]) -> str:
    """Return a hash of a whole array of one number per row."""
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()[:32]  # without a copy of its bytes


def label_fingerprint(groups: Sequence[Group]) -> str:
    """Return a hash of which rows have which label."""
    every = Groups.of(groups)
    digest = hashlib.sha256(repr(list(zip(every.labels, every.sizes.tolist(), strict=True))).encode())
    digest.update(np.ascontiguousarray(every.rows).data)
    return digest.hexdigest()[:32]
