"""``screen``: which rows may be picked, from the rows and, where there are any, their labels."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cuda.blocks import on_device
from gmmatch.errors import InvalidInputError
from gmmatch.rows.checks import check_rows
from gmmatch.rows.parallel import one_blas_thread, resolve_jobs
from gmmatch.rows.rows import Rows
from gmmatch.screening.contrast import (
    FEWEST,
    TOLERANCE,
    Contrast,
    contrast_labels,
    threshold,
)
from gmmatch.screening.core import core_screening, leading_axes, robust_center
from gmmatch.screening.device_points import points_of
from gmmatch.screening.foreign import foreign_odds
from gmmatch.screening.heaps import heap_odds
from gmmatch.screening.points import Points
from gmmatch.screening.result import FAR_OUT, OTHER_CLASS, REASONS, Screening, labels_at
from gmmatch.screening.scales import scale_odds
from gmmatch.selection.labels import Group, group_rows
from gmmatch.types import Indices, Mask, Vector

# Wider rows are seen along their widest directions: so many at most, and fewer where there are few rows.
_WIDTH = 1024
_LEAST_WIDTH = 32
_ROWS_PER_DIRECTION = 10
# Rows that tell less about their class than this (see `Channel.clearness`) cannot tell right labels from wrong ones.
_CLEAR = 0.45
# A share of foreign rows up to this one does not bend the models of the classes.
_BENDS = 0.02
# How often groups blind to the class are sought: again if many were found, without them.
_ROUNDS = 2
_UNCLEAR = "labels not judged: the rows tell too little about their class"

Search = Callable[[Points, Indices, Mask, Contrast], Vector]

ScreenMethod = Literal["auto", "contrast", "core", "none"]


@dataclass(frozen=True)
class Screened:
    """A screening, what is recorded of it, and what it learnt of the classes.

    ``responsibilities`` holds the probability of each judged class (a column; ``columns`` says which group
    each stands for) for the rows numbered ``judged``, and ``doubt`` the probability that a row's label is wrong;
    None without labels to compare.
    """

    screening: Screening
    details: dict[str, Any]
    judged: Indices | None = None
    columns: Indices | None = None
    responsibilities: NDArray[np.float32] | None = None
    doubt: Vector | None = None


def screen(
    X: Any,
    y: Any = None,
    method: ScreenMethod = "auto",
    *,
    n_modes: int | None = None,
    tolerance: float = TOLERANCE,
    n_jobs: int | None = -1,
) -> Screening:
    """Find out which rows of ``X`` are worth picking from.

    Parameters
    ----------
    X : array of shape (n, s)
        Rows (embeddings).
    y : array of shape (n,), optional
        Labels; rows without one are not judged.
    method : "auto", "contrast", "core" or "none"
        "contrast" drops rows whose label is likely wrong. "core" drops rows far from the densest majority,
        with labels in each class. "auto" is "core" without labels; with labels it is "contrast", and
        drops rows that are grossly far out, that differ from every class in one way, as noise or blur
        make them, or that vary far more or less than their class does.
    n_modes : int, optional
        For "core": how many clusters the clean rows form. By default one, or as many as hang together.
    tolerance : float
        The expected share of wrong labels among the rows that are kept.
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
    Screening: 120 of 200 rows kept, 80 far from the core
    """
    rows = check_rows(X, threads=resolve_jobs(n_jobs))
    groups = group_rows(y, n=len(rows), unlabeled="group" if y is not None else "drop")
    check_screen_options(method, n_modes, tolerance)
    return screen_groups(rows, groups, method, n_modes, tolerance, resolve_jobs(n_jobs)).screening


def check_screen_options(method: str, n_modes: int | None, tolerance: float) -> None:
    """Raise for options that no data could make right."""
    if method not in ("auto", "contrast", "core", "none"):
        raise InvalidInputError(f'screen={method!r}: expected "auto", "contrast", "core" or "none".')
    whole = n_modes is None or (isinstance(n_modes, (int, np.integer)) and not isinstance(n_modes, bool))
    if not whole or (n_modes is not None and n_modes < 1):
        raise InvalidInputError(f"n_modes={n_modes!r}: expected a whole number of at least 1, or None.")
    if not isinstance(tolerance, (int, float, np.floating)) or not 0.0 < tolerance < 1.0:
        raise InvalidInputError(f"tolerance={tolerance!r}: expected a share above 0 and below 1.")


def screen_groups(
    rows: Rows, groups: list[Group], method: str, n_modes: int | None, tolerance: float, threads: int
) -> Screened:
    """Screen rows that are grouped already."""
    # Where the large products are a device's, threads would only wait for each other over the small ones.
    alone = threads == 1 or on_device(rows)
    with one_blas_thread() if alone else nullcontext():
        return _screen_groups(rows, groups, method, n_modes, tolerance, threads)


def _screen_groups(
    rows: Rows, groups: list[Group], method: str, n_modes: int | None, tolerance: float, threads: int
) -> Screened:
    judged = [number for number, group in enumerate(groups) if group.label is not None]
    if method == "none":
        return Screened(_nothing_dropped(len(rows)), {"screened": "none"})
    if method == "core" or not judged:
        if method == "contrast":
            raise InvalidInputError('screen="contrast" compares classes: pass labels, or use "core".')
        return _core_in_groups(rows, groups, n_modes, threads)
    judged = [number for number in judged if len(groups[number].rows) >= FEWEST]
    if len(judged) < 2:
        if method == "contrast":
            return Screened(_nothing_dropped(len(rows)), {"screened": "none: fewer than two classes"})
        return _core_in_groups(rows, groups, n_modes, threads)
    return _contrast(rows, groups, np.array(judged), method, tolerance, threads)


def _nothing_dropped(n: int) -> Screening:
    return Screening(np.ones(n, dtype=np.bool_), np.zeros(n), np.zeros(n, dtype=np.int8))


def _core_in_groups(rows: Rows, groups: list[Group], n_modes: int | None, threads: int) -> Screened:
    found = _nothing_dropped(len(rows))
    suspicion, reason = found.suspicion.copy(), found.reason.copy()
    for group in groups:
        part = core_screening(rows.subset(group.rows), n_modes, threads)
        suspicion[group.rows], reason[group.rows] = part.suspicion, part.reason
    screening = Screening(reason == 0, suspicion, reason)
    return Screened(screening, {"screened": "core", "dropped": screening.counts})


class _Judged(NamedTuple):
    """What labels and rows say of each other; whether that is much; the trust in each label and the least that
    is kept; how foreign each row is, above 0 if it is dropped."""

    contrast: Contrast
    clear: bool
    trust: Vector
    least: float
    foreign: Vector


def _judge(
    points: Points, codes: Indices, gross: Mask, n_classes: int, seek_foreign: bool, tolerance: float
) -> _Judged:
    """Judge labels and seek foreign rows in turn: much that is foreign bends the models of the classes."""
    foreign = np.full(len(codes), -np.inf)
    # First what bends the models most; a large heap may be found piece by piece.
    left: dict[Search, int] = {heap_odds: 3, scale_odds: 2}
    rounds = _ROUNDS
    while True:
        used = ~gross & (foreign <= 0.0)
        contrast = contrast_labels(points, codes, used, n_classes)
        clear = contrast.channel.clearness >= _CLEAR
        trust = np.where(gross, 0.0, contrast.trust(codes)) if clear else np.where(gross, 0.0, 1.0)
        least = threshold(trust[used], tolerance) if used.any() else 0.5
        if not seek_foreign:
            break
        odds = _first_found(left, points, codes, used, contrast)
        if odds is not None:
            foreign = np.maximum(foreign, odds)
            continue
        odds = foreign_odds(points, codes, used & (trust >= least), contrast)
        foreign = np.maximum(foreign, odds)
        rounds -= 1
        if not rounds or np.count_nonzero(odds > 0.0) <= _BENDS * len(odds):
            break
    return _Judged(contrast, clear, trust, least, foreign)


def _first_found(
    left: dict[Search, int], points: Points, codes: Indices, used: Mask, contrast: Contrast
) -> Vector | None:
    """Return the odds of the first search that finds something; one that finds nothing is not made again."""
    for search in left:
        if left[search]:
            left[search] -= 1
            odds = search(points, codes, used, contrast)
            if (odds > 0.0).any():
                return odds
            left[search] = 0
    return None


def _contrast(
    rows: Rows, groups: list[Group], judged: Indices, method: str, tolerance: float, threads: int
) -> Screened:
    """Compare the classes numbered ``judged``; rows of others, or without a label, are only checked for size."""
    members = np.concatenate([groups[number].rows for number in judged])
    codes = np.repeat(np.arange(len(judged)), [len(groups[number].rows) for number in judged])
    order = np.argsort(members, kind="stable")
    members, codes = members[order], codes[order]
    center = robust_center(rows, threads)
    gross = center.gross[members]
    points = points_of(rows.subset(members), center.point, center.typical or 1.0)
    width = int(np.clip(len(members) // _ROWS_PER_DIRECTION, _LEAST_WIDTH, _WIDTH))
    if rows.n_features > width:
        points = replace(points, axes=leading_axes(rows, center, width).astype(np.float32))
    found = _judge(points, codes, gross, len(judged), method == "auto", tolerance)
    contrast, clear, trust, least, foreign = found
    wrong = _log_odds(1.0 - trust) - _log_odds(np.array([1.0 - least]))[0]
    # Rounding aside, a row at the threshold stays.
    wrong = np.where(trust >= least, np.minimum(wrong, 0.0), np.maximum(wrong, 1e-12))
    suspicion, reason = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.int8)
    suspicion[members] = np.maximum(wrong, foreign)
    reason[members] = np.where(wrong > 0.0, REASONS.index(OTHER_CLASS), 0)
    reason[members[foreign > 0.0]] = REASONS.index(FAR_OUT)
    suspicion[center.gross] = np.maximum(center.suspicion[center.gross], 1e-12)
    reason[center.gross] = REASONS.index(FAR_OUT)
    labels = labels_at([groups[number].label for number in judged], contrast.looks_like)
    looks_like = np.empty(len(rows), dtype=labels.dtype if len(members) == len(rows) else object)
    looks_like[members] = labels
    screening = Screening(
        reason == 0, suspicion, reason, looks_like=looks_like, note="" if clear else _UNCLEAR
    )
    details = {
        "screened": method,
        "dropped": screening.counts,
        "estimated_label_noise": contrast.channel.noise,
        "least_trust": least,
        "clearness": contrast.channel.clearness,
        "discriminant": "linear" if contrast.linear else "kernel",
    }
    if not clear:
        details["note"] = _UNCLEAR
    clean = _for_target(contrast, codes, clear, foreign, gross)
    doubt = np.zeros(len(rows))
    doubt[members] = 1.0 - trust
    return Screened(screening, details, members, judged, clean, doubt)


def _for_target(
    contrast: Contrast, given: Indices, clear: bool, foreign: Vector, gross: Mask
) -> NDArray[np.float32]:
    """Return the responsibilities with nothing left of rows that belong to no class."""
    clean = contrast.responsibilities.copy()
    if not clear:
        clean[:] = 0.0
        clean[np.arange(len(given)), given] = 1.0
    clean[(foreign > 0.0) | gross] = 0.0
    return clean


def _log_odds(share: Vector) -> Vector:
    bounded = np.clip(share, 1e-9, 1.0 - 1e-9)
    found: Vector = np.log(bounded) - np.log1p(-bounded)
    return found
