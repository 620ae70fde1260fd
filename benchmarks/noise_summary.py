"""What the cells of ``benchmarks.noise`` come to: means over cells, and the worst of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Run = dict[str, Any]
# Noise that does not depend on the rows, so that a matrix of rates explains it.
CHANNEL = ("sym", "pair", "onesided")
# People err, and rows near a border get a wrong label, where rows are hard to tell apart.
NEAR_BORDER = ("idn", "human")
PICKED = ("picks_10%", "picks_20%", "picks_50%")


def kind_of(run: Run) -> str:
    """Return the kind of label noise, without the subset and the rate.

    Examples
    --------
    >>> kind_of({"noise": "tiny-sym=0.2"})
    'sym'
    """
    return str(run["noise"].rpartition("-")[2].partition("=")[0])


def values_of(runs: Iterable[Run], name: str, key: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a measure of a rule in the cells where it has one."""
    values = (run["by"][name][key] for run in runs if name in run["by"])
    return np.array([value for value in values if value is not None and value == value], dtype=np.float64)


def mean_of(runs: Iterable[Run], name: str, key: str) -> float:
    """Return the mean of a measure of a rule; NaN if there is none."""
    values = values_of(runs, name, key)
    return float(values.mean()) if len(values) else float("nan")


def rules_in(runs: Sequence[Run]) -> list[str]:
    """Return the names of the rules, and of the ablations, in the order in which they were measured."""
    return list(dict.fromkeys(name for run in runs for name in run["by"]))


def summarize(runs: Sequence[Run], name: str = "gmmatch") -> dict[str, float]:
    """Return the figures of a rule over all cells.

    Examples
    --------
    >>> cell = {"true": 0.2, "rate": 0.19, "low": 0.1, "high": 0.3, "f1": 0.9, "f1_wrong": 0.8, "precision": 1.0}
    >>> cell |= {"auroc": 0.99, "clean_wrong": 0.0, "all_is_well": 0.0, "picks_10%": 0, "picks_20%": 0, "picks_50%": 0}
    >>> summarize([{"noise": "sym=0.2", "by": {"gmmatch": cell}}])["inside"]
    1.0
    """
    noisy = [run for run in runs if kind_of(run) != "clean"]
    clean = [run for run in runs if kind_of(run) == "clean"]
    border = [run for run in noisy if kind_of(run) in NEAR_BORDER]

    def sure(some: Iterable[Run]) -> list[Run]:
        return [run for run in some if run["by"][name]["precision"] is not None and run["by"][name]["precision"] == run["by"][name]["precision"]]  # fmt: skip

    own = [run["by"][name] for run in noisy if kind_of(run) in CHANNEL and run["by"][name]["low"] is not None]
    own = [cell for cell in own if cell["low"] == cell["low"]]
    certain = sure(noisy)
    errors = [abs(run["by"][name]["rate"] - run["by"][name]["true"]) for run in certain if run["by"][name]["rate"] is not None]  # fmt: skip
    wells = [run["by"][name] for run in noisy if run["by"][name]["true"] > 0.05]

    def extreme(values: Any, smallest: bool) -> float:
        if not len(values):
            return float("nan")
        return float(min(values) if smallest else max(values))

    figures = {
        "cells": float(len(noisy)),
        "f1": mean_of(noisy, name, "f1"),
        "auroc": mean_of(noisy, name, "auroc"),
        "lowest_auroc": extreme(values_of(noisy, name, "auroc"), True),
        "sure_cells": float(len(certain)),
        "precision": mean_of(certain, name, "precision"),
        "sure_f1": mean_of(certain, name, "f1_wrong"),
        "lowest_sure_f1": extreme(values_of(certain, name, "f1_wrong"), True),
        "clean_wrong": mean_of(clean, name, "clean_wrong"),
        "most_clean_wrong": extreme(values_of(clean, name, "clean_wrong"), False),
        "most_clean_wrong_anywhere": extreme(values_of(runs, name, "clean_wrong"), False),
        "inside": float(np.mean([cell["low"] <= cell["true"] <= cell["high"] for cell in own])) if own else float("nan"),
        "width": float(np.mean([cell["high"] - cell["low"] for cell in own])) if own else float("nan"),
        "rate_error": float(np.mean(errors)) if errors else float("nan"),
        "border_f1": mean_of(border, name, "f1"),
        "false_all_clears": float(sum(cell["all_is_well"] for cell in wells)),
    }  # fmt: skip
    return figures | {key: mean_of(noisy, name, key) for key in PICKED}
