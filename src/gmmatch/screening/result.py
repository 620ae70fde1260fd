"""Screening: which rows may be picked, and why the others may not."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.frames import Package, arrow_column, as_frame, html_table
from gmmatch.types import Mask, Vector, on_host

KEPT = ""
MISLABELED = "likely mislabeled"
IN_DOUBT = "label in doubt"
NO_CLASS = "belongs to no class"
FAR_OUT = "far out"
DUPLICATE = "duplicate"
REASONS = (KEPT, MISLABELED, IN_DOUBT, NO_CLASS, FAR_OUT, DUPLICATE)


@dataclass(frozen=True, eq=False)
class Screening:
    """Which rows may be picked, and why the others may not.

    Attributes
    ----------
    kept : bool array of shape (n,)
        Rows that may be picked.
    probability : float64 array of shape (n,)
        The probability that something is wrong with a row; for dropped rows, that of their reason.
    reason : int8 array of shape (n,)
        Position in ``reasons``; 0 for kept rows.
    reasons : tuple of str
        Why rows were dropped; the first is empty and means "kept".
    suggested_labels : array of shape (n,), optional
        The most probable label of each row; None where there were no labels to compare.
    suggested_probability : float64 array of shape (n,), optional
        The probability of that label.
    noise_rate : float, optional
        The estimated share of mislabeled rows; None where it cannot be told.

    Examples
    --------
    >>> screening = Screening(np.array([True, False]), np.array([0.0, 0.9]), np.array([0, 4], np.int8))
    >>> screening
    Screening: 1 of 2 rows kept, 1 far out
    """

    kept: Mask
    probability: Vector
    reason: NDArray[np.int8]
    reasons: tuple[str, ...] = REASONS
    suggested_labels: NDArray[Any] | None = None
    suggested_probability: Vector | None = None
    noise_rate: float | None = None

    def __post_init__(self) -> None:
        n = len(self.kept)
        for name in ("kept", "probability", "reason", "suggested_labels", "suggested_probability"):
            value = getattr(self, name)
            if value is None:
                continue
            if np.shape(value) != (n,):
                raise InvalidInputError(f"{name} has shape {np.shape(value)}; kept has {n} rows.")
            view = value.view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)
        if n and not 0 <= int(self.reason.min()) <= int(self.reason.max()) < len(self.reasons):
            raise InvalidInputError(f"reason counts from 0 to {len(self.reasons) - 1}, as reasons do.")

    def __len__(self) -> int:
        return len(self.kept)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Screening):
            return NotImplemented
        return screening_to_json(self) == screening_to_json(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {words}" for words, count in self.counts.items())
        kept = f"Screening: {int(self.kept.sum()):,} of {len(self):,} rows kept"
        return f"{kept}, {counts}" if counts else kept

    def _repr_html_(self) -> str:
        lines = [(words, f"{count:,}") for words, count in self.counts.items()]
        kept = f"Screening: {int(self.kept.sum()):,} of {len(self):,} rows kept"
        return html_table(kept, ["dropped as", "rows"], lines)

    def to_frame(self, y: Any = None, *, ids: Any = None, package: Package = "pandas") -> Any:
        """Return what is known of each row as a table, one line per row.

        Its columns are ``row``, ``id``, ``label``, ``suggested_label`` and ``suggested_probability`` (where known),
        ``kept``, ``reason`` and ``probability``.

        Parameters
        ----------
        y, ids : arrays of shape (n,), optional
            Labels and ids of the rows, for columns ``label`` and ``id``.
        package
            Whose table: ``"pandas"``, ``"polars"`` or ``"pyarrow"``.

        Examples
        --------
        >>> screening = Screening(np.array([True, False]), np.array([0.0, 0.9]), np.array([0, 4], np.int8))
        >>> screening.to_frame(["cat", "dog"])[["row", "label", "kept", "reason"]]
           row label   kept   reason
        0    0   cat   True
        1    1   dog  False  far out
        """
        import pyarrow as pa

        for name, values in (("y", y), ("ids", ids)):
            if values is not None and len(values) != len(self):
                raise InvalidInputError(
                    f"{name} has {len(values):,} entries for {len(self):,} rows: give one for each."
                )
        columns = {
            "row": np.arange(len(self)),
            "id": ids,
            "label": None if y is None else on_host(y),
            "suggested_label": self.suggested_labels,
            "suggested_probability": self.suggested_probability,
            "kept": self.kept,
            "reason": np.array(self.reasons, dtype=object)[self.reason],
            "probability": self.probability,
        }
        known = {name: arrow_column(values) for name, values in columns.items() if values is not None}
        return as_frame(pa.table(known), package)

    @property
    def counts(self) -> dict[str, int]:
        """How many rows were dropped for each reason that occurred.

        Examples
        --------
        >>> Screening(np.array([True, False]), np.zeros(2), np.array([0, 1], np.int8)).counts
        {'likely mislabeled': 1}
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
    >>> screening = Screening(np.array([True, False]), np.array([0.1, 0.9]), np.array([0, 1], np.int8))
    >>> screening_from_json(screening_to_json(screening)) == screening
    True
    """
    document: dict[str, Any] = {
        "n_rows": len(screening),
        "kept": _pack(np.packbits(screening.kept)),
        "probability": _pack(screening.probability.astype("<f8")),
        "reason": _pack(screening.reason.astype("|i1")),
        "reasons": list(screening.reasons),
        "noise_rate": screening.noise_rate,
    }
    if screening.suggested_labels is not None:
        values = screening.suggested_labels.tolist()
        labels = list(dict.fromkeys(values))
        place = {label: i for i, label in enumerate(labels)}
        codes = np.array([place[value] for value in values], dtype="<i4")
        document["suggested_labels"] = {"labels": labels, "codes": _pack(codes)}
    if screening.suggested_probability is not None:
        document["suggested_probability"] = _pack(screening.suggested_probability.astype("<f8"))
    return document


def screening_from_json(document: dict[str, Any]) -> Screening:
    """Return the screening that :func:`screening_to_json` wrote; see its example."""
    if "probability" not in document:
        raise ValueError("its screening was written by an older version of gmmatch: make the selection again")
    n = int(document["n_rows"])
    found, chance = document.get("suggested_labels"), document.get("suggested_probability")
    return Screening(
        kept=np.unpackbits(_unpack(document["kept"], "|u1"), count=n).astype(np.bool_),
        probability=_unpack(document["probability"], "<f8").astype(np.float64),
        reason=_unpack(document["reason"], "|i1").astype(np.int8),
        reasons=tuple(document["reasons"]),
        suggested_labels=(
            labels_at(found["labels"], _unpack(found["codes"], "<i4").astype(np.int64)) if found else None
        ),
        suggested_probability=_unpack(chance, "<f8").astype(np.float64) if chance else None,
        noise_rate=document["noise_rate"],
    )


def _pack(array: NDArray[Any]) -> str:
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes())).decode("ascii")


def _unpack(text: str, dtype: str) -> NDArray[Any]:
    try:
        data = zlib.decompress(base64.b64decode(text, validate=True))
    except zlib.error as error:
        raise ValueError(f"its screening cannot be unpacked: {error}") from None
    return np.frombuffer(data, dtype=dtype)
