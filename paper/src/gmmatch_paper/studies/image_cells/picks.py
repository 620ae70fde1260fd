"""What a method picks, in the forms that cells share."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gmmatch as gm
from gmmatch.problem import Problem
from gmmatch.targets import Targets
from gmmatch_paper.arrays import Indices
from gmmatch_paper.studies.image_cells.cache import Arrays
from gmmatch_paper.studies.image_cells.proxies import Embedded

# The paper's γ of its image experiments.
_FRACTION = 0.5

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "gm-matching": ("gm-matching", {"target": gm.GeometricMedian(fraction=_FRACTION)}),
    "gm-matching-unit": (
        "gm-matching",
        {"target": gm.GeometricMedian(fraction=_FRACTION), "preprocess": "unit"},
    ),
    "gm-matching-authors": (
        "gm-matching",
        {"target": gm.GeometricMedian(fraction=_FRACTION, unit=True), "preprocess": "unit"},
    ),
    "gm-matching-all-rows": ("gm-matching", {"target": gm.GeometricMedian()}),
    "herding-unit": ("herding", {"preprocess": "unit"}),
    "herding-authors": ("herding", {"target": gm.Mean(unit=True), "preprocess": "unit"}),
    "easy-unit": ("easy", {"preprocess": "unit"}),
    "forgetting-zero": ("forgetting", {"never_learned": "none"}),
    "gm-matching-exact": ("gm-matching", {}),
    "herding-exact": ("herding", {}),
}
"""Names for methods with settings: unit-length rows, a unit-length target, the median of all rows.

The last two do what the authors' repository does, line by line; :func:`exact_options` has their settings, which
depend on the rows.
"""

_EXACT = {"gm-matching-exact": gm.GeometricMedian, "herding-exact": gm.Mean}

# The general engine and given scores are no methods of their own, and kernel herding is herding in another kernel.
_NOT_COMPARED = ("matching", "by-score", "kernel-herding")


@dataclass(frozen=True, eq=False)
class FixedTarget:
    """Points that were computed before, one per class: a target of rows other than those that are matched."""

    points: NDArray[np.float64]

    def compute(self, problem: Problem) -> Targets:
        """Return the points."""
        return Targets(self.points)


def exact_options(
    rows: Any, labels: Indices, target: gm.Mean | gm.GeometricMedian, seed: int
) -> dict[str, Any]:
    """Return the settings that match as the authors' repository does.

    The center of the *raw* rows of each class is scaled to unit length, rows of unit length are matched to it, and θ
    starts from a random one of them, which is therefore the first pick.
    """
    random = np.random.default_rng(seed)
    members = [np.flatnonzero(labels == code) for code in np.unique(labels)]
    first = np.array([random.choice(rows_of_class) for rows_of_class in members])
    centers = np.stack([_center(rows[rows_of_class], target) for rows_of_class in members])
    starts = np.asarray(rows[first].cpu() if hasattr(rows, "cpu") else rows[first], dtype=np.float64)
    unit = [points / np.linalg.norm(points, axis=1, keepdims=True) for points in (centers, starts)]
    return {"target": FixedTarget(unit[0]), "start": unit[1], "preprocess": "unit"}


def _center(rows: Any, target: gm.Mean | gm.GeometricMedian) -> NDArray[np.float64]:
    if isinstance(target, gm.GeometricMedian):
        return gm.geometric_median(rows, eps=target.eps).point
    with gm.open_rows(rows) as opened:
        [mean] = opened.group_means(np.zeros(len(rows), dtype=np.int64), np.ones(len(rows)), 1)
    return np.asarray(mean)


def study_methods(names: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return methods that can be compared: those named, or all of the registry that need no further choice."""
    if not names:
        return tuple(name for name in gm.methods() if name not in _NOT_COMPARED)
    for name in names:
        if name not in VARIANTS:
            gm.method_class(name)
    return tuple(dict.fromkeys(names))


def pick(
    embedded: Embedded, labels: Indices, amount: dict[str, Any], method: str, seed: int, threads: int
) -> Arrays:
    """Return the rows that a method picks and the seconds it took, as the cache keeps them."""
    began = time.perf_counter()
    found = _select(embedded, labels, amount, method, seed, threads)
    return {"rows": found.indices, "seconds": np.array(time.perf_counter() - began)}


def learns_scores(method: str) -> bool:
    """Return whether a method scores all rows by something it trains, which does not depend on the amount."""
    from gmmatch_paper.baselines.learned import LearnedRanking

    return issubclass(gm.method_class(VARIANTS.get(method, (method, {}))[0]), LearnedRanking)


def rank_all(embedded: Embedded, labels: Indices, method: str, seed: int, threads: int) -> Arrays:
    """Return all rows of every class in the order in which a method would pick them."""
    began = time.perf_counter()
    selection = _select(embedded, labels, {"k": "100%"}, method, seed, threads)
    by_class = np.argsort(selection.group_of_pick, kind="stable")
    return {
        "order": selection.order[by_class],
        "sizes": np.bincount(selection.group_of_pick),
        "seconds": np.array(time.perf_counter() - began),
    }


def cut_ranking(ranked: Arrays, amount: dict[str, Any]) -> Arrays:
    """Return the picks that a ranking gives at an amount: the first of every class, as many as its share."""
    labels, ranks = (
        np.repeat(np.arange(len(ranked["sizes"])), ranked["sizes"]),
        np.arange(len(ranked["order"])),
    )
    selection = gm.select(ranks[:, None], labels, method="by-score", scores=ranks, **amount)
    return {"rows": np.sort(ranked["order"][selection.indices]), "seconds": ranked["seconds"]}


def _select(
    embedded: Embedded, labels: Indices, amount: dict[str, Any], method: str, seed: int, threads: int
) -> gm.Selection:
    name, options = VARIANTS.get(method, (method, {}))
    if method in _EXACT:
        options = exact_options(embedded.train, labels, _EXACT[method](), seed)
    if name in ("el2n", "forgetting", "grand") and embedded.dynamics is not None:
        from gmmatch_paper.baselines.forgetting import count_never_learned

        # From the training of the in-domain network itself, rather than of a small model on its features.
        scores = getattr(gm.Dynamics.load(embedded.dynamics), name)()
        scores = count_never_learned(scores, options.get("never_learned", "most"))
        name, options = "by-score", {"scores": scores, "keep": "highest"}
    # Tensors have no threads to choose.
    jobs: dict[str, Any] = {"n_jobs": threads} if isinstance(embedded.train, np.ndarray) else {}
    return gm.select(embedded.train, labels, method=name, random_state=seed, **jobs, **options, **amount)
