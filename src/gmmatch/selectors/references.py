"""``reference=``: the reference rows, checked, preprocessed and split by class."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gmmatch.errors import InvalidInputError, listed
from gmmatch.rows.checks import check_fraction, check_rows
from gmmatch.rows.parallel import resolve_jobs
from gmmatch.rows.rows import Rows
from gmmatch.selection.labels import Group, group_rows
from gmmatch.selectors.provenance import fingerprint, label_fingerprint
from gmmatch.targets.reference import Reference

if TYPE_CHECKING:
    from gmmatch.selectors.base import Request
    from gmmatch.selectors.moment_matching import MomentMatching


def check_reference(selector: MomentMatching) -> None:
    """Raise for a weight that makes no sense."""
    check_fraction(selector.reference_weight, "reference_weight")
    if selector.reference is None and selector.reference_weight != 1.0:
        raise InvalidInputError(
            "reference_weight= goes with reference=: give the rows to follow, or leave it out."
        )


def with_references(selector: MomentMatching, request: Request) -> Request:
    """Return the request with the rows that each group is to follow."""
    if selector.earlier is not None:
        return replace(request, references=selector.earlier.moments(request.groups))
    if selector.reference is None:
        return request
    rows, labels = _opened(selector.reference, resolve_jobs(selector.n_jobs))
    if rows.n_features != request.rows.n_features:
        raise InvalidInputError(
            f"reference has {rows.n_features:,} columns and X has {request.rows.n_features:,}: both must be "
            "made by the same encoder."
        )
    by_label = None if labels is None else _groups(labels, rows)
    record: dict[str, Any] = {
        "n_rows": len(rows), "weight": selector.reference_weight, "fingerprint": fingerprint(rows),
    }  # fmt: skip
    if by_label is not None:
        record["labels"] = label_fingerprint(by_label)
    for row_map in request.maps:
        rows = rows.mapped(row_map)
    found: list[Any] = _by_group(request, by_label, rows.made(), selector.reference_weight)
    return replace(request, references=found).recording(reference=record)


def _opened(given: Any, threads: int) -> tuple[Rows, Any]:
    pair = isinstance(given, (tuple, list)) and len(given) == 2 and np.ndim(given[0]) != 1
    rows, labels = given if pair else (given, None)
    return check_rows(rows, name="reference", threads=threads), labels


def _groups(labels: Any, rows: Rows) -> list[Group]:
    try:
        return [
            group for group in group_rows(labels, n=len(rows), unlabeled="group") if group.label is not None
        ]
    except InvalidInputError as error:
        raise InvalidInputError(f"The labels of the reference: {error}") from None


def _by_group(
    request: Request, by_label: list[Group] | None, rows: Rows, weight: float
) -> list[Reference | None]:
    """Return what each group follows: the reference rows of its label, or all of them."""
    everything = Reference(rows, weight)
    if by_label is None:
        return [everything] * len(request.groups)
    places = {(type(group.label), group.label): group.rows for group in by_label}
    found: list[Reference | None] = []
    for group, share in zip(request.groups, request.shares.tolist(), strict=True):
        own = places.get((type(group.label), group.label))
        if group.label is None:
            found.append(everything)
        elif own is not None:
            found.append(Reference(rows.subset(own), weight))
        elif not share:
            found.append(None)
        else:
            known = listed((one.label for one in by_label), 5)
            raise InvalidInputError(
                f"reference has no rows of class {group.label!r} (its classes: {known}): leave out its labels, and "
                "every class follows all of its rows; or pick no rows of that class (per_class={...})."
            )
    return found
