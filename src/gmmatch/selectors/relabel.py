"""``select(..., relabel=0.95)``: a row whose label is confidently wrong counts for its suggested class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.rows.checks import check_rows
from gmmatch.rows.parallel import resolve_jobs
from gmmatch.screening.corrected import check_confidence, corrected_labels
from gmmatch.screening.result import Screening
from gmmatch.screening.screen import TOLERANCE, ScreenMethod, screen
from gmmatch.selection.budget import resolve_count
from gmmatch.selection.selection import Selection
from gmmatch.selectors.arguments import row_masks
from gmmatch.selectors.base import DEFAULT_SHARE, Selector
from gmmatch.types import Mask, on_host


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
    assert screening.suggested_probability is not None
    chance = np.where(changed, screening.suggested_probability, 1.0 - screening.probability)
    weights = np.where(trusted | inside, np.maximum(chance, 1e-6), 0.0)
    if arguments.get("sample_weight") is not None:
        weights = weights * np.asarray(arguments["sample_weight"], dtype=np.float64)
    k = DEFAULT_SHARE if selector.k is None else selector.k
    if not isinstance(selector.per_class, dict):
        k = resolve_count(k, int((~outside).sum()))
    plain = type(selector)(**{**selector.get_params(deep=False), "screen": "none", "k": k})
    more = {"exclude": (~trusted & ~inside) | outside, "sample_weight": weights}
    found = plain.select(rows, labels, **{**arguments, **more})
    reason = np.where(changed, 0, screening.reason).astype(np.int8)
    return Selection(
        found.order,
        found.n_rows,
        found.groups,
        found.order_ids,
        found.provenance,
        replace(screening, kept=trusted, reason=reason),
    )


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
