"""Screening: which rows may be picked, and why the others may not."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.types import Mask, Vector

KEPT = ""
OTHER_CLASS = "closer to another class"
FAR_OUT = "far from the core"
REASONS = (KEPT, OTHER_CLASS, FAR_OUT)


@dataclass(frozen=True, eq=False)
class Screening:
    """Which rows may be picked, how suspicious each is, and what spoke against the dropped ones.

    Attributes
    ----------
    kept : bool array of shape (n,)
        Rows that may be picked.
    suspicion : float64 array of shape (n,)
        How far a row is on the wrong side: above 0 for dropped rows, at most 0 for kept ones. Comparable
        among rows that were judged for the same reason.
    reason : int8 array of shape (n,)
        Position in ``reasons``; 0 for kept rows.
    reasons : tuple of str
        What speaks against a row, in plain words; the first is empty and stands for "kept".
    looks_like : array of shape (n,), optional
        The label that each row looks most like; None where there were no labels to compare.
    note : str
        What could not be judged, and why; empty where everything could.

    Examples
    --------
    >>> screening = Screening(np.array([True, False]), np.array([-1.0, 2.0]), np.array([0, 2], np.int8))
    >>> screening
    Screening: 1 of 2 rows kept, 1 far from the core
    """

    kept: Mask
    suspicion: Vector
    reason: NDArray[np.int8]
    reasons: tuple[str, ...] = REASONS
    looks_like: NDArray[Any] | None = None
    note: str = ""

    def __post_init__(self) -> None:
        n = len(self.kept)
        for name in ("suspicion", "reason", "looks_like"):
            value = getattr(self, name)
            if value is not None and np.shape(value) != (n,):
                raise InvalidInputError(f"{name} has shape {np.shape(value)}; kept has {n} rows.")
        if n and not 0 <= int(self.reason.min()) <= int(self.reason.max()) < len(self.reasons):
            raise InvalidInputError(f"reason counts from 0 to {len(self.reasons) - 1}, as reasons do.")
        for name in ("kept", "suspicion", "reason", "looks_like"):
            value = getattr(self, name)
            if value is not None:
                view = value.view()
                view.flags.writeable = False
                object.__setattr__(self, name, view)

    def __len__(self) -> int:
        return len(self.kept)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Screening):
            return NotImplemented
        if self.looks_like is None or other.looks_like is None:
            alike = self.looks_like is other.looks_like
        else:
            alike = self.looks_like.tolist() == other.looks_like.tolist()
        return (
            alike
            and (self.reasons, self.note) == (other.reasons, other.note)
            and np.array_equal(self.kept, other.kept)
            and np.array_equal(self.suspicion, other.suspicion)
            and np.array_equal(self.reason, other.reason)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {words}" for words, count in self.counts.items())
        kept = f"Screening: {int(self.kept.sum()):,} of {len(self):,} rows kept"
        words = f"{kept}, {counts}" if counts else kept
        return f"{words} ({self.note})" if self.note else words

    @property
    def counts(self) -> dict[str, int]:
        """How many rows were dropped for each reason that occurred.

        Examples
        --------
        >>> Screening(np.array([True, False]), np.zeros(2), np.array([0, 1], np.int8)).counts
        {'closer to another class': 1}
        """
        found = np.bincount(self.reason[~self.kept], minlength=len(self.reasons))
        return {self.reasons[i]: int(found[i]) for i in range(1, len(found)) if found[i]}


def labels_at(labels: list[Any], codes: NDArray[Any]) -> NDArray[Any]:
    """Return the label that each code stands for, as numbers where all labels are of one such type.

    Examples
    --------
    >>> labels_at(["cat", "dog"], np.array([1, 0]))
    array(['dog', 'cat'], dtype=object)
    """
    if {type(label) for label in labels} in ({int}, {float}, {bool}):
        array: NDArray[Any] = np.array(labels)
    else:
        array = np.empty(len(labels), dtype=object)
        array[:] = labels
    found: NDArray[Any] = array[codes]
    return found


def screening_to_json(screening: Screening) -> dict[str, Any]:
    """Return a screening as JSON can hold it, its arrays compressed.

    Examples
    --------
    >>> screening = Screening(np.array([True, False]), np.array([-1.0, 2.0]), np.array([0, 1], np.int8))
    >>> screening_from_json(screening_to_json(screening)) == screening
    True
    """
    document: dict[str, Any] = {
        "n_rows": len(screening),
        "kept": _pack(np.packbits(screening.kept)),
        "suspicion": _pack(screening.suspicion.astype("<f8")),
        "reason": _pack(screening.reason.astype("|i1")),
        "reasons": list(screening.reasons),
        "looks_like": None,
    }
    if screening.note:
        document["note"] = screening.note
    if screening.looks_like is not None:
        values = screening.looks_like.tolist()
        labels = list(dict.fromkeys(values))
        place = {label: i for i, label in enumerate(labels)}
        codes = np.array([place[value] for value in values], dtype="<i4")
        document["looks_like"] = {"labels": labels, "codes": _pack(codes)}
    return document


def screening_from_json(document: dict[str, Any]) -> Screening:
    """Return the screening that :func:`screening_to_json` wrote; see its example."""
    n = int(document["n_rows"])
    found = document["looks_like"]
    looks_like = None
    if found is not None:
        looks_like = labels_at(found["labels"], _unpack(found["codes"], "<i4").astype(np.int64))
    return Screening(
        kept=np.unpackbits(_unpack(document["kept"], "|u1"), count=n).astype(np.bool_),
        suspicion=_unpack(document["suspicion"], "<f8").astype(np.float64),
        reason=_unpack(document["reason"], "|i1").astype(np.int8),
        reasons=tuple(document["reasons"]),
        looks_like=looks_like,
        note=str(document.get("note", "")),
    )


def _pack(array: NDArray[Any]) -> str:
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes())).decode("ascii")


def _unpack(text: str, dtype: str) -> NDArray[Any]:
    try:
        data = zlib.decompress(base64.b64decode(text, validate=True))
    except zlib.error as error:
        raise ValueError(f"its screening cannot be unpacked: {error}") from None
    return np.frombuffer(data, dtype=dtype)
