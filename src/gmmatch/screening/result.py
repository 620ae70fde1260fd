"""ScreeningResult: a verdict on each row, why, and how many labels are wrong in all."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._array import Indices, Mask, to_numpy
from gmmatch._checks import check_fraction
from gmmatch._threads import cached_property
from gmmatch.errors import InvalidInputError
from gmmatch.frames import Package, arrow_column, as_frame, html_table
from gmmatch.groups import Groups, Label

VERDICTS = ("trusted", "doubtful", "wrong", "not judged")
TRUSTED, DOUBTFUL, WRONG, NOT_JUDGED = range(4)
REASONS = (
    "", "mislabeled", "outlier", "out of distribution", "duplicate", "group",
    "one color", "noise", "dark", "bright", "blurry", "odd size", "odd shape",
    "empty", "short", "long", "other script",
)  # fmt: skip
# What says nothing whatever its label.
BLANK = ("one color", "noise", "empty")
NO_REASON, MISLABELED, OUTLIER, OUT_OF_DISTRIBUTION, DUPLICATE, GROUP = range(6)

_ARRAYS = {
    "verdict_codes": "i1", "reason_codes": "i1", "given": "i4", "suggested_codes": "i4", "duplicate_of": "i8",
    "probability": "f4", "suspicion": "f4", "confidence": "f4",
}  # fmt: skip
_OF_ALL_ROWS = ("labels", "noise_rate", "noise_interval", "notes")


@dataclass(frozen=True, eq=False)
class ScreeningResult:
    """What a screening says about each row. It does not change.

    Attributes
    ----------
    verdict_codes, reason_codes : int8 arrays of shape (n,)
        Positions in ``VERDICTS`` and ``REASONS``; :attr:`verdict` and :attr:`reason` are the words.
    probability : float32 array of shape (n,)
        The probability that the label is wrong. A row that was not judged has the rate of the others.
    suspicion : float32 array of shape (n,)
        Log odds that something is wrong with the row, under the most noise that the data allow; for rankings.
    given, suggested_codes : int32 arrays of shape (n,)
        Positions in ``labels``, -1 for none.
    confidence : float32 array of shape (n,)
        The probability of the suggested label.
    duplicate_of : int64 array of shape (n,)
        The row that this one is a copy of, -1 for none. A copy is as trustworthy as its label, but redundant.
    labels : list
        The names of the classes.
    noise_rate : float, optional
        The share of wrong labels, the mean of ``probability`` over the rows that were judged.
    noise_interval : (low, high), optional
        From the share that is wrong for certain to the share that may be.
    notes : list of str
        What was not judged, and why.

    Examples
    --------
    >>> import gmmatch as gm
    >>> X = np.repeat(np.eye(3), 50, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((150, 3))
    >>> y = np.repeat(["ant", "bee", "cat"], 50)
    >>> y[:5] = "bee"
    >>> result = gm.screen(X, y, random_state=0)
    >>> sorted(result.ranking[:5].tolist()), result.suggested[:5].tolist()
    ([0, 1, 2, 3, 4], ['ant', 'ant', 'ant', 'ant', 'ant'])
    >>> result.counts
    {'mislabeled': 5}
    """

    verdict_codes: NDArray[np.int8]
    reason_codes: NDArray[np.int8]
    probability: NDArray[Any]
    suspicion: NDArray[Any]
    given: NDArray[Any]
    suggested_codes: NDArray[Any]
    confidence: NDArray[Any]
    duplicate_of: Indices
    labels: list[Label]
    noise_rate: float | None = None
    noise_interval: tuple[float, float] | None = None
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name, dtype in _ARRAYS.items():
            values = np.asarray(getattr(self, name)).astype(dtype)
            if values.shape != (len(self),):
                raise InvalidInputError(f"{name} has shape {values.shape}; expected ({len(self)},).")
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    def __len__(self) -> int:
        return len(self.verdict_codes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScreeningResult) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def verdict(self) -> NDArray[Any]:
        """ "trusted", "doubtful", "wrong" or "not judged" for each row."""
        return np.array(VERDICTS)[self.verdict_codes]

    @cached_property
    def reason(self) -> NDArray[Any]:
        """Why a row is not trusted, or "duplicate"; empty for most rows."""
        return np.array(REASONS)[self.reason_codes]

    @cached_property
    def suggested(self) -> NDArray[Any]:
        """The likeliest label of each row; None where there is none to suggest."""
        names = np.empty(len(self.labels) + 1, dtype=object)
        names[:-1] = self.labels
        suggested: NDArray[Any] = names[self.suggested_codes]
        return suggested

    @property
    def trusted(self) -> Mask:
        """Which rows were judged and nothing speaks against."""
        return np.asarray(self.verdict_codes == TRUSTED)

    @property
    def ranking(self) -> Indices:
        """Row numbers, the most suspicious first."""
        return np.argsort(-self.suspicion, kind="stable")

    @property
    def counts(self) -> dict[str, int]:
        """How many rows there are for each reason that occurs."""
        codes, rows = np.unique(self.reason_codes[self.reason_codes > NO_REASON], return_counts=True)
        return dict(zip((REASONS[code] for code in codes), rows.tolist(), strict=True))

    @property
    def summary(self) -> str:
        """What was found, in a few sentences."""
        sentences = [self._labels_sentence()] if self.noise_interval is not None else []
        words = {
            "outlier": ("an outlier", "outliers"), "duplicate": ("a copy of another row", "copies of another row"),
            "group": ("a group of its own", "in groups of their own"), "out of distribution": ("of no class",) * 2,
        }  # fmt: skip
        counts = [(reason, count) for reason, count in self.counts.items() if reason != "mislabeled"]
        if others := [
            f"{count:,} {'are' if count > 1 else 'is'} {words.get(reason, (reason, reason))[count > 1]}"
            for reason, count in counts
        ]:
            sentences.append(f"Of {len(self):,} rows, {', '.join(others)}.")
        if not_judged := int((self.verdict_codes == NOT_JUDGED).sum()):
            sentences.append(f"{not_judged:,} rows were not judged.")
        return " ".join([*sentences, *self.notes]) or f"Nothing speaks against any of the {len(self):,} rows."

    def _labels_sentence(self) -> str:
        assert self.noise_interval is not None
        low, high = self.noise_interval
        counts = np.bincount(self.verdict_codes[self.reason_codes == MISLABELED], minlength=len(VERDICTS))
        wrong, doubtful = int(counts[WRONG]), int(counts[DOUBTFUL])
        n_judged = max(1, int(((self.given >= 0) & (self.verdict_codes != NOT_JUDGED)).sum()))
        certain = (
            f"{_percent(wrong / n_judged)} for certain ({wrong:,} rows)" if wrong else "none for certain"
        )
        doubt = f" {doubtful:,} more rows are doubtful." if doubtful else ""
        if high < 0.005:
            return f"No label looks wrong (at most {_percent(high)} may be).{doubt}"
        between = f"Between {_percent(low)} and {_percent(high)}" if low > 0.0 else f"Up to {_percent(high)}"
        return f"{between} of the labels look wrong; {certain}.{doubt}"

    def add_reasons(self, reasons: Any) -> ScreeningResult:
        """Return the screening with what is odd about the rows themselves as the reason of those that have one.

        Rows that say nothing whatever their label are wrong; others are doubtful at least.

        Parameters
        ----------
        reasons : array of shape (n,)
            What :func:`gmmatch.data.check_rows` returns.
        """
        codes = np.array([REASONS.index(reason) for reason in reasons], dtype=np.int8)
        verdict, is_odd = self.verdict_codes.copy(), codes > 0
        verdict[is_odd & (verdict != WRONG)] = DOUBTFUL
        verdict[np.isin(codes, [REASONS.index(reason) for reason in BLANK])] = WRONG
        return replace(self, verdict_codes=verdict, reason_codes=np.where(is_odd, codes, self.reason_codes))

    def per_class(self) -> list[dict[str, Any]]:
        """Return for each class: ``label``, ``rows``, ``wrong``, ``doubtful`` and ``noise_rate``."""
        n_classes, labeled = len(self.labels), self.given >= 0
        has_verdict = labeled & (self.verdict_codes != NOT_JUDGED)
        cells = self.given[labeled] * len(VERDICTS) + self.verdict_codes[labeled]
        counts = np.bincount(cells, minlength=n_classes * len(VERDICTS)).reshape(-1, len(VERDICTS))
        total = np.bincount(self.given[has_verdict], self.probability[has_verdict], minlength=n_classes)
        with np.errstate(invalid="ignore"):
            rates = total / counts[:, :NOT_JUDGED].sum(axis=1)
        known = np.isfinite(rates) & (self.noise_rate is not None)
        columns = (
            self.labels, counts.sum(axis=1).tolist(), counts[:, WRONG].tolist(), counts[:, DOUBTFUL].tolist(),
            [float(rate) if is_known else None for rate, is_known in zip(rates, known, strict=True)],
        )  # fmt: skip
        keys = ("label", "rows", "wrong", "doubtful", "noise_rate")
        return [dict(zip(keys, line, strict=True)) for line in zip(*columns, strict=True)]

    def to_frame(self, package: Package = "pandas", *, ids: Any = None) -> Any:
        """Return a table with a line for each row.

        Its columns are ``row``, ``id`` (if given), ``label``, ``verdict``, ``reason``, ``probability``,
        ``suspicion``, ``suggested``, ``confidence`` and ``duplicate_of``.

        Parameters
        ----------
        package : "pandas", "polars" or "pyarrow"
        ids : array of shape (n,), optional
            Your own ids of the rows.
        """
        import pyarrow as pa

        if ids is not None and len(ids) != len(self):
            raise InvalidInputError(
                f"ids has {len(ids):,} entries for {len(self):,} rows: give one for each."
            )
        names = np.array([*self.labels, None], dtype=object)
        columns = {
            "row": np.arange(len(self)), "id": ids, "label": names[self.given], "verdict": self.verdict,
            "reason": self.reason, "probability": self.probability, "suspicion": self.suspicion,
            "suggested": self.suggested, "confidence": self.confidence, "duplicate_of": self.duplicate_of,
        }  # fmt: skip
        return as_frame(pa.table({k: arrow_column(v) for k, v in columns.items() if v is not None}), package)

    def to_json(self) -> dict[str, Any]:
        """Return everything in plain values, the arrays compressed."""
        arrays = {name: _pack(getattr(self, name), dtype) for name, dtype in _ARRAYS.items()}
        return {"n_rows": len(self), **{name: getattr(self, name) for name in _OF_ALL_ROWS}, **arrays}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> ScreeningResult:
        """Return the result that :meth:`to_json` wrote."""
        values: dict[str, Any] = {name: document[name] for name in _OF_ALL_ROWS}
        if values["noise_interval"] is not None:
            values["noise_interval"] = tuple(values["noise_interval"])
        values |= {name: _unpack(document[name], dtype) for name, dtype in _ARRAYS.items()}
        return cls(**values)

    def __repr__(self) -> str:
        codes, rows = np.unique(self.verdict_codes, return_counts=True)
        counts = ", ".join(f"{count:,} {VERDICTS[code]}" for code, count in zip(codes, rows, strict=True))
        return f"ScreeningResult of {len(self):,} rows: {counts}. {self.summary}"

    def _repr_html_(self) -> str:
        return html_table(self.summary, ["reason", "rows"], [(k, f"{v:,}") for k, v in self.counts.items()])


def _percent(share: float) -> str:
    """Return a share as people write it: one digit below 10%."""
    return f"{100 * share:.0f}%" if share >= 0.0995 else f"{100 * share:.1f}".removesuffix(".0") + "%"


def _pack(values: NDArray[Any], dtype: str) -> str:
    return base64.b64encode(zlib.compress(values.astype("<" + dtype).tobytes(), 6)).decode("ascii")


def _unpack(text: str, dtype: str) -> NDArray[Any]:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<" + dtype)


def corrected_labels(result: ScreeningResult, y: Any, min_confidence: float = 0.95) -> NDArray[Any]:
    """Return the labels with those that are confidently wrong replaced by the suggested ones.

    Parameters
    ----------
    result : ScreeningResult
    y : array of shape (n,)
        The given labels; not modified. Rows without a label stay without one.
    min_confidence : float
        The least probability of a suggested label that replaces the given one.

    Returns
    -------
    array of shape (n,)

    Examples
    --------
    >>> import gmmatch as gm
    >>> X = np.repeat(np.eye(3), 50, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((150, 3))
    >>> y = np.repeat([3, 5, 7], 50)
    >>> y[:10] = 7
    >>> corrected = corrected_labels(gm.screen(X, y, random_state=0), y, min_confidence=0.5)
    >>> bool(np.all(corrected == np.repeat([3, 5, 7], 50)))
    True
    """
    check_fraction(min_confidence, "min_confidence")
    given = to_numpy(y).reshape(-1)
    if len(given) != len(result):
        raise InvalidInputError(
            f"y has {len(given):,} labels, but the screening is about {len(result):,} rows."
        )
    groups = Groups.of(y, len(given), warn=False)
    # A new label is written as y itself writes it: b"cat" stays bytes.
    first_row = {
        groups.labels[groups.codes[row]]: row for row in np.unique(groups.codes, return_index=True)[1]
    }
    corrected = np.array(given, dtype=given.dtype if given.dtype.kind in "iufb" else object)
    changed = relabeled_rows(result, min_confidence) & (groups.codes >= 0)
    for row in np.flatnonzero(changed).tolist():
        label = result.labels[result.suggested_codes[row]]
        corrected[row] = given[first_row[label]] if label in first_row else label
    return corrected.astype(given.dtype) if given.dtype.kind in "SU" else corrected


def relabeled_rows(result: ScreeningResult, min_confidence: float) -> Mask:
    """Return which rows have another label suggested with at least this probability."""
    other = (result.suggested_codes >= 0) & (result.given >= 0) & (result.suggested_codes != result.given)
    mask: Mask = other & (result.confidence >= min_confidence)
    return mask
