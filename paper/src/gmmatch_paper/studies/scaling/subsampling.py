"""The median of a fraction γ of the rows: what it costs in error and saves in time."""

from __future__ import annotations

from typing import Any

import numpy as np

import gmmatch as gm
from gmmatch_paper.studies import style
from gmmatch_paper.studies.results import Curve, Results, log_slope
from gmmatch_paper.studies.study import Grid, Measured, Part, Study, Table, Verdict, claim
from gmmatch_paper.studies.synthetic.noisy_gaussian_data import noisy_gaussian
from gmmatch_paper.studies.timing import timed
from gmmatch_paper.theory import clean_variance, subsampling_variance

FRACTIONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
RATES = (0.0, 0.2, 0.4)


def measure_error(*, n: int, k: int, psi: float, gamma: float, draws: int, seed: int) -> Measured:
    """Draw γn rows several times; return how far their medians and means are from those of all rows."""
    data = noisy_gaussian(n, psi, seed)
    whole = gm.geometric_median(data.rows, n_jobs=1).point
    random = np.random.default_rng([seed, 3])
    count = max(1, round(gamma * n))
    samples = [data.rows[random.choice(n, count, replace=False)] for _ in range(2 * draws)]
    medians = np.array([gm.geometric_median(sample, n_jobs=1).point for sample in samples[:draws]])
    means = np.array([sample.mean(axis=0) for sample in samples[draws:]])
    target = gm.GeometricMedian(fraction=gamma)
    selection = gm.GMMatching(k=k, target=target, random_state=seed).select(data.rows, n_jobs=1)
    variance = clean_variance(data.clean)
    return {
        "median_added": np.mean(np.sum((medians - whole) ** 2, axis=1)),
        "mean_added": np.mean(np.sum((means - data.rows.mean(axis=0)) ** 2, axis=1)),
        "median_error": np.mean(np.linalg.norm(medians - data.clean_mean, axis=1)),
        "picks_error": np.linalg.norm(data.rows[selection.indices].mean(axis=0) - data.clean_mean),
        "predicted": subsampling_variance(gamma, variance, n),
    }


def measure_time(*, n: int, s: int, gamma: float, seed: int) -> Measured:
    """Time the median of γn of n Gaussian rows with s columns, on one core.

    Twice: of a sample that lies ready in memory, and in the call that draws it from all over memory.
    """
    rows = np.random.default_rng(seed).standard_normal((n, s))
    gm.geometric_median(rows[:64], n_jobs=1)  # loads the compiled code
    count = max(1, round(gamma * n))
    sample = rows[:count].copy()

    def draw_sample() -> Any:
        index = np.sort(np.random.default_rng(seed).choice(n, count, replace=False))
        return gm.geometric_median(rows[index], n_jobs=1)

    alone, result = timed(lambda: gm.geometric_median(sample, n_jobs=1), repeats=3)
    drawn, _ = timed(draw_sample, repeats=3)
    return {"time": alone, "time_with_draw": drawn, "passes": result.iterations, "rows_used": count}


def draw(results: Results) -> Any:
    """Draw the added squared error and the time against γ."""
    figure = style.new_figure(3.9)
    axes = figure.subplots(1, 2)
    errors = results["errors"]
    for psi, color, marker in zip(RATES, (style.GREEN, style.ORANGE, style.BLUE), "os*", strict=True):
        below_one = errors.where(psi=psi)
        curve = below_one.curve("gamma", "median_added")
        shown = curve.x < 1.0  # at γ = 1 nothing is added
        cut = Curve(*(part[shown] for part in curve))
        style.band(axes[0], cut, color, marker=marker, label=f"Median, ψ = {psi:g}")
    prediction = errors.curve("gamma", "predicted", psi=0.0)
    axes[0].plot(
        prediction.x[:-1], prediction.y[:-1], color=style.BLACK, linestyle="--", label="(1−γ)/γ · σ²/n"
    )
    axes[0].set(
        xscale="log", yscale="log", xlabel="Fraction γ", ylabel="Squared distance to the\nmedian of all rows"
    )
    axes[0].set_title("(a)  Error added")
    axes[0].legend(fontsize=9)
    alone = results["times"].curve("gamma", "time")
    style.band(axes[1], alone, style.BLUE, marker="*", label="Median of the sample")
    drawn = results["times"].curve("gamma", "time_with_draw")
    style.band(axes[1], drawn, style.GREY, marker="s", linestyle="--", label="With the draw")
    axes[1].plot(alone.x, alone.y[-1] * alone.x, color=style.BLACK, linestyle=":", label="∝ γ")
    axes[1].set(xscale="log", yscale="log", xlabel="Fraction γ", ylabel="Time of the median (s)")
    axes[1].set_title("(b)  Time saved")
    axes[1].legend(fontsize=9)
    return figure


def _ratio(results: Results, psi: float, field: str = "median_added") -> dict[float, float]:
    cells = results["errors"].where(psi=psi)
    return {
        gamma: cells.mean(field, gamma=gamma) / cells.mean("predicted", gamma=gamma)
        for gamma in FRACTIONS
        if gamma < 1.0
    }


@claim(
    "sec:comp",
    "Without corruption, the added variance is (1 − γ)/γ · σ²/n up to a constant (within a factor of 3).",
)
def _check_formula(results: Results) -> Verdict:
    ratios = _ratio(results, 0.0)
    return Verdict(
        min(ratios.values()) > 1 / 3 and max(ratios.values()) < 3,
        "added squared error over the prediction at ψ = 0: "
        + ", ".join(f"{ratio:.2f} at γ = {gamma:g}" for gamma, ratio in ratios.items())
        + f"; for the mean, of which it is exact, {np.mean(list(_ratio(results, 0.0, 'mean_added').values())):.2f}",
    )


@claim("sec:comp", "The same constant holds under corruption (within a factor of 3).")
def _check_corrupt(results: Results) -> Verdict:
    by_rate = {psi: float(np.mean(list(_ratio(results, psi).values()))) for psi in RATES}
    return Verdict(
        max(by_rate.values()) < 3.0,
        "averaged over γ, measured over predicted is "
        + ", ".join(f"{ratio:.1f} at ψ = {psi:g}" for psi, ratio in by_rate.items())
        + ": a sample's share of corrupted rows varies too, and moves its median",
    )


@claim(
    "sec:comp",
    "For large γ the added error is negligible (γ = 0.5: the median's error grows by less than 5%).",
)
def _check_negligible(results: Results) -> Verdict:
    cells = results["errors"].where(psi=0.4)
    full, half, tenth = (cells.mean("median_error", gamma=gamma) for gamma in (1.0, 0.5, 0.1))
    picks = {gamma: cells.mean("picks_error", gamma=gamma) for gamma in (1.0, 0.5)}
    return Verdict(
        half < 1.05 * full,
        f"error of the median at ψ = 0.4: {full:.3f} from all rows, {half:.3f} from half of them (γ = 0.5, the "
        f"paper's), {tenth:.3f} from a tenth; of the picks' mean {picks[1.0]:.3f} and {picks[0.5]:.3f}",
    )


@claim("lemma:gmm_comp", "The time of the median falls in proportion to γ (slope over 0.8).")
def _check_time(results: Results) -> Verdict:
    times = results["times"]
    gamma, seconds = times.curve("gamma", "time")[:2]
    slope = log_slope(gamma[gamma >= 0.1], seconds[gamma >= 0.1])
    share = {
        field: times.median(field, gamma=0.5) / times.median(field, gamma=1.0)
        for field in ("time", "time_with_draw")
    }
    return Verdict(
        slope > 0.8,
        f"slope {slope:.2f} of time against γ ≥ 0.1 on log-log axes; γ = 0.5 takes {share['time']:.2f} of the time "
        f"of γ = 1, and {share['time_with_draw']:.2f} when the sample is drawn from all over memory",
    )


def _table(results: Results) -> Table:
    rows = []
    for gamma in FRACTIONS:
        cells = results["errors"].where(gamma=gamma)
        added = [f"{cells.mean('median_added', psi=psi):.2e}" for psi in RATES]
        times = [1e3 * results["times"].median(field, gamma=gamma) for field in ("time", "time_with_draw")]
        predicted = f"{cells.mean('predicted', psi=0.0):.2e}"
        rows.append([f"{gamma:g}", *added, predicted, *(f"{time:.2f}" for time in times)])
    fixed, timed_rows = results.fixed["errors"], results.fixed["times"]
    return Table(
        f"Mean squared distance between the median of γn rows and that of all n = {fixed['n']:,}; the prediction at "
        f"ψ = 0; and the time of a median of n = {timed_rows['n']:,} rows with {timed_rows['s']} columns, one core.",
        ("γ", "ψ = 0", "ψ = 0.2", "ψ = 0.4", "(1−γ)/γ · σ²/n", "time (ms)", "with draw (ms)"),
        rows,
    )


_GRID = {"psi": RATES, "gamma": FRACTIONS}
_TIMES = {"gamma": FRACTIONS}

STUDY = Study(
    name="subsampling",
    title="The median of a fraction of the rows",
    paper=("sec:comp",),
    parts=(
        Part(
            "errors",
            measure_error,
            quick=Grid(_GRID, {"n": 2000, "k": 100, "draws": 20}, seeds=2),
            full=Grid(_GRID, {"n": 10000, "k": 1000, "draws": 50}, seeds=10),
        ),
        Part(
            "times",
            measure_time,
            quick=Grid(_TIMES, {"n": 100000, "s": 32}, seeds=1),
            full=Grid(_TIMES, {"n": 100000, "s": 256}, seeds=5),
            timed=True,
        ),
    ),
    claims=(_check_formula, _check_corrupt, _check_negligible, _check_time),
    pictures={"": draw},
    tables=(_table,),
)
