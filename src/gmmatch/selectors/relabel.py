"""``select(..., relabel=0.95)``: a row whose label is confidently wrong counts for its suggested class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.rows.checks import check_rows
from gmmatch.rows.parallel import resolve_jobs
from gmmatch.screening.corrected import check_confidence, corrected_labels
from gmmatch.screening.result import Screening
from gmmatch.screening.screen import TOLERANCE, ScreenMethod, screen
from gmmatch.selection.labels import group_rows
from gmmatch.selection.selection import Selection
from gmmatch.selectors.arguments import class_budgets, row_masks
from gmmatch.selectors.base import Selector
from gmmatch.selectors.provenance import recorded_parameters
from gmmatch.types import Indices, Mask, on_host


def select_relabeled(
    selector: Selector, X: Any, y: Any, min_confidence: float, arguments: dict[str, Any]
) -> Selection:
    """Select by labels of which those that are confidently known to be wrong are corrected.

    Rows and labels are screened once. A method that screens picks from the rows that passed and from those that were
    relabeled, without a second look at labels that the screening itself has made.

    Examples
    --------
    >>> import gmmatch as gm
    >>> truth = np.arange(300) % 3
    >>> X = 6.0 * np.eye(3, 8)[truth] + np.random.default_rng(0).standard_normal((300, 8))
    >>> y = np.where(np.arange(300) % 11 == 0, (truth + 1) % 3, truth)
    >>> selection = gm.select(X, y=y, k=300, method="herding", relabel=0.95)
    >>> int((selection.labels == truth).sum()) > int((y == truth).sum()) + 20
    True
    """
    check_confidence(min_confidence)
    if y is None:
        raise InvalidInputError("relabel= corrects labels, and y was not given: pass the labels.")
    if arguments.get("engine") is not None:
        raise InvalidInputError("relabel= does not run on an engine: leave it out, or the engine.")
    rows = check_rows(X, threads=resolve_jobs(selector.n_jobs))
    own = getattr(selector, "screen", None)
    method: ScreenMethod = "auto" if own in ("rows", "auto") else "labels"
    tolerance = getattr(selector, "tolerance", TOLERANCE)
    screening = screen(rows, y, method, tolerance=tolerance, n_jobs=selector.n_jobs)
    given = on_host(y)
    labels = corrected_labels(given, screening, min_confidence)
    changed = np.array([new != old for new, old in zip(labels.tolist(), given.tolist(), strict=True)])
    if own is None:
        found = selector.select(rows, labels, **arguments)
    else:
        found = _from_trusted(selector, rows, labels, screening, changed, arguments)
    found.provenance["relabeled"] = _record(found, given, changed, screening, min_confidence)
    return found


def _from_trusted(
    selector: Any,
    rows: Any,
    labels: NDArray[Any],
    screening: Screening,
    changed: Mask,
    arguments: dict[str, Any],
) -> Selection:
    """Let a method that screens pick from the rows that passed the screening and from those that were relabeled."""
    trusted = screening.kept | changed
    inside, outside = row_masks(arguments.get("include"), arguments.get("exclude"), len(rows))
    budget = _shares(selector, labels, outside, trusted | inside, screening)
    assert screening.suggested_probability is not None
    chance = np.where(changed, screening.suggested_probability, 1.0 - screening.probability)
    weights = np.where(trusted | inside, np.maximum(chance, 1e-6), 0.0)
    if arguments.get("sample_weight") is not None:
        weights = weights * np.asarray(arguments["sample_weight"], dtype=np.float64)
    plain = type(selector)(**{**selector.get_params(deep=False), "screen": "none", **budget.parameters})
    weights[budget.added] = 1e-6
    closed = ~trusted & ~inside
    closed[budget.added] = False
    more = {"exclude": closed | outside, "sample_weight": weights}
    found = plain.select(rows, labels, **{**arguments, **more})
    found.provenance["parameters"] = recorded_parameters(selector)
    reason = np.where(changed, 0, screening.reason).astype(np.int8)
    return Selection(
        found.order,
        found.n_rows,
        found.groups,
        found.order_ids,
        found.provenance,
        replace(screening, kept=trusted, reason=reason),
    )


@dataclass(frozen=True, eq=False)
class _Budget:
    """How many rows of each class are picked, and rows that are added to classes with too few trusted ones."""

    parameters: dict[str, Any]
    added: Indices


def _shares(
    selector: Any, labels: NDArray[Any], outside: Mask, trusted: Mask, screening: Screening
) -> _Budget:
    """Share the picks among all rows of the corrected classes, and not the trusted ones alone."""
    per_class = class_budgets(selector.per_class, labels)
    groups = group_rows(labels, n=len(labels), per_class=per_class, unlabeled="group")
    if per_class is not None and selector.unlabeled == "drop":
        groups = [group for group in groups if group.label is not None]
    shares = selector._shares(groups, per_class, outside, None).tolist()
    added = [np.empty(0, dtype=np.int64)]
    for group, share in zip(groups, shares, strict=True):
        usable = group.rows[~outside[group.rows]]
        closed = usable[~trusted[usable]]
        short = max(0, share - (len(usable) - len(closed)))
        added.append(closed[np.argsort(screening.probability[closed], kind="stable")[:short]])
    if any(group.label is None for group in groups):
        return _Budget({"k": sum(shares)}, np.concatenate(added))
    counts = {group.label: share for group, share in zip(groups, shares, strict=True)}
    return _Budget({"k": None, "per_class": counts}, np.concatenate(added))


def _record(
    selection: Selection, given: NDArray[Any], changed: Mask, screening: Screening, min_confidence: float
) -> dict[str, Any]:
    """Return what a selection remembers: how many labels were corrected, and those of its picks."""
    rows = np.unique(selection.indices[changed[selection.indices]])
    assert screening.suggested_probability is not None
    return {
        "min_confidence": min_confidence,
        "n_rows": int(changed.sum()),
        "rows": rows.tolist(),
        "given": given[rows].tolist(),
        "confidence": screening.suggested_probability[rows].round(6).tolist(),
    }
