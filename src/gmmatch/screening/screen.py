"""``screen``: which rows may be picked, judged by the rows and their labels, if any.

Four tests, each on what the ones before it left: duplicates, rows far out, rows that belong to no class, labels. What
labels likely should have been is known before groups are sought, and worked out again without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from scipy.special import expit

from gmmatch.errors import GMMatchWarning, InvalidInputError
from gmmatch.rows.checks import check_rows, warn_caller
from gmmatch.rows.parallel import blas_threads_for, one_blas_thread, resolve_jobs
from gmmatch.rows.rows import Rows
from gmmatch.screening.blocks import Blocks, Spectrum
from gmmatch.screening.duplicates import duplicate_rows
from gmmatch.screening.far_out import far_odds
from gmmatch.screening.groups import LEAST, no_class_odds
from gmmatch.screening.labels import LabelNoise, label_noise
from gmmatch.screening.result import (
    DUPLICATE,
    FAR_OUT,
    IN_DOUBT,
    MISLABELED,
    NO_CLASS,
    REASONS,
    Screening,
    labels_at,
)
from gmmatch.selection.labels import Group, group_rows
from gmmatch.types import Indices, Vector

ScreenMethod = Literal["auto", "labels", "rows", "none"]
_METHODS = ("auto", "labels", "rows", "none")
# Where so many labels are not predicted (1: of a guess), and none is told to be wrong, many wrong ones would look the
# same as classes that overlap.
_UNPREDICTED = 0.5
# Mislabeled rows that are of no account: fewer than most data sets that are called clean have.
TOLERANCE = 0.02
_CODE = {reason: code for code, reason in enumerate(REASONS)}


def screen(
    X: Any,
    y: Any = None,
    method: ScreenMethod = "auto",
    *,
    tolerance: float = TOLERANCE,
    n_jobs: int | None = -1,
) -> Screening:
    """Find the rows of ``X`` that look mislabeled, corrupted, duplicate or far out.

    Parameters
    ----------
    X : array of shape (n, s)
        Rows (embeddings).
    y : array of shape (n,), optional
        Labels; rows without one are not judged by their class.
    method : "auto", "labels", "rows" or "none"
        "rows" drops duplicates, outliers, and groups of rows that belong to no class. "labels" drops rows whose
        label is likely wrong. "auto" does both.
    tolerance : float
        The share of mislabeled rows to accept among the kept ones. If more are expected, only the most trusted rows
        are kept, as many as keep the expected share below it.
    n_jobs : int or None
        Threads; the result does not depend on it.

    Returns
    -------
    Screening

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2))
    >>> X[:80] += 15.0
    >>> screen(X)
    Screening: 120 of 200 rows kept, 80 far out
    """
    rows = check_rows(X)
    groups = group_rows(y, n=len(rows), unlabeled="group" if y is not None else "drop")
    check_screen_options(method, tolerance, "method")
    return screen_groups(rows, groups, method, tolerance, resolve_jobs(n_jobs))[0]


def check_screen_options(method: str, tolerance: float, name: str = "screen") -> None:
    """Raise for options that no data could make right."""
    if method not in _METHODS:
        raise InvalidInputError(f'{name}={method!r}: expected "auto", "labels", "rows" or "none".')
    if not isinstance(tolerance, (int, float, np.floating)) or not 0.0 < tolerance < 1.0:
        raise InvalidInputError(f"tolerance={tolerance!r}: expected a share above 0 and below 1.")


def screen_groups(
    rows: Rows, groups: Sequence[Group], method: str, tolerance: float, threads: int
) -> tuple[Screening, Vector]:
    """Return the screening of grouped rows, and the trust in each row's label."""
    labelled = [group for group in groups if group.label is not None]
    codes = np.full(len(rows), -1 if labelled else 0, dtype=np.int64)
    for number, group in enumerate(labelled):
        codes[group.rows] = number
    state = _State(rows, codes, max(1, len(labelled)))
    with one_blas_thread() if threads == 1 else blas_threads_for(len(rows) * rows.n_features):
        state.judge(method, tolerance, [group.label for group in labelled])
    return state.screening(), np.where(state.reason == 0, state.trust, 0.0)


class _State:
    """What is known so far."""

    def __init__(self, rows: Rows, codes: Indices, n_classes: int) -> None:
        n = len(rows)
        self.blocks, self.codes, self.n_classes = Blocks(rows), codes, n_classes
        self.reason, self.probability = np.zeros(n, dtype=np.int8), np.zeros(n)
        self.trust = np.ones(n)
        self.noise: dict[str, Any] = {}
        self.spectrum: Spectrum | None = None

    def judge(self, method: str, tolerance: float, names: list[Any]) -> None:
        """Drop what is wrong."""
        measured = self.blocks.measured() if method in ("auto", "rows") else None
        by_label = method in ("auto", "labels") and self.n_classes > 1
        far = np.full(len(self.codes), -np.inf)
        # Rows of categories and grades alone are often equal, and none of them is far.
        if measured is not None:
            copies = duplicate_rows(self.blocks)
            self._drop(copies, DUPLICATE, np.ones(len(copies)))
            far = far_odds(measured, self.codes, self.n_classes, np.flatnonzero(self.reason == 0))
        isolated = (far > 0.0) & (self.reason == 0)
        self._drop(isolated, FAR_OUT, expit(far))
        noise = self._label_noise(tolerance) if by_label else None
        if measured is not None:
            left = np.flatnonzero((self.reason == 0) & (self.codes >= 0))
            likely = None if noise is None else np.where(noise.likely >= 0, noise.likely, self.codes)
            spectrum = self.spectrum if measured is self.blocks else None
            curved = noise is not None and noise.curved
            found = no_class_odds(measured, self.codes, self.n_classes, left, likely, spectrum, curved=curved)
            if found.undecided and self.n_classes == 1 and isolated.mean() >= LEAST:
                # So many are a kind of their own, where rows without labels are of several kinds.
                self.reason[isolated], self.probability[isolated] = 0, 0.0
            outside = (found.odds > 0.0) & (self.reason == 0)
            self._drop(outside, NO_CLASS, expit(found.odds))
            if noise is not None and outside.any():
                noise = self._label_noise(tolerance)
        if noise is not None:
            self._judge_labels(noise, tolerance, names)

    def _label_noise(self, tolerance: float) -> LabelNoise:
        codes = np.where(self.reason == 0, self.codes, -1)
        self.spectrum = self.blocks.spectrum(np.flatnonzero(codes >= 0))
        return label_noise(self.blocks, codes, self.n_classes, tolerance, self.spectrum)

    def _judge_labels(self, noise: LabelNoise, tolerance: float, names: list[Any]) -> None:
        """Drop rows whose label is likely wrong."""
        codes = np.where(self.reason == 0, self.codes, -1)
        judged = codes >= 0
        self.trust = np.where(self.reason == 0, noise.trust, 0.0)
        self._drop(judged & (noise.trust < 0.5), MISLABELED, 1.0 - noise.trust)
        if noise.rate > tolerance and judged.any():
            least = least_trust(noise.trust[judged], tolerance)
            doubted = judged & (self.reason == 0) & (noise.trust < least)
            self._drop(doubted, IN_DOUBT, 1.0 - noise.trust)
        quiet = self.reason == 0
        self.probability[quiet] = np.maximum(self.probability, 1.0 - noise.trust)[quiet]
        likely = np.where(noise.likely >= 0, noise.likely, self.codes)
        unknown = noise.form == "none" and noise.unpredicted > _UNPREDICTED
        if unknown:
            _warn_of_unknown_noise()
        self.noise = {
            "suggested_labels": labels_at([*names, None] if np.any(likely < 0) else names, likely),
            "suggested_probability": noise.likely_probability,
            "noise_rate": None if unknown else noise.rate,
        }

    def screening(self) -> Screening:
        """Return what was found."""
        return Screening(self.reason == 0, self.probability, self.reason, **self.noise)

    def _drop(self, which: Any, reason: str, probability: Vector) -> None:
        self.reason[which] = _CODE[reason]
        self.probability[which] = probability[which]


def _warn_of_unknown_noise() -> None:
    warn_caller(
        GMMatchWarning(
            "Labels are hardly what the other rows predict: either many are wrong, or the classes overlap. Which of "
            "them are wrong cannot be told, so all are believed. Pass embeddings that tell the classes apart better, "
            "or check a sample of the labels."
        )
    )


def least_trust(trust: Vector, tolerance: float) -> float:
    """Return the least trust at which the expected share of wrong labels among the kept rows is the tolerance."""
    ranked = np.sort(trust)[::-1]
    wrong = np.cumsum(1.0 - ranked) / np.arange(1, len(ranked) + 1)
    count = int(np.searchsorted(wrong, tolerance, side="right"))
    return float(ranked[max(count, 1) - 1])
