"""What a selection records of how it was made: enough to make it again, in the words of JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.kernels.kernels import Kernel
from gmmatch.rows.rows import Rows
from gmmatch.selection.labels import Group, Groups


def recorded_parameters(selector: Any) -> dict[str, Any]:
    """Return the parameters of a selector but its seed and its reference, as its class would take them again.

    Examples
    --------
    >>> from gmmatch import Easy
    >>> recorded_parameters(Easy(k=np.int64(5), per_class={0: 2, 1: 3}))["per_class"]
    [[0, 2], [1, 3]]
    """
    return {
        field.name: _plain(getattr(selector, field.name))
        for field in fields(selector)
        if field.name not in ("random_state", "reference")
    }


def _plain(value: Any) -> Any:
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
    positions = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), 1024)).astype(np.int64))
    kind = "bfloat16" if rows.bfloat16 else rows.source.dtype
    digest = hashlib.sha256(f"{len(rows)} {rows.n_features} {kind}".encode())
    digest.update(np.ascontiguousarray(rows.source[rows.subset(positions).index]).tobytes())
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


def version() -> str:
    """Return the version of gmmatch."""
    from gmmatch import __version__

    return __version__
