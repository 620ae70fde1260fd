"""Selecting from rows that are spread over the workers of an engine."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from gmmatch.backends.cluster.medians import Cluster, Progress, class_means, class_medians, class_spreads
from gmmatch.backends.cluster.picking import pick_classes
from gmmatch.backends.cluster.placement import Engine, Placement
from gmmatch.backends.cluster.requests import (
    Classes,
    engine_selector,
    labelled_groups,
    make_classes,
    make_specs,
    rows_of,
)
from gmmatch.backends.cluster.sources import Shards, UnreadableShardError, open_shards
from gmmatch.errors import ConvergenceWarning, FarRowWarning, NotFiniteError
from gmmatch.matching.walk import Picks
from gmmatch.median.result import FAR
from gmmatch.selection.groups import SelectedGroup, interleave
from gmmatch.selection.labels import Group, Label
from gmmatch.selection.selection import Selection
from gmmatch.selectors.arguments import check_ids
from gmmatch.selectors.base import GroupResult, _warn_of
from gmmatch.selectors.moment_matching import MomentMatching
from gmmatch.selectors.provenance import label_fingerprint, recorded_parameters
from gmmatch.types import Indices, Vector


def select_on(
    engine: Engine,
    source: Any,
    *,
    k: Any = None,
    y: Any = None,
    method: str = "gm-matching",
    ids: Any = None,
    skip_unreadable: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Selection:
    """Pick rows that lie in files, by the workers of an engine.

    The target is the geometric median (or mean) of each whole class; the picks are made by random batches that run
    side by side, as with ``carry=False``, and that correct at the end what they err by together. Rows, labels
    and seed decide the picks; the engine and the number of its workers do not.

    Parameters
    ----------
    engine : LocalEngine or RayEngine
        Where the work runs.
    source : path, address, list of these, Store or Shards
        A store, or ``.npy`` files whose rows follow one another. Every worker must be able to reach them.
    k : int, float or str, optional
        How many rows: a count (``500``) or a share (``0.1``, ``"10%"``).
    y : array of shape (n,), optional
        Labels; selection is then per class. ``open_shards(store).labels()`` are those of a store.
    method : "gm-matching", "herding" or "moment-matching"
        What to match.
    ids : array of shape (n,), optional
        Your own names of the rows.
    skip_unreadable : bool
        Whether to go on without files that cannot be read. They are listed in the provenance.
    progress : callable, optional
        Called as ``progress(phase, done, total)`` with phase "median" (classes) or "picks" (rows).
    **options
        ``per_class``, ``unlabeled``, ``random_state``, ``target``, ``normalize``, ``unit_target``, ``start``,
        ``batches``, ``eps``, ``max_iter`` and ``delta`` as for :class:`~gmmatch.GMMatching`.

    Returns
    -------
    Selection
        ``provenance["engine"]`` tells the workers, the bytes moved and what could not be read.

    Examples
    --------
    >>> import tempfile
    >>> from gmmatch.backends.cluster import LocalEngine
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/rows.npy", np.array([[0.0], [1.0], [2.0], [9.0]]))
    ...     select_on(LocalEngine(workers=2), f"{folder}/rows.npy", k=2).indices
    array([0, 3])
    """
    selector = engine_selector(method, k, options)
    shards = open_shards(source, skip_unreadable=skip_unreadable)
    names = check_ids(ids, len(shards))
    groups, per_class = labelled_groups(selector, y, len(shards))
    seed = selector._draw_seed()
    absent: dict[str, str] = {}
    while True:
        mask = rows_of(shards, list(absent)) if absent else None
        classes = make_classes(selector, groups, per_class, len(shards), mask)
        specs, batches = make_specs(shards, classes, selector, seed, engine.workers, frozenset(absent))
        with engine.place(specs) as placement:
            broken = _check(placement, len(shards), skip_unreadable)
            if broken:
                absent |= broken
                continue
            cluster = Cluster(placement, specs[-1].last_piece, shards.n_features, progress or _silence)
            results = _run(cluster, classes, selector, batches)
            facts = {
                "name": engine.name,
                "workers": len(placement),
                "devices": sorted(set(placement.call("device"))),
                "pieces": cluster.n_pieces,
                "unreadable": [*map(list, shards.unreadable), *map(list, absent.items())],
                "fingerprint": _fingerprint(cluster, shards),
                "replaced_workers": placement.replaced,
                "bytes": placement.traffic.summary(),
            }
        break
    _warn_of(results)
    return _selection(shards, classes, selector, seed, results, facts, names)


def _silence(phase: str, done: int, total: int | None) -> None:
    """Tell nobody."""


def _check(placement: Placement, n: int, skip_unreadable: bool) -> dict[str, str]:
    """Return the files that cannot be read, if that is allowed; raise for those, and for rows without value."""
    answers = placement.call("check")
    broken = {location: reason for answer in answers for location, reason in answer[0]}
    if broken and not skip_unreadable:
        first, *others = broken.values()
        also = f" And {len(others)} more files, the next: {others[0]}" if others else ""
        raise UnreadableShardError(
            f"{first}{also} Nothing was selected; put that right, or pass skip_unreadable=True to go on without."
        )
    if broken:
        return broken
    count = sum(answer[1] for answer in answers)
    if count:
        rows = np.concatenate([answer[2] for answer in answers])[:5].tolist()
        first = ", ".join(map(str, rows)) + (", ..." if count > len(rows) else "")
        raise NotFiniteError(
            f"The source contains NaN, infinity or a value too large to square, in {count} of {n} rows (first: "
            f"{first}). Drop these rows or fill them in; none is dropped silently."
        )
    return {}


def _run(cluster: Cluster, classes: Classes, selector: MomentMatching, batches: Indices) -> list[GroupResult]:
    wanted = {number: int(classes.sizes[number]) for number in np.flatnonzero(classes.quota).tolist()}
    details: dict[int, dict[str, Any]] = {number: {"batches": int(batches[number])} for number in wanted}
    found: dict[int, tuple[Warning, ...]] = dict.fromkeys(wanted, ())
    if selector.target == "mean":
        targets = class_means(cluster, list(wanted))
    else:
        medians = class_medians(
            cluster, wanted, eps=selector.eps, max_iter=selector.max_iter, delta=selector.delta
        )
        targets = {number: median.best.point for number, median in medians.items()}
        for number, median in medians.items():
            details[number] |= {
                "median_gap": median.best.gap,
                "median_iterations": median.passes,
                "median_converged": median.converged,
            }
            if not median.converged:
                found[number] += (
                    ConvergenceWarning(
                        f"The geometric median{_of(classes.labels[number])} stopped at max_iter={selector.max_iter} "
                        f"with a certified gap of {median.best.gap:.1e}, not eps={selector.eps:.1e}. Raise max_iter "
                        "or eps."
                    ),
                )
    for number, warning in _far_rows(cluster, classes, targets).items():
        found[number] += (warning,)
    if selector.unit_target:
        targets = {number: _unit(point) for number, point in targets.items()}
    picks = pick_classes(cluster, targets, classes.quota, batches, selector.start)
    empty = GroupResult(Picks.join([]), {})
    return [
        GroupResult(picks[number], details[number], found[number]) if number in wanted else empty
        for number in range(len(classes.labels))
    ]


def _far_rows(cluster: Cluster, classes: Classes, targets: dict[int, Vector]) -> dict[int, Warning]:
    found: dict[int, Warning] = {}
    for number, spread in class_spreads(cluster, targets).items():
        if spread.typical > 0.0 and spread.farthest > FAR * spread.typical:
            found[number] = FarRowWarning(
                f"Row {spread.row}{_of(classes.labels[number])} lies about {spread.farthest / spread.typical:,.0f} "
                "times as far from the target as the median row. Linear matching may pick such a row and lose the "
                "target: pass normalize=True, or take it out of the files."
            )
    return found


def _of(label: Label) -> str:
    return "" if label is None else f" of class {label!r}"


def _unit(point: Vector) -> Vector:
    length = float(np.linalg.norm(point))
    return point / length if length > 0.0 else point


def _fingerprint(cluster: Cluster, shards: Shards) -> str:
    """Return the hash that :func:`gmmatch.selectors.provenance.fingerprint` gives for the same rows in memory."""
    n = len(shards)
    positions = np.unique(np.linspace(0, n - 1, min(n, 1024)).astype(np.int64))
    digest = hashlib.sha256(f"{n} {shards.n_features} {np.dtype(shards.dtype)}".encode())
    digest.update(np.ascontiguousarray(cluster.rows(positions, stored=True)).tobytes())
    return digest.hexdigest()[:32]


def _selection(
    shards: Shards,
    classes: Classes,
    selector: MomentMatching,
    seed: int,
    results: list[GroupResult],
    facts: dict[str, Any],
    names: Any,
) -> Selection:
    from gmmatch import __version__

    chosen = [
        SelectedGroup(label, result.picks.order, int(size), result.picks.residuals)
        for label, size, result in zip(classes.labels, classes.sizes, results, strict=True)
    ]
    order = interleave(chosen)
    labelled: list[Group] = classes.groups or []
    provenance = {
        "method": selector.method,
        "parameters": recorded_parameters(selector),
        "seed": seed,
        "version": __version__,
        "input": {
            "n_rows": len(shards),
            "n_features": shards.n_features,
            "dtype": str(np.dtype(shards.dtype)),
            "fingerprint": facts.pop("fingerprint"),
            **({"labels": label_fingerprint(labelled)} if labelled else {}),
        },
        "preprocess": ["unit"] if selector.normalize or selector.preprocess else [],
        "groups": [result.details for result in results],
        "embeddings": shards.origin,
        "engine": facts,
    }
    return Selection(
        order=order,
        n_rows=len(shards),
        groups=chosen,
        ids=None if names is None else names[order],
        provenance=provenance,
    )
