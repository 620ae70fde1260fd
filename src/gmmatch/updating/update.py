"""``Selection.update``: as many picks as before, from the old picks and new rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError, listed
from gmmatch.rows.checks import check_rows
from gmmatch.rows.rows import Rows
from gmmatch.screening.result import Screening
from gmmatch.selection.groups import SelectedGroups, frozen_ids
from gmmatch.selection.labels import distinct_values, group_rows, plain_label
from gmmatch.selection.record import record_of_others
from gmmatch.selection.selection import Selection
from gmmatch.selectors.provenance import fingerprint, label_fingerprint
from gmmatch.selectors.registry import method_class
from gmmatch.types import Indices, is_tensor, offsets_of, on_host
from gmmatch.updating.earlier import Earlier


def update_selection(selection: Selection, X: Any, y: Any = None, ids: Any = None) -> Selection:
    """Return a selection of the same size from the picks of another and new rows.

    The old picks and the new rows are what is picked from. The target is that of all rows so far: the earlier one and
    that of the new rows, mixed by what stands behind each.
    """
    past = selection.past
    if past is None:
        raise InvalidInputError(
            "This selection does not keep what an update needs: select with updatable=True (--updatable), and save "
            "it as .parquet."
        )
    new = check_rows(X)
    _check(selection, new, y, ids)
    record, k = selection.provenance, selection.k
    parameters = {
        name: value for name, value in record["parameters"].items() if name not in ("k", "per_class")
    }
    per_class = record["parameters"]["per_class"]
    per_class = dict(per_class) if isinstance(per_class, list) else per_class
    selector: Any = method_class(record["method"])(
        **parameters, k=k, per_class=per_class, random_state=record["seed"]
    )
    selector.earlier = Earlier(selection, past)
    found = selector.select(
        _together(past.rows, X, new),
        _labels(selection, y, len(new)),
        sample_weight=np.repeat([0.0, 1.0], [k, len(new)]),
        ids=_names(selection, ids, len(new)),
    )
    numbers = selector.earlier.numbered(np.arange(k + len(new)))
    return _renumbered(selection, found, numbers, _note(new, y, found, k))


def _check(selection: Selection, new: Rows, y: Any, ids: Any) -> None:
    width = selection.past.rows.shape[1] if selection.past is not None else 0
    if new.n_features != width:
        raise InvalidInputError(
            f"X has {new.n_features:,} columns, and the picks have {width:,}: embed the new rows by the same encoder."
        )
    classes = any(label is not None for label in selection.groups.labels)
    if classes and y is None:
        raise InvalidInputError("y: the picks are per class; give the labels of the new rows.")
    if not classes and y is not None and selection.provenance["parameters"]["per_class"] is not None:
        raise InvalidInputError("y: the picks were made without labels; leave out those of the new rows.")
    if (selection.order_ids is None) != (ids is None):
        said = "have no ids: leave out those" if selection.order_ids is None else "have ids: give those"
        raise InvalidInputError(f"ids: the picks {said} of the new rows.")


def _together(old: NDArray[Any], given: Any, new: Rows) -> Any:
    """Return the old picks and the new rows as one: on a device, in memory, or read when they are asked for."""
    if is_tensor(given) and given.is_cuda:
        import torch

        kind = given.dtype if given.dtype == torch.float64 else torch.float32
        return torch.cat([torch.as_tensor(old).to(given.device, kind), given.to(kind)])
    if isinstance(new.source, np.ndarray) and not new.on_disk and not new.bfloat16:
        return np.concatenate([old, new.source.astype(old.dtype, copy=False)])
    return StackedRows(old, new)


class StackedRows:
    """Rows in memory followed by rows that lie elsewhere."""

    bfloat16 = False

    def __init__(self, first: NDArray[Any], rest: Rows) -> None:
        self.first, self.rest = first, rest
        self.shape, self.dtype = (len(first) + len(rest), first.shape[1]), first.dtype
        self.on_disk = rest.on_disk

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Indices) -> NDArray[Any]:
        wanted = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows)
        out = np.empty((len(wanted), self.shape[1]), dtype=self.dtype)
        early = wanted < len(self.first)
        out[early] = self.first[wanted[early]]
        if not early.all():
            out[~early] = self.rest.gather(wanted[~early] - len(self.first), self.dtype)
        return out

    def row_source(self) -> StackedRows:
        """Return itself."""
        return self


def _labels(selection: Selection, y: Any, n: int) -> list[Any] | None:
    if y is None:
        return None
    codes, values = distinct_values(y)
    if len(codes) != n:
        raise InvalidInputError(f"y has {len(codes):,} labels for {n:,} new rows: give one for each.")
    old, new = selection.groups.labels, [plain_label(value) for value in values]
    kinds = [{isinstance(label, str) for label in labels if label is not None} for labels in (old, new)]
    if all(kinds) and not kinds[0] & kinds[1]:
        raise InvalidInputError(
            f"y holds labels such as {listed(new, 3)}, and the classes of the picks are {listed(old, 3)}: give "
            "the labels of the new rows in the same form."
        )
    numbers = np.concatenate([selection.group_of_pick, len(old) + on_host(codes)])
    return list(np.array([*old, *new], dtype=object)[numbers])


def _names(selection: Selection, ids: Any, n: int) -> Callable[[Indices], Any] | None:
    k = selection.k
    if selection.order_ids is None:
        return None
    old = selection.order_ids.tolist()
    known = ids if callable(ids) else frozen_ids(ids, n, "new rows")
    if not callable(known):
        frozen_ids([*old[:1], *known[:1].tolist()], len(old[:1]) + len(known[:1]), "rows")  # of one kind

    def named(rows: Indices) -> list[Any]:
        late = rows >= k
        given = known(rows[late] - k) if callable(known) else known[rows[late] - k]
        fresh = iter(given.tolist() if hasattr(given, "tolist") else given)
        return [next(fresh) if is_new else old[row] for row, is_new in zip(rows.tolist(), late, strict=True)]

    return named


def is_updated_by(selection: Selection, X: Any, y: Any = None) -> bool:
    """Tell whether the last update of a selection was one by these rows."""
    updates = selection.provenance.get("updates", [])
    identity = _identity(check_rows(X), y).items() if updates else ()
    return bool(updates) and all(updates[-1].get(name) == value for name, value in identity)


def _identity(new: Rows, y: Any) -> dict[str, Any]:
    """Return what tells these new rows from others."""
    labels = None if y is None else label_fingerprint(group_rows(y, n=len(new), unlabeled="group"))
    return {"n_rows": len(new), "fingerprint": fingerprint(new), "labels": labels}


def _note(new: Rows, y: Any, found: Selection, k: int) -> dict[str, Any]:
    """Return what the provenance says of an update."""
    identity = {name: value for name, value in _identity(new, y).items() if value is not None}
    replaced = int((found.order >= k).sum())
    return {**identity, "version": found.provenance["version"], "picks_replaced": replaced}


def _renumbered(old: Selection, found: Selection, numbers: Indices, note: dict[str, Any]) -> Selection:
    """Return a selection from old picks and new rows as one from all rows, the new ones after the old."""
    groups, now = found.groups, set(found.groups.labels)
    unpicked = np.subtract(old.groups.n_rows, old.groups.sizes).tolist()
    before = dict(zip(old.groups.labels, unpicked, strict=True))
    n_rows = [size + before.get(label, 0) for label, size in zip(groups.labels, groups.n_rows, strict=True)]
    # Classes without a pick or a new row come last, as they were.
    gone = [number for number, label in enumerate(old.groups.labels) if label not in now]
    renumbered = SelectedGroups(
        groups.labels + [old.groups.labels[number] for number in gone],
        n_rows + [old.groups.n_rows[number] for number in gone],
        numbers[groups.order],
        offsets_of([*groups.sizes, *[0] * len(gone)]),
        groups.residuals,
        offsets_of([*np.diff(groups.residual_offsets), *[0] * len(gone)]),
    )
    weights = found.order_weights
    if weights is not None:
        weights = weights * (np.array(n_rows) / np.maximum(groups.n_rows, 1))[found.group_of_pick]
    record = record_of_others(old.provenance, numbers[found.order])
    record["updates"] = [*old.provenance.get("updates", []), note]
    record |= {
        name: found.provenance[name] for name in ("screening", "duplicates") if name in found.provenance
    }
    record["groups"] = found.provenance["groups"] + [{}] * len(gone)
    assert old.past is not None and found.past is not None
    return Selection(
        numbers[found.order],
        old.n_rows + note["n_rows"],
        renumbered,
        found.order_ids,
        record,
        _screened(old, found.screening),
        weights,
        found.past.and_of(old.past, gone),
    )


def _screened(old: Selection, found: Screening | None) -> Screening | None:
    """Return what is known of all rows: the old picks and the new rows as they are judged now."""
    before = old.screening
    if before is None or found is None:
        return None
    k, n, m = old.k, old.n_rows, len(found) - old.k
    reasons = max(before.reasons, found.reasons, key=len)

    def joined(mine: Any, theirs: Any) -> Any:
        if mine is None or theirs is None:
            return None
        kind = object if object in (mine.dtype, theirs.dtype) else None
        out = np.concatenate([mine.astype(kind or mine.dtype), theirs[k:].astype(kind or theirs.dtype)])
        out[old.order] = theirs[:k]
        return out

    rates = before.noise_rate, found.noise_rate
    return Screening(
        joined(before.kept, found.kept), joined(before.probability, found.probability),
        joined(before.reason, found.reason), reasons,
        joined(before.suggested_labels, found.suggested_labels),
        joined(before.suggested_probability, found.suggested_probability),
        None if rates[0] is None or rates[1] is None else (n * rates[0] + m * rates[1]) / (n + m),
    )  # fmt: skip
