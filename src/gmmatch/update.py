"""``update``: as many picks as before, from the old picks and new rows (merge and reduce).

Old rows are not read again. Each old pick stands for some of the rows of its class, and counts as much.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gmmatch import __version__
from gmmatch._array import Indices, Mask, Vector, array_namespace, asarray_like, is_torch_array
from gmmatch._checks import check_columns
from gmmatch.budget import largest_remainder
from gmmatch.errors import InvalidInputError, listed
from gmmatch.groups import Groups, Label, encode_labels, plain_label
from gmmatch.methods.record import fingerprint_rows
from gmmatch.methods.refine import swap_groups, weigh_groups
from gmmatch.methods.registry import method_from_record
from gmmatch.problem import Problem, Screen
from gmmatch.rows import Rows, open_rows
from gmmatch.screening.result import ScreeningResult
from gmmatch.selection.describe import drop_record_of_others
from gmmatch.selection.selection import Selection, check_ids
from gmmatch.targets import Targets

# What a selection does not hold of its rows, and new picks would need.
_UNKNOWN = ("scores", "pred_probs", "answers")
# How often to go over the picks and look for better ones.
_SWEEPS = 10


def update(
    selection: Selection, X_picked: Any, X_new: Any, y_new: Any = None, *, ids: Any = None
) -> Selection:
    """Return a selection of the same size from the picks of another and new rows.

    The same method picks again, with the same parameters and seed, from the old picks and the new rows. An old pick
    counts as much as the rows of its class that it stands for, a new row as one. A method that screens judges the new
    rows; the old picks stay candidates. New rows are numbered after the old ones.

    Parameters
    ----------
    selection : Selection
        What ``select`` or an earlier update returned.
    X_picked : array of shape (k, s)
        The rows of the picks, in the order of ``selection.indices``: ``selection.apply(X)``.
    X_new : array of shape (m, s), tensor, paths, store or Rows
        The new rows, which are read into memory.
    y_new : array of shape (m,), optional
        Their labels, if the picks were made with labels.
    ids : array of shape (m,) or callable, optional
        Their ids, if the picks have ids; or a function that returns the ids of row numbers.

    Returns
    -------
    Selection
        Of all rows so far. Its provenance lists the updates, and the number of rows that each pick stands for.

    Examples
    --------
    >>> from gmmatch import Herding
    >>> X = np.random.default_rng(0).standard_normal((300, 2))
    >>> first = Herding(k=10).select(X[:200])
    >>> second = update(first, first.apply(X[:200]), X[200:])
    >>> second.k, second.n_rows, round(sum(second.provenance["represented"]))
    (10, 300, 300)
    """
    y_new = getattr(X_new, "labels", None) if y_new is None else y_new
    ids = getattr(X_new, "ids", None) if ids is None and selection.order_ids is not None else ids
    with open_rows(X_picked, name="X_picked") as picked, open_rows(X_new, name="X_new") as new:
        _check(selection, picked, new, y_new, ids)
        rows, identity = _stack(picked, new, X_new), _identify(new, y_new)
    if selection.provenance.get("input", {}).get("fingerprint") == identity["fingerprint"]:
        raise InvalidInputError("X_new has the rows that the picks were made from: give new rows.")
    labels = _join_labels(selection, y_new, identity["n_rows"])
    groups = Groups.of(labels, len(rows), warn=False)
    method = method_from_record(selection.provenance, **_share_picks(selection, groups))
    if method.screening is not None:
        method.screening = ScreenNewRows(method.screening, selection.k)
    weights = np.concatenate([_old_weights(selection), np.ones(identity["n_rows"])])
    steps = selection.provenance.get("preprocess") or None
    with method.open_problem(rows, labels, sample_weight=weights, preprocess=steps) as problem:
        targets = _merge_targets(method, problem, selection.k)
        order = method.pick(problem, targets)
        if hasattr(method, "target"):  # picked one after another from few rows, they would match less well
            owners = np.repeat(np.arange(len(problem.quotas)), problem.quotas)
            order, _ = swap_groups(problem, targets, order, owners, _SWEEPS)
        result = Selection.of(problem, targets, order, ids=None, provenance={})
        # Equal weights would pass on the error of the picks, which would grow with each update.
        totals = _sum_weights(problem.groups, problem.weights)
        represented = weigh_groups(problem, targets, result.order, result.group_of_pick, totals)
    return _join(
        selection,
        result,
        groups,
        ids,
        {**problem.record, "represented": represented.round(6).tolist()},
        identity,
    )


def is_updated_by(selection: Selection, X_new: Any, y_new: Any = None) -> bool:
    """Return whether these rows are those of the last update of a selection.

    Examples
    --------
    >>> is_updated_by(Selection([0], 3), [[1.0]])
    False
    """
    updates = selection.provenance.get("updates", [])
    with open_rows(X_new, name="X_new") as new:
        return bool(updates) and _identify(new, y_new).items() <= updates[-1].items()


@dataclass(frozen=True)
class ScreenNewRows:
    """Screen the new rows; the old picks, which come first, were screened before.

    Attributes
    ----------
    screening : Screen
        What judges all rows together.
    n_old : int
        The number of old picks.
    """

    screening: Screen
    n_old: int

    def apply(self, problem: Problem) -> Problem:
        """Return the problem without the new rows that should not be picked."""
        groups, old = problem.groups, np.arange(len(problem.weights)) < self.n_old
        new = groups.count(problem.available & ~old)
        # A screening is the stricter, the less of a class is picked.
        quotas = -(-problem.quotas * new // np.maximum(groups.count(problem.available), 1))
        screened = self.screening.apply(replace(problem, available=problem.available & ~old, quotas=quotas))
        # The new rows that are left stand for all new rows of their class that nothing speaks against.
        groups, result = screened.groups, screened.screening
        trusted = groups.count(~old if result is None else result.trusted & ~old)
        left = _sum_weights(groups, np.where(old, 0.0, screened.weights))
        scale = np.where(left > 0.0, trusted / np.where(left > 0.0, left, 1.0), 0.0)[groups.codes]
        weights = np.where(old, problem.weights, screened.weights * scale)
        together = replace(screened, available=problem.available, quotas=problem.quotas, weights=weights)
        return together.restrict(old | screened.available)


def _merge_targets(method: Any, problem: Problem, n_old: int) -> Any:
    """Return the target of the new rows, merged with the mean of the old picks, which matches the target of old rows.

    The median of picks that match a median is another one: it would move with each update.
    """
    targets, groups = method.targets(problem), problem.groups
    if not isinstance(targets, Targets) or not hasattr(method, "target"):
        return targets
    old = np.arange(len(problem.weights)) < n_old
    sides = [np.where(side, problem.weights, 0.0) for side in (old, ~old)]
    totals = np.array([_sum_weights(groups, side) for side in sides])[:, :, None]
    merged: Mask = np.all(totals > 0.0, axis=(0, 2))
    if not merged.any():
        return targets
    picked = problem.rows.group_means(groups.codes, sides[0], len(groups))
    new = method.targets(replace(problem, weights=np.where(merged[groups.codes] & old, 0.0, problem.weights)))
    points = (totals[0] * picked + totals[1] * new.points) / totals.sum(axis=0)
    return Targets(np.where(merged[:, None], points, targets.points), new.details)


def _sum_weights(groups: Groups, weights: Vector) -> Vector:
    grouped = groups.codes >= 0
    return np.asarray(np.bincount(groups.codes[grouped], weights[grouped], minlength=len(groups)), np.float64)


def _check(selection: Selection, picked: Rows, new: Rows, y_new: Any, ids: Any) -> None:
    record = selection.provenance
    unknown = [name for name in _UNKNOWN if name in record.get("input", {})]
    unknown += ["reference"] * ("reference" in record)
    if unknown:
        raise InvalidInputError(f"The picks were made with {unknown[0]}=, which they lack: select again.")
    if len(picked) != selection.k:
        raise InvalidInputError(
            f"X_picked has {len(picked):,} rows, but there are {selection.k:,} picks: give selection.apply(X)."
        )
    check_columns(new, picked, "X_new", "X_picked")
    by_class, per_class = selection.classes != [None], record.get("parameters", {}).get("per_class")
    if by_class and y_new is None:
        raise InvalidInputError("y_new: the picks are per class; give the labels of the new rows.")
    if not by_class and y_new is not None and per_class is not None:
        raise InvalidInputError("y_new: the picks were made without labels; leave out those of the new rows.")
    if (selection.order_ids is None) != (ids is None):
        remedy = "have no ids: leave out those" if ids is not None else "have ids: give those"
        raise InvalidInputError(f"ids: the picks {remedy} of the new rows.")


def _stack(picked: Rows, new: Rows, X_new: Any) -> Any:
    """Return the old picks and the new rows as one array, on the device of the new rows."""
    old = picked.map_blocks(_copy)
    if is_torch_array(X_new):
        xp = array_namespace(X_new)
        return xp.concat([xp.astype(asarray_like(old, X_new), X_new.dtype), X_new])
    return np.concatenate([old, new.map_blocks(_copy)])


def _copy(block: Any) -> Any:
    return block


def _identify(new: Rows, y_new: Any) -> dict[str, Any]:
    """Return what tells these new rows from others."""
    identity = {"n_rows": len(new), "fingerprint": fingerprint_rows(new)}
    if y_new is not None:
        identity["labels"] = hashlib.sha256(repr(_plain_labels(y_new)).encode()).hexdigest()[:32]
    return identity


def _plain_labels(y: Any) -> list[Label]:
    codes, values = encode_labels(y)
    labels = [plain_label(value) for value in values]
    return [labels[code] for code in codes.tolist()]


def _join_labels(selection: Selection, y_new: Any, n_new: int) -> list[Label] | None:
    """Return the labels of the old picks, by row number, and of the new rows."""
    if y_new is None:
        return None
    new = _plain_labels(y_new)
    if len(new) != n_new:
        raise InvalidInputError(f"y_new has {len(new):,} labels for {n_new:,} new rows: give one for each.")
    kinds = [
        {isinstance(label, str) for label in side if label is not None} for side in (selection.classes, new)
    ]
    if all(kinds) and not kinds[0] & kinds[1]:
        raise InvalidInputError(
            f"y_new holds labels such as {listed(dict.fromkeys(new), 3)}, and the classes of the picks are "
            f"{listed(selection.classes, 3)}: give labels of the same kind."
        )
    return [*selection.labels.tolist(), *new]


def _old_weights(selection: Selection) -> Vector:
    """Return how many rows each old pick stands for, by row number."""
    weights, sizes = selection.order_weights, selection.group_sizes
    represented, result = selection.provenance.get("represented", []), selection.screening
    if len(represented) == selection.k:
        weights = np.asarray(represented, dtype=np.float64)
    elif weights is None:
        if result is not None and result.labels == selection.classes:
            # Rows that were not trusted did not count in the target.
            sizes = np.bincount(result.given[result.trusted & (result.given >= 0)], minlength=len(sizes))
        owners = selection.group_of_pick
        weights = (sizes / np.maximum(np.bincount(owners, minlength=len(sizes)), 1))[owners]
    return weights[np.argsort(selection.order, kind="stable")]


def _share_picks(selection: Selection, groups: Groups) -> dict[str, Any]:
    """Return ``k`` and ``per_class``: as many picks as before, shared by all rows that the classes have had."""
    per_class = selection.provenance["parameters"]["per_class"]
    if per_class is None or groups.labels == [None]:
        return {"k": selection.k, "per_class": per_class}
    capacities, sizes = groups.count(groups.codes >= 0), _count_rows(selection, groups)
    if isinstance(per_class, str):
        quotas = largest_remainder(selection.k, np.ones_like(sizes) if per_class == "balanced" else sizes)
    else:
        quotas = np.array([selection.counts.get(label, 0) for label in groups.labels])
    quotas = np.minimum(quotas, capacities)
    while (missing := min(selection.k, int(capacities.sum())) - int(quotas.sum())) > 0:
        # What a class cannot give, the others do.
        quotas = np.minimum(quotas + largest_remainder(missing, capacities - quotas), capacities)
    return {"k": None, "per_class": dict(zip(groups.labels, quotas.tolist(), strict=True))}


def _count_rows(selection: Selection, groups: Groups) -> Indices:
    """Return how many rows each group has had by now."""
    known = dict(zip(selection.classes, selection.group_sizes.tolist(), strict=True))
    new = groups.count(np.arange(len(groups.codes)) >= selection.k)
    return new + np.array([known.get(label, 0) for label in groups.labels], dtype=np.int64)


def _join(
    old: Selection,
    result: Selection,
    groups: Groups,
    ids: Any,
    record: dict[str, Any],
    identity: dict[str, Any],
) -> Selection:
    """Return a selection from old picks and new rows as one from all rows."""
    n_new = identity["n_rows"]
    numbers = np.concatenate([old.indices, old.n_rows + np.arange(n_new)])
    order = numbers[result.order]
    if "relabeled" in record:
        record["relabeled"] = {**record["relabeled"], "rows": numbers[record["relabeled"]["rows"]].tolist()}
    names = {"screening", "relabeled", "represented"} & record.keys()
    kept: dict[str, Any] = {name: record[name] for name in names}
    note = {**identity, "version": __version__, "picks_replaced": int((result.order >= old.k).sum())}
    updates = [*old.provenance.get("updates", []), note]
    # Classes without a pick and without a new row come last, as they were.
    gone = [i for i, label in enumerate(old.classes) if label not in groups.labels]
    return Selection(
        order, old.n_rows + n_new, classes=[*groups.labels, *(old.classes[i] for i in gone)],
        group_of_pick=result.group_of_pick, group_sizes=[*_count_rows(old, groups), *old.group_sizes[gone]],
        residuals=result.residuals, ids=None if ids is None else _join_ids(old, ids, n_new, result.order),
        provenance={**drop_record_of_others(old.provenance, order), **kept, "updates": updates},
        screening=_join_screenings(old, result.screening, numbers),
    )  # fmt: skip


def _join_ids(selection: Selection, ids: Any, n_new: int, positions: Indices) -> list[Any]:
    """Return the ids of picks, given by their positions among old picks and new rows."""
    assert selection.ids is not None
    late = positions >= selection.k
    new = positions[late] - selection.k
    fresh = ids(new) if callable(ids) else check_ids(ids, n_new, "new rows")[new]
    names = np.empty(len(positions), dtype=object)
    names[~late] = selection.ids[positions[~late]]
    names[late] = list(fresh)
    return [name.item() if hasattr(name, "item") else name for name in names]


def _join_screenings(old: Selection, new: ScreeningResult | None, numbers: Indices) -> ScreeningResult | None:
    """Return what is known of all rows: old rows as they were judged then, new rows as they are judged now."""
    before, k = old.screening, old.k
    if before is None or new is None:
        return None
    labels = list(dict.fromkeys([*before.labels, *new.labels]))
    lookups = [np.array([*(labels.index(label) for label in side.labels), -1]) for side in (before, new)]
    arrays = {
        name: np.concatenate([getattr(before, name), getattr(new, name)[k:]])
        for name in ("verdict_codes", "reason_codes", "probability", "suspicion", "confidence")
    }
    for name in ("given", "suggested_codes"):
        codes = lookups[0][getattr(before, name)], lookups[1][getattr(new, name)[k:]]
        arrays[name] = np.concatenate(codes)
    copies = np.where(new.duplicate_of >= 0, numbers[new.duplicate_of], -1)[k:]
    shares, rate, interval = np.array([len(before), len(new) - k]) / len(arrays["given"]), None, None
    if before.noise_rate is not None and new.noise_rate is not None:
        rate = float(shares @ [before.noise_rate, new.noise_rate])
    if before.noise_interval is not None and new.noise_interval is not None:
        low, high = shares @ np.array([before.noise_interval, new.noise_interval])
        interval = (float(low), float(high))
    return replace(
        new, **arrays, duplicate_of=np.concatenate([before.duplicate_of, copies]), labels=labels,
        noise_rate=rate, noise_interval=interval, notes=list(dict.fromkeys([*before.notes, *new.notes])),
    )  # fmt: skip
