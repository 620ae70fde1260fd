"""``select(..., relabel=0.95)``: a row whose label is confidently wrong counts for its suggested class."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.rows.parallel import resolve_jobs
from gmmatch.rows.preprocessing import fit_steps, parse_steps
from gmmatch.screening.corrected import check_confidence, relabeled
from gmmatch.screening.result import Screening
from gmmatch.screening.screen import TOLERANCE
from gmmatch.selection.labels import Groups, group_rows
from gmmatch.selection.selection import Selection
from gmmatch.selectors._robust import CORRECTED, Robust
from gmmatch.selectors.base import Selector
from gmmatch.selectors.screened import screen_readable
from gmmatch.types import Mask


def select_relabeled(
    selector: Selector, X: Any, y: Any, min_confidence: float, arguments: dict[str, Any]
) -> Selection:
    """Select by labels of which those that are confidently known to be wrong are corrected.

    Rows and labels are screened once. A method that screens picks relabeled rows where a class has too few others
    whose label is more likely right than wrong, without a second look at labels that the screening itself made.

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
    method: Literal["auto", "labels"] = "labels"
    tolerance = TOLERANCE
    if isinstance(selector, Robust):
        method, tolerance = "auto" if selector.screen in ("rows", "auto") else "labels", selector.tolerance
    arguments, threads = dict(arguments), resolve_jobs(selector.n_jobs)
    with selector.opened(X, arguments.pop("engine", None), arguments.get("sample_weight")) as rows:
        steps = parse_steps(selector.preprocess) + selector._own_steps()
        seen, _ = fit_steps(rows, steps, threads, among=rows.readable)
        groups = group_rows(y, n=len(rows), unlabeled="group")
        screening, trust = screen_readable(seen, groups, method, tolerance, threads)
        labels, changed = relabeled(y, screening, min_confidence)
        if isinstance(selector, Robust):
            # Rows that can be corrected are the easiest of their class, and a model learns little from them. So they
            # are the reserve: no part of the target, and picked before any row whose label is likely wrong.
            reserve = replace(
                screening,
                probability=np.where(changed, 0.5, screening.probability),
                reason=np.where(changed, len(screening.reasons), screening.reason).astype(np.int8),
                reasons=(*screening.reasons, CORRECTED),
            )
            selector = copy(selector)
            selector.known = reserve, np.where(changed, 0.0, trust)  # type: ignore[misc]
        found = selector.select(rows, labels, **arguments)
    found.provenance["relabeled"] = _record(found, groups, changed, screening, min_confidence)
    return found


def _record(
    selection: Selection, groups: Groups, changed: Mask, screening: Screening, min_confidence: float
) -> dict[str, Any]:
    """Return what a selection remembers: how many labels were corrected, and those of its picks."""
    rows = np.unique(selection.indices[changed[selection.indices]])
    assert screening.suggested_probability is not None
    return {
        "min_confidence": min_confidence,
        "n_rows": int(changed.sum()),
        "rows": rows.tolist(),
        "given": [groups.labels[code] for code in groups.codes(len(changed))[rows]],
        "confidence": screening.suggested_probability[rows].round(6).tolist(),
    }
