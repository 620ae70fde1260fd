"""What the cells of ``benchmarks.noise`` come to: means over cells, and the worst of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan, nan
from typing import Any

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


def value_of(run: Run, name: str, key: str) -> float:
    """Return a measure of a rule in a cell; NaN if it has none there."""
    value = run["by"].get(name, {}).get(key)
    return float("nan") if value is None else float(value)


def mean_of(runs: Iterable[Run], name: str, key: str) -> float:
    """Return the mean of a measure of a rule over the cells where it has one; NaN if it has none."""
    return _mean(value_of(run, name, key) for run in runs)


def rules_in(runs: Sequence[Run]) -> list[str]:
    """Return the names of the rules, and of the ablations, in the order in which they were measured."""
    return list(dict.fromkeys(name for run in runs for name in run["by"]))


def summarize(runs: Sequence[Run], name: str = "gmmatch") -> dict[str, float]:
    """Return the figures of a rule over all cells.

    Examples
    --------
    >>> cell = {"true": 0.2, "rate": 0.19, "low": 0.1, "high": 0.3, "f1": 0.9, "f1_wrong": 0.8, "precision": 1.0}
    >>> summarize([{"noise": "sym=0.2", "by": {"gmmatch": cell}}])["inside"]
    1.0
    """

    def column(some: Iterable[Run], key: str) -> list[float]:
        return [value_of(run, name, key) for run in some]

    noisy = [run for run in runs if kind_of(run) != "clean"]
    clean = [run for run in runs if kind_of(run) == "clean"]
    border = [run for run in noisy if kind_of(run) in NEAR_BORDER]
    by_channel = [run for run in noisy if kind_of(run) in CHANNEL and not isnan(value_of(run, name, "low"))]
    sure = [run for run in noisy if not isnan(value_of(run, name, "precision"))]
    true, low, high = (column(by_channel, key) for key in ("true", "low", "high"))
    false_all_clears = [run for run in noisy if value_of(run, name, "true") > 0.05]
    return {
        "cells": float(len(noisy)),
        "f1": mean_of(noisy, name, "f1"),
        "auroc": mean_of(noisy, name, "auroc"),
        "lowest_auroc": min(column(noisy, "auroc"), default=nan),
        "sure_cells": float(len(sure)),
        "precision": mean_of(sure, name, "precision"),
        "sure_f1": mean_of(sure, name, "f1_wrong"),
        "lowest_sure_f1": min(column(sure, "f1_wrong"), default=nan),
        "clean_wrong": mean_of(clean, name, "clean_wrong"),
        "most_clean_wrong": max(column(clean, "clean_wrong"), default=nan),
        "inside": _mean(float(a <= b <= c) for a, b, c in zip(low, true, high, strict=True)),
        "width": _mean(c - a for a, c in zip(low, high, strict=True)),
        "rate_error": _mean(
            abs(a - b) for a, b in zip(column(sure, "rate"), column(sure, "true"), strict=True)
        ),
        "channel_rate_error": _mean(
            abs(a - b) for a, b in zip(column(by_channel, "rate"), true, strict=True)
        ),
        "border_f1": mean_of(border, name, "f1"),
        "false_all_clears": float(sum(column(false_all_clears, "all_is_well"))),
        **{key: mean_of(noisy, name, key) for key in PICKED},
    }


def _mean(values: Iterable[float]) -> float:
    known = [value for value in values if not isnan(value)]
    return sum(known) / len(known) if known else nan
