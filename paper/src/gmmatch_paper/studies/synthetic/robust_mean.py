"""How far corrupted rows drag the mean, and how far the geometric median (fig:toy-moment)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import gmmatch as gm
from gmmatch_paper.studies import style
from gmmatch_paper.studies.results import Results
from gmmatch_paper.studies.study import Measured, Part, Study, Table, Verdict, claim, grids
from gmmatch_paper.studies.synthetic.noisy_gaussian_data import CORRUPT_MEAN, noisy_gaussian

RATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.45)
SHOWN = (0.0, 0.2, 0.4, 0.45)


def measure_centers(*, n: int, psi: float, seed: int) -> Measured:
    """Return the errors of the mean and of two medians, measured from the mean of the clean rows."""
    data = noisy_gaussian(n, psi, seed)
    clean_mean = data.clean_mean
    mean = data.rows.mean(axis=0)
    median = gm.geometric_median(data.rows, n_jobs=1).point
    return {
        "mean_error": np.linalg.norm(mean - clean_mean),
        "median_error": np.linalg.norm(median - clean_mean),
        "coordinate_median_error": np.linalg.norm(np.median(data.rows, axis=0) - clean_mean),
        "clean_spread": np.sqrt(np.mean(np.sum((data.clean - clean_mean) ** 2, axis=1))),
        "mean": mean,
        "median": median,
        "clean_mean": clean_mean,
    }


def draw(results: Results) -> Any:
    """Draw the rows with both estimates at four rates, and the errors against the rate."""
    figure = style.new_figure(6.6)
    axes = figure.subplot_mosaic([["a", "b"], ["c", "d"], ["e", "e"]], height_ratios=[1, 1, 1.25])
    cells = results["centers"]
    n = results.fixed["centers"]["n"]
    for name, psi in zip("abcd", SHOWN, strict=True):
        _draw_rows(axes[name], cells.one(psi=psi, seed=0), n, psi)
        axes[name].set_title(f"({name})  {style.percent(psi)} corrupted")
    style.legend(figure, axes["d"])
    for estimate, field in (("mean", "mean_error"), ("median", "median_error")):
        curve = cells.curve("psi", field)
        color, marker = style.COLORS[estimate], style.MARKERS[estimate]
        style.band(axes["e"], curve, color, marker=marker, label=style.LABELS[estimate])
    spread = cells.median("clean_spread")
    axes["e"].axhline(spread, color=style.GREY, linestyle=":", label="Spread σ of the clean rows")
    axes["e"].set(xlabel="Share of corrupted rows ψ", ylabel="Distance to the\nmean of the clean rows")
    axes["e"].set_title("(e)  Error against corruption")
    axes["e"].legend(loc="upper left")
    return figure


def _draw_rows(axes: Any, cell: Any, n: int, psi: float) -> None:
    data = noisy_gaussian(n, psi, cell["seed"])
    style.scatter_rows(axes, data.clean, data.rows[data.corrupt])
    style.mark_point(axes, cell["mean"], "mean")
    style.mark_point(axes, cell["median"], "median")
    style.mark_point(axes, cell["clean_mean"], "oracle", zorder=5)
    axes.set(xlim=(-5, 14), ylim=(-4, 9))


@claim("fig:exp-syn-moment", "As ψ grows, the empirical mean drifts away towards the adversarial group.")
def _check_mean_drifts(results: Results) -> Verdict:
    cells = results["centers"]
    shift = float(np.linalg.norm(CORRUPT_MEAN))
    errors = {psi: cells.mean("mean_error", psi=psi) for psi in RATES}
    grows = all(errors[low] < errors[high] for low, high in itertools.pairwise(RATES))
    return Verdict(
        grows and abs(errors[0.4] - 0.4 * shift) < 0.1 * shift,
        f"the mean is off by {errors[0.2]:.2f}, {errors[0.4]:.2f} and {errors[0.45]:.2f} at ψ = 0.2, 0.4 and 0.45; ψ "
        f"times the distance of the two groups is {0.2 * shift:.2f}, {0.4 * shift:.2f} and {0.45 * shift:.2f}",
    )


@claim(
    "fig:exp-syn-moment",
    "The geometric median stays far closer to the clean mean than the mean does "
    "(checked as: under a quarter of its error at ψ = 0.4).",
)
def _check_median_stays(results: Results) -> Verdict:
    cells = results["centers"]
    mean, median = (cells.mean(name, psi=0.4) for name in ("mean_error", "median_error"))
    return Verdict(
        median < 0.25 * mean,
        f"at ψ = 0.4 the median is off by {median:.2f}, the mean by {mean:.2f}: {mean / median:.1f} times as far",
    )


@claim(
    "sec:exp-syn",
    "The geometric median remains anchored near the true mean as ψ increases "
    "(checked as: off by less than half the clean rows' spread, up to ψ = 0.45).",
)
def _check_median_unmoved(results: Results) -> Verdict:
    cells = results["centers"]
    spread = cells.mean("clean_spread")
    errors = {psi: cells.mean("median_error", psi=psi) for psi in (0.0, 0.2, 0.4, 0.45)}
    return Verdict(
        errors[0.45] < 0.5 * spread,
        f"its error grows with ψ: {errors[0.0]:.2f}, {errors[0.2]:.2f}, {errors[0.4]:.2f} and {errors[0.45]:.2f} "
        f"at ψ = 0, 0.2, 0.4 and 0.45, where the clean rows' spread is {spread:.2f}",
    )


def _table(results: Results) -> Table:
    cells = results["centers"]
    fields = ("mean_error", "median_error", "coordinate_median_error")
    rows = []
    for psi in RATES:
        values = [cells.values(name, psi=psi) for name in fields]
        rows.append([f"{psi:g}", *(f"{value.mean():.3f} ± {value.std(ddof=1):.3f}" for value in values)])
    n = results.fixed["centers"]["n"]
    return Table(
        f"Distance to the mean of the clean rows, n = {n:,}: mean ± standard deviation over "
        f"{len(cells.where(psi=0.4))} seeds.",
        ("ψ", "mean", "geometric median", "coordinate-wise median"),
        rows,
    )


STUDY = Study(
    name="robust-mean",
    title="How far corruption moves the mean and the geometric median",
    paper=("fig:toy-moment", "fig:exp-syn-moment"),
    parts=(Part("centers", measure_centers, *grids({"psi": RATES}, {"n": 1000}, seeds=(5, 50))),),
    claims=(_check_mean_drifts, _check_median_stays, _check_median_unmoved),
    pictures={"": draw},
    tables=(_table,),
)
