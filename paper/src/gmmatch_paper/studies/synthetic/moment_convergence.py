"""How the error of the picks' mean falls with their number (fig:main-toy-conv-mme)."""

from __future__ import annotations

from typing import Any

import numpy as np

import gmmatch as gm
from gmmatch_paper.arrays import Vector
from gmmatch_paper.studies import style
from gmmatch_paper.studies.results import Cells, Results, log_slope
from gmmatch_paper.studies.study import Grid, Measured, Part, Study, Table, Verdict, claim
from gmmatch_paper.studies.synthetic.noisy_gaussian_data import noisy_gaussian

RATES = (0.0, 0.2, 0.4)
METHODS = ("random", "herding", "gm-matching")
FIT = (10, 300)
"""Slopes are fitted between these numbers of picks, or a tenth of the rows where that is less."""


def measure_path(*, n: int, psi: float, method: str, replacement: bool, seed: int) -> Measured:
    """Pick all n rows one after another; return Δ² and the residual along the way."""
    data = noisy_gaussian(n, psi, seed)
    selection = gm.select(data.rows, k=n, method=method, replacement=replacement, random_state=seed, n_jobs=1)
    counts = np.arange(1, n + 1)
    means = np.cumsum(data.rows[selection.order], axis=0) / counts[:, None]
    delta = np.sum((means - data.clean_mean) ** 2, axis=1)
    (residuals,) = selection.residual_path.values()
    shown = checkpoints(n)
    # Herding's error goes up and down as it circles its target; a geometric mean over the picks since
    # the last checkpoint shows its size rather than its phase.
    return {
        "turn": _turn(residuals, n),
        "k": shown,
        "delta_squared": _smoothed(delta, shown),
        "residual": _smoothed(residuals, shown),
    }


def checkpoints(n: int) -> Vector:
    """Return about thirty numbers of picks from 1 to n, evenly spaced on a logarithmic axis."""
    return np.unique(np.round(np.geomspace(1, n, 31)).astype(int))


def _smoothed(path: Vector, shown: Any) -> Vector:
    logs = np.log(np.maximum(path, 1e-30))
    starts = np.append(0, shown[:-1])
    return np.exp([logs[start:stop].mean() for start, stop in zip(starts, shown, strict=True)])


def _turn(residuals: Vector, n: int) -> int:
    """Return the k from which k·residual stays above twice its largest value for k = 10 to n/10; n if none."""
    scaled = np.arange(1, n + 1) * residuals
    level = 2.0 * float(scaled[9 : n // 10].max())
    return min(n, int(np.flatnonzero(scaled <= level)[-1]) + 2)


def typical_path(cells: Cells, field: str) -> tuple[Vector, Vector]:
    """Return the checkpoints and the geometric mean over the seeds."""
    values = cells.values(field)
    return cells.values("k")[0], np.exp(np.log(np.maximum(values, 1e-30)).mean(axis=0))


def fitted_slope(results: Results, field: str, **conditions: Any) -> float:
    """Return the slope of a path on log-log axes between the bounds of ``FIT``."""
    k, path = typical_path(results["paths"].where(**conditions), field)
    chosen = (k >= FIT[0]) & (k <= min(FIT[1], 0.1 * k[-1]))
    return log_slope(k[chosen], path[chosen])


def draw(results: Results) -> Any:
    """Draw Δ² against k at three rates, without and with replacement."""
    figure = style.new_figure(6.4)
    axes = figure.subplots(2, 3, sharex=True, sharey=True)
    for row, replacement, words in zip(
        axes, (False, True), ("each row once", "with replacement"), strict=True
    ):
        for panel, psi in zip(row, RATES, strict=True):
            for method in METHODS:
                cells = results["paths"].where(psi=psi, method=method, replacement=replacement)
                k, path = typical_path(cells, "delta_squared")
                # The last point without replacement is the whole data: 0 up to rounding, off the axis.
                shown = path > 1e-12
                look = {**style.line(method), "markersize": 4}
                panel.plot(k[shown], path[shown], label=style.LABELS[method], **look)
            guide = np.array([2.0, 300.0])
            panel.plot(guide, 1.5 / guide, color="black", linestyle=":", linewidth=1.1, label="∝ 1/k")
            panel.plot(guide, 12.0 / guide**2, color="black", linestyle="--", linewidth=1.1, label="∝ 1/k²")
            panel.set(xscale="log", yscale="log", ylim=(1e-10, 1e3))
            if replacement:
                panel.set_xlabel("Picks k")
            else:
                panel.set_title(f"{style.percent(psi)} corrupted")
        row[0].set_ylabel(f"Δ², {words}")
    style.legend(figure, axes.flat[0], ncols=5, columnspacing=1.1)
    return figure


def draw_residual(results: Results) -> Any:
    """Draw k times GM Matching's residual, which is flat while the residual falls as 1/k."""
    figure = style.new_figure(3.6)
    axes = figure.subplots(1, 2, sharey=True)
    for panel, replacement in zip(axes, (False, True), strict=True):
        for psi, color in zip(RATES, (style.GREEN, style.ORANGE, style.BLUE), strict=True):
            cells = results["paths"].where(psi=psi, method="gm-matching", replacement=replacement)
            k, path = typical_path(cells, "residual")
            panel.plot(k, k * path, color=color, label=f"ψ = {psi:g}")
            if not replacement:
                panel.axvline(_turning_point(results, psi), color=color, linestyle=":", linewidth=1.2)
        panel.set(xscale="log", yscale="log", xlabel="Picks k")
        panel.set_title("With replacement" if replacement else "Each row once")
    axes[0].set_ylabel("k · distance of the picks'\nmean to the median")
    axes[0].legend()
    return figure


def _turning_point(results: Results, psi: float) -> float:
    return results["paths"].median("turn", psi=psi, method="gm-matching", replacement=False)


def _slope_text(results: Results, psi: float, field: str = "delta_squared", replacement: bool = False) -> str:
    return ", ".join(
        f"{style.LABELS[method]} {fitted_slope(results, field, psi=psi, method=method, replacement=replacement):.2f}"
        for method in METHODS
    )


def _final(results: Results, psi: float, method: str) -> float:
    """Return Δ² at k = n/10, without replacement."""
    k, path = typical_path(results["paths"].where(psi=psi, method=method, replacement=False), "delta_squared")
    return float(path[int(np.searchsorted(k, 0.1 * k[-1]))])


@claim(
    "fig:main-toy-conv-mme",
    "Without corruption, Herding and GM Matching converge as 1/k and random picks as 1/√k "
    "(Δ² slopes under −1.6, and about −1).",
)
def _check_clean_rates(results: Results) -> Verdict:
    slopes = {
        method: fitted_slope(results, "delta_squared", psi=0.0, method=method, replacement=False)
        for method in METHODS
    }
    return Verdict(
        slopes["herding"] < -1.6 and slopes["gm-matching"] < -1.6 and slopes["random"] > -1.35,
        f"slopes of log Δ² against log k at ψ = 0: {_slope_text(results, 0.0)} (−2 is Δ ∝ 1/k, −1 is Δ ∝ 1/√k)",
    )


@claim(
    "fig:main-toy-conv-mme",
    "Without corruption, Herding is marginally ahead of GM Matching (by less than a factor of 10 in Δ²).",
)
def _check_herding_ahead(results: Results) -> Verdict:
    herding, own = _final(results, 0.0, "herding"), _final(results, 0.0, "gm-matching")
    return Verdict(
        own / 10.0 < herding < own,
        f"Δ² when a tenth of the rows are picked, ψ = 0: Herding {herding:.1e}, GM Matching {own:.1e}; GM Matching "
        "stops where its target is, the median, which is not the mean of a finite sample",
    )


@claim("fig:main-toy-conv-mme", "Under corruption, Random and Herding do not converge.")
def _check_others_stall(results: Results) -> Verdict:
    slopes = [
        fitted_slope(results, "delta_squared", psi=psi, method=method, replacement=False)
        for psi in (0.2, 0.4)
        for method in ("random", "herding")
    ]
    return Verdict(
        min(slopes) > -0.5,
        f"slopes at ψ = 0.2: {_slope_text(results, 0.2)}; at ψ = 0.4: {_slope_text(results, 0.4)}; Δ² at a tenth "
        f"of the rows, ψ = 0.4: Random {_final(results, 0.4, 'random'):.1f}, Herding "
        f"{_final(results, 0.4, 'herding'):.1f}",
    )


@claim(
    "fig:main-toy-conv-mme",
    "Under 40% corruption, GM Matching keeps converging to the clean mean (slope of Δ² under −1).",
)
def _check_own_converges(results: Results) -> Verdict:
    slope = fitted_slope(results, "delta_squared", psi=0.4, method="gm-matching", replacement=False)
    own, herding = _final(results, 0.4, "gm-matching"), _final(results, 0.4, "herding")
    return Verdict(
        slope < -1.0,
        f"slope {slope:.2f} at ψ = 0.4: Δ² levels off at {own:.2f} (Herding: {herding:.1f}), the squared error of "
        f"the median itself; at ψ = 0.2 it levels off at {_final(results, 0.2, 'gm-matching'):.3f}. What keeps "
        "falling is the distance to the target: slope "
        f"{fitted_slope(results, 'residual', psi=0.4, method='gm-matching', replacement=True):.2f} with replacement",
    )


@claim(
    "th:gm_match_cvg",
    "The picks' mean approaches the median at the rate 1/k (with replacement, as the proof assumes).",
)
def _check_residual_rate(results: Results) -> Verdict:
    slopes = [
        fitted_slope(results, "residual", psi=psi, method="gm-matching", replacement=True) for psi in RATES
    ]
    return Verdict(
        max(slopes) < -0.8,
        "slopes of the residual with replacement at ψ = 0, 0.2, 0.4: "
        + ", ".join(f"{slope:.2f}" for slope in slopes),
    )


@claim(
    "ours",
    "Picking each row once, the residual falls as 1/k until the clean rows run out: about (1 − ψ)n picks.",
)
def _check_no_replacement(results: Results) -> Verdict:
    n = results.fixed["paths"]["n"]
    turns = {psi: _turning_point(results, psi) for psi in RATES}
    told = ", ".join(f"{turn:,.0f} of {n:,} picks at ψ = {psi:g}" for psi, turn in turns.items())
    return Verdict(
        all(abs(turn / n - (1.0 - psi)) < 0.1 for psi, turn in turns.items()),
        f"k·residual leaves its level for good at {told}; with all rows picked, their mean is that of the noisy data",
    )


def _table(results: Results) -> Table:
    rows = []
    for psi in RATES:
        for method in METHODS:
            row = [f"{psi:g}", style.LABELS[method]]
            for replacement in (False, True):
                where = {"psi": psi, "method": method, "replacement": replacement}
                row.append(f"{fitted_slope(results, 'delta_squared', **where):.2f}")
                row.append(f"{fitted_slope(results, 'residual', **where):.2f}")
            rows.append([*row, f"{_final(results, psi, method):.2e}"])
    fixed = results.fixed["paths"]
    return Table(
        f"Slopes on log-log axes, fitted from k = {FIT[0]} to {min(FIT[1], fixed['n'] // 10)}, n = {fixed['n']:,}; "
        "the residual is the distance to the method's own target (for Random: the mean).",
        ("ψ", "method", "Δ², each row once", "residual, each once", "Δ², replacement", "residual, replacement",
         "Δ² at k = n/10, each once"),
        rows,
    )  # fmt: skip


_GRID = {"psi": RATES, "method": METHODS, "replacement": (False, True)}

STUDY = Study(
    name="moment-convergence",
    title="How the error falls with the number of picks",
    paper=("fig:main-toy-conv-mme",),
    parts=(
        Part(
            "paths",
            measure_path,
            quick=Grid(_GRID, {"n": 1000}, seeds=5),
            full=Grid(_GRID, {"n": 10000}, seeds=10),
        ),
    ),
    claims=(
        _check_clean_rates,
        _check_herding_ahead,
        _check_others_stall,
        _check_own_converges,
        _check_residual_rate,
        _check_no_replacement,
    ),
    pictures={"": draw, "-residual": draw_residual},
    tables=(_table,),
)
