"""What a method picks, in the forms that cells share."""

from __future__ import annotations

import time
from dataclasses import fields
from typing import Any

import numpy as np

from gmmatch.selection.budget import quotas
from gmmatch.types import Indices
from gmmatch_paper.studies.image_cells.cache import Arrays
from gmmatch_paper.studies.image_cells.proxies import Embedded

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "gm-matching-unit": ("gm-matching", {"normalize": True}),
    "gm-matching-authors": ("gm-matching", {"normalize": True, "unit_target": True}),
    "gm-matching-all-rows": ("gm-matching", {"median_fraction": 1.0}),
    "herding-unit": ("herding", {"normalize": True}),
}
"""Names for methods with settings: unit-length rows, what the authors' own code does, the median of all rows."""

# The paper's γ of its image experiments.
_MEDIAN_FRACTION = 0.5


def study_methods(names: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return methods that can be compared: those named, or all of the registry that need no further choice.

    Examples
    --------
    >>> "gm-matching" in study_methods(), "moment-matching" in study_methods()
    (True, False)
    """
    from gmmatch.selectors.registry import method_class, methods

    if not names:
        # The general engine is no method of its own, and kernel herding is herding in another kernel.
        return tuple(name for name in methods() if name not in ("moment-matching", "kernel-herding"))
    for name in names:
        if name not in VARIANTS:
            method_class(name)
    return tuple(dict.fromkeys(names))


def pick(
    embedded: Embedded, labels: Indices, amount: dict[str, Any], method: str, seed: int, threads: int
) -> Arrays:
    """Return the rows that a method picks and the seconds it took, as the cache keeps them.

    Examples
    --------
    >>> rows = Embedded(np.array([[0.0], [1.0], [1.2], [3.0]]), np.zeros((1, 1)))
    >>> pick(rows, np.zeros(4, int), {"k": "50%"}, "easy", 0, 1)["rows"]
    array([1, 2])
    """
    began = time.perf_counter()
    found = _select(embedded, labels, amount, method, seed, threads)
    return {"rows": found.indices, "seconds": np.array(time.perf_counter() - began)}


def learns_scores(method: str) -> bool:
    """Return whether a method scores all rows by something it trains, which does not depend on the amount.

    Examples
    --------
    >>> learns_scores("el2n"), learns_scores("easy")
    (True, False)
    """
    from gmmatch.selectors.model_scores import ScoreRanking
    from gmmatch.selectors.registry import method_class

    return issubclass(method_class(VARIANTS.get(method, (method, {}))[0]), ScoreRanking)


def rank_all(embedded: Embedded, labels: Indices, method: str, seed: int, threads: int) -> Arrays:
    """Return all rows of every class in the order in which a method would pick them."""
    began = time.perf_counter()
    found = _select(embedded, labels, {"k": "100%"}, method, seed, threads)
    return {
        "order": np.concatenate([group.order for group in found.groups]),
        "sizes": np.array([len(group.order) for group in found.groups]),
        "seconds": np.array(time.perf_counter() - began),
    }


def cut_ranking(ranked: Arrays, amount: dict[str, Any]) -> Arrays:
    """Return the picks that a ranking gives at an amount: the first of every class, as many as its share.

    Examples
    --------
    >>> ranked = {"order": np.array([3, 1, 2, 0]), "sizes": np.array([2, 2]), "seconds": np.array(1.0)}
    >>> cut_ranking(ranked, {"k": 2})["rows"]
    array([2, 3])
    """
    sizes = ranked["sizes"]
    shares = quotas(amount["k"], list(range(len(sizes))), sizes, amount.get("per_class", "proportional"))
    starts = np.cumsum(sizes) - sizes
    parts = [
        ranked["order"][start : start + share] for start, share in zip(starts, shares.tolist(), strict=True)
    ]
    return {"rows": np.sort(np.concatenate(parts)), "seconds": ranked["seconds"]}


def _select(
    embedded: Embedded, labels: Indices, amount: dict[str, Any], method: str, seed: int, threads: int
) -> Any:
    from gmmatch.selectors.registry import method_class, select

    name, options = VARIANTS.get(method, (method, {}))
    settings = {**options, **amount}
    if name == "gm-matching":
        settings.setdefault("median_fraction", _MEDIAN_FRACTION)
    known = {field.name for field in fields(method_class(name))}
    if "dynamics" in known and embedded.dynamics is not None and name != "grand":
        # What the in-domain network itself went through, rather than a small model on its features.
        settings["dynamics"] = str(embedded.dynamics)
    return select(embedded.train, y=labels, method=name, random_state=seed, n_jobs=threads, **settings)
