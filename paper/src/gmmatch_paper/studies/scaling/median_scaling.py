"""Time and error of the geometric median against the size of the data (fig:wall-clock A, fig:conv-mean-est)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import gmmatch as gm
from gmmatch_paper.arrays import Matrix, Vector
from gmmatch_paper.studies import style
from gmmatch_paper.studies.results import Curve, Results, log_slope
from gmmatch_paper.studies.study import Grid, Measured, Part, Study, Table, Verdict, claim, grids
from gmmatch_paper.studies.synthetic.noisy_gaussian_data import CLEAN_MEAN, noisy_gaussian
from gmmatch_paper.studies.timing import timed

RATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.45)
PROTOCOLS = ("paper", "ours")
_NAMES = {"paper": "paper's protocol", "ours": "our defaults"}
CASES = {
    "normal": "1,000 standard normal rows, s = 64",
    "mixture": "the paper's mixture, ψ = 0.4",
    "corner": "a corner of 120°, which is the median",
}
EPSILONS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
_DELTA = 1e-12


def measure_time(*, n: int, s: int, protocol: str, seed: int) -> Measured:
    """Time one median of n standard normal rows with s columns, on one core; the least of three runs.

    The paper's protocol: plain Weiszfeld from the mean, until the step is below 1e-5, at most 100
    iterations. Ours: the defaults, which certify ρ(z) ≤ (1 + 1e-8)·ρ(best).
    """
    rows = np.random.default_rng(seed).standard_normal((n, s))
    if protocol == "paper":
        seconds, (point, iterations, converged) = timed(
            lambda: plain_weiszfeld(rows, min_step=1e-5, max_iter=100), repeats=3
        )
        gap = certified_gap(rows, point)
        return {"time": seconds, "iterations": iterations, "gap": gap, "converged": converged}
    gm.geometric_median(rows[:8], n_jobs=1)  # loads the compiled code
    seconds, result = timed(lambda: gm.geometric_median(rows, n_jobs=1), repeats=3)
    return {
        "time": seconds,
        "iterations": result.iterations,
        "gap": result.gap,
        "converged": result.converged,
    }


def plain_weiszfeld(rows: Matrix, *, min_step: float, max_iter: int) -> tuple[Vector, int, bool]:
    """Return what Algorithm 2 finds from the mean in NumPy, its iterations, and whether its last step was short."""
    point = rows.mean(axis=0)
    for iteration in range(1, max_iter + 1):
        weights = 1.0 / (np.linalg.norm(rows - point, axis=1) + _DELTA)
        following = weights @ rows / weights.sum()
        step, point = float(np.linalg.norm(following - point)), following
        if step < min_step:
            return point, iteration, True
    return point, max_iter, False


def certified_gap(rows: Matrix, point: Vector) -> float:
    """Return ε with ρ(point) ≤ (1 + ε)·ρ(best), from the gradient at a point that is not a row."""
    offsets = rows - point
    slope = np.linalg.norm((offsets / np.linalg.norm(offsets, axis=1, keepdims=True)).mean(axis=0))
    return float(2.0 * slope / (1.0 - slope)) if slope < 1.0 else np.inf


def measure_error(*, n: int, psi: float, seed: int) -> Measured:
    """Return the distances of median and mean from the true mean of the clean distribution."""
    rows = noisy_gaussian(n, psi, seed).rows
    median = gm.geometric_median(rows, n_jobs=1).point
    return {
        "median_error": np.linalg.norm(median - CLEAN_MEAN),
        "mean_error": np.linalg.norm(rows.mean(axis=0) - CLEAN_MEAN),
    }


def measure_iterations(*, case: str, eps: float, most: int, seed: int) -> Measured:
    """Count the iterations of Algorithm 2, from the mean, until ρ(z) ≤ (1 + eps)·ρ(best)."""
    rows = iteration_rows(case, seed)
    best = gm.geometric_median(rows, eps=1e-12, max_iter=10_000, n_jobs=1)
    point, count = rows.mean(axis=0), 0
    while count < most:
        distances = np.linalg.norm(rows - point, axis=1)
        if distances.sum() <= (1.0 + eps) * best.objective:
            break
        weights = 1.0 / (distances + _DELTA)
        point, count = weights @ rows / weights.sum(), count + 1
    ours = gm.geometric_median(rows, eps=eps, n_jobs=1)
    return {"iterations": count, "ours": ours.iterations}


def iteration_rows(case: str, seed: int) -> Matrix:
    """Return rows whose median lies among them, or is one of them: a corner of exactly 120°."""
    random = np.random.default_rng(seed)
    if case == "normal":
        return random.standard_normal((1000, 64))
    if case == "mixture":
        return noisy_gaussian(1000, 0.4, seed).rows
    angles = random.uniform(0.0, 2.0 * np.pi) + np.array([0.0, 2.0 * np.pi / 3.0])
    return np.vstack([np.zeros(2), np.column_stack([np.cos(angles), np.sin(angles)])])


def draw_time(results: Results) -> Any:
    """Draw time against n, a curve for each s, by both protocols."""
    cells = results["times"]
    lines = {
        _NAMES[protocol].capitalize(): {
            f"{s:,}": cells.curve("n", "time", s=s, protocol=protocol) for s in sorted(cells.distinct("s"))
        }
        for protocol in PROTOCOLS
    }
    figure, axes = _draw_against_n(4.0, lines, "Time of one median (s)", "Columns s")
    top = max(cells.distinct("n"))
    axes.plot((top / 8, top), (1e-7 * top / 8, 1e-7 * top), color="black", linestyle=":", linewidth=1.2)
    axes.annotate("∝ n", (top / 3, 1e-7 * top / 3), xytext=(6, -10), textcoords="offset points")
    return figure


def draw_error(results: Results) -> Any:
    """Draw the error against n for several rates, median and mean side by side."""
    lines = {
        style.LABELS[name]: {
            f"{psi:g}": results["errors"].curve("n", f"{name}_error", psi=psi) for psi in RATES
        }
        for name in ("median", "mean")
    }
    return _draw_against_n(3.9, lines, "Distance to the true mean", "ψ")[0]


def _draw_against_n(
    height: float, lines: Mapping[str, Mapping[str, Curve]], label: str, legend: str
) -> tuple[Any, Any]:
    """Draw two panels of curves, by title and label; return the figure and its first panel."""
    from matplotlib import colormaps

    figure = style.new_figure(height)
    axes = figure.subplots(1, 2, sharey=True)
    for panel, letter, (title, curves) in zip(axes, "ab", lines.items(), strict=True):
        shades = colormaps["cividis"](np.linspace(0.0, 0.9, len(curves)))
        for (name, curve), color in zip(curves.items(), shades, strict=True):
            style.band(panel, curve, color, marker="o", markersize=4, label=name)
        panel.set(xscale="log", yscale="log", xlabel="Rows n")
        panel.set_title(f"({letter})  {title}")
    axes[0].set_ylabel(label)
    style.legend(figure, axes[0], loc="outside right center", ncols=1, title=legend, reverse=True)
    return figure, axes[0]


def time_slopes(results: Results, along: str, across: str, protocol: str) -> dict[int, float]:
    """Return the slope of time along one size for each value of the other, from its middle upwards."""
    cells = results["times"].where(protocol=protocol)
    slopes = {}
    for fixed in sorted(cells.distinct(across)):
        x, y = cells.curve(along, "time", **{across: fixed})[:2]
        half = len(x) // 2  # small sizes measure the cost of a call, not of the work
        slopes[fixed] = log_slope(x[half:], y[half:])
    return slopes


@claim("fig:wall-clock", "For fixed n, time is approximately linear in s.")
def _check_linear_s(results: Results) -> Verdict:
    slopes = time_slopes(results, "s", "n", "paper")
    largest = max(slopes)
    return Verdict(
        0.75 < slopes[largest] < 1.3,
        f"slope of time against s at n = {largest:,}: {slopes[largest]:.2f} by the paper's protocol, "
        f"{time_slopes(results, 's', 'n', 'ours')[largest]:.2f} by ours; at n = {min(slopes)}: "
        f"{slopes[min(slopes)]:.2f}",
    )


@claim("fig:wall-clock", "For fixed s, time grows sub-linearly to near-linearly with n.")
def _check_linear_n(results: Results) -> Verdict:
    slopes = time_slopes(results, "n", "s", "paper")
    largest, smallest = max(slopes), min(slopes)
    return Verdict(
        slopes[smallest] < 1.3 and 0.6 < slopes[largest] < 1.3,
        f"slope of time against n at s = {smallest}: {slopes[smallest]:.2f}, at s = {largest:,}: "
        f"{slopes[largest]:.2f} (from the middle size upwards)",
    )


@claim("fig:wall-clock", "The iteration converges quickly, within 100 iterations.")
def _check_iterations(results: Results) -> Verdict:
    cells = results["times"].where(protocol="paper")
    by_s = {s: cells.mean("iterations", s=s) for s in sorted(cells.distinct("s"))}
    listed = ", ".join(f"{count:.1f} for s = {s:,}" for s, count in by_s.items())
    return Verdict(
        float(np.mean(cells.values("converged"))) == 1.0,
        f"all runs stopped before 100 iterations; on average after {listed}",
    )


def needed(results: Results, case: str) -> dict[float, float]:
    """Return the mean number of iterations of Algorithm 2 for each ε."""
    cells = results["iterations"].where(case=case)
    return {eps: cells.mean("iterations", eps=eps) for eps in sorted(cells.distinct("eps"), reverse=True)}


@claim(
    "sec:comp",
    "Typically O(log(1/ε)) iterations reach the accuracy ε (checked as: from 1e-5 to 1e-8 takes at most "
    "twice as many as from 1e-2 to 1e-5).",
)
def _check_typical(results: Results) -> Verdict:
    parts, agrees = [], True
    for case in ("normal", "mixture"):
        counts = needed(results, case)
        first, middle, last = counts[1e-2], counts[1e-5], counts[1e-8]
        agrees &= last - middle <= 2.0 * max(middle - first, 1.0)
        parts.append(f"{CASES[case]}: {first:.0f}, {middle:.0f} and {last:.0f}")
    return Verdict(agrees, f"iterations for ε = 1e-2, 1e-5 and 1e-8: {'; '.join(parts)}")


@claim(
    "sec:comp",
    "Where the median is a row, iterations can grow as fast as 1/ε (checked as: by a power of 1/ε, and no faster).",
)
def _check_degenerate(results: Results) -> Verdict:
    counts = needed(results, "corner")
    small = [eps for eps in counts if eps <= 1e-3]
    slope = log_slope([1.0 / eps for eps in small], [counts[eps] for eps in small])
    return Verdict(
        0.25 < slope <= 1.05,
        f"where the median is a corner of 120°, iterations grow as (1/ε)^{slope:.2f}: {counts[1e-4]:,.0f} for "
        f"ε = 1e-4, {counts[1e-8]:,.0f} for 1e-8",
    )


@claim(
    "ours", "A certified gap of 1e-8 takes at most twice the time of the paper's rule, at the largest size."
)
def _check_accuracy(results: Results) -> Verdict:
    paper, ours = (results["times"].where(protocol=protocol) for protocol in PROTOCOLS)
    sizes = (max(paper.distinct("n")), max(paper.distinct("s")))
    where = {"n": sizes[0], "s": sizes[1]}
    return Verdict(
        ours.median("time", **where) < 2.0 * paper.median("time", **where),
        f"n = {sizes[0]:,}, s = {sizes[1]:,}: {paper.median('time', **where):.3f} s by the paper's rule, with a gap "
        f"that can be proven of {float(paper.values('gap', **where).max()):.0e}; {ours.median('time', **where):.3f} "
        f"s by our defaults, with {float(ours.values('gap', **where).max()):.0e}. Over all sizes the gaps are at "
        f"worst {float(paper.values('gap').max()):.0e} and {float(ours.values('gap').max()):.0e}",
    )


@claim(
    "fig:conv-mean-est", "Under corruption the median's error is far below the mean's (a quarter at ψ = 0.4)."
)
def _check_error(results: Results) -> Verdict:
    cells = results["errors"]
    largest = max(cells.distinct("n"))
    median, mean = (cells.mean(f"{name}_error", n=largest, psi=0.4) for name in ("median", "mean"))
    slopes = {name: log_slope(*cells.curve("n", f"{name}_error", psi=0.0)[:2]) for name in ("median", "mean")}
    return Verdict(
        median < 0.25 * mean,
        f"n = {largest:,}, ψ = 0.4: median {median:.2f}, mean {mean:.2f}. Without corruption both errors fall with "
        f"slopes {slopes['median']:.2f} and {slopes['mean']:.2f} (1/√n is −0.5)",
    )


@claim(
    "fig:conv-mean-est",
    "The median's error converges as rows are added, also under corruption "
    "(checked as: falls by 30% from the middle size to the largest at ψ = 0.4).",
)
def _check_plateau(results: Results) -> Verdict:
    cells = results["errors"]
    sizes = sorted(cells.distinct("n"))
    some, all_rows = sizes[len(sizes) // 2], sizes[-1]
    before, after = (cells.mean("median_error", n=n, psi=0.4) for n in (some, all_rows))
    return Verdict(
        after < 0.7 * before,
        f"error of the median at ψ = 0.4: {before:.2f} with n = {some:,}, {after:.2f} with n = {all_rows:,}; only "
        f"without corruption more rows help ({cells.mean('median_error', n=some, psi=0.0):.3f} and "
        f"{cells.mean('median_error', n=all_rows, psi=0.0):.3f})",
    )


def _table_time(results: Results) -> Table:
    cells = results["times"]
    rows, columns = sorted(cells.distinct("n")), sorted(cells.distinct("s"))
    shown = columns if len(columns) <= 4 else [columns[0], columns[len(columns) // 2], columns[-1]]
    return Table(
        "Time of one median in milliseconds, paper's protocol / our defaults: medians over the seeds, one core.",
        ("n", *(f"s = {s:,}" for s in shown)),
        [
            [f"{n:,}", *(_both_times(results, n, s) for s in shown)]
            for n in rows
        ],
    )  # fmt: skip


def _both_times(results: Results, n: int, s: int) -> str:
    return " / ".join(
        f"{1e3 * results['times'].median('time', n=n, s=s, protocol=name):.2f}" for name in PROTOCOLS
    )


def _table_error(results: Results) -> Table:
    cells = results["errors"]
    return Table(
        "Distance to the true mean, median / mean, averaged over the seeds.",
        ("n", *(f"ψ = {psi:g}" for psi in RATES)),
        [
            [f"{n:,}", *(
                " / ".join(f"{cells.mean(f'{name}_error', n=n, psi=psi):.2f}" for name in ("median", "mean"))
                for psi in RATES
            )]
            for n in sorted(cells.distinct("n"))
        ],
    )  # fmt: skip


def _table_iterations(results: Results) -> Table:
    cells = results["iterations"]
    rows = []
    for case, words in CASES.items():
        for field, whose in (("iterations", "Algorithm 2"), ("ours", "our defaults")):
            mine = cells.where(case=case)
            rows.append([words, whose, *(f"{mine.mean(field, eps=eps):,.0f}" for eps in EPSILONS)])
    return Table(
        "Iterations until ρ(z) ≤ (1 + ε)·ρ(best): of Algorithm 2 from the mean, held against the best point; of our "
        "defaults, which certify it themselves.",
        ("rows", "by", *(f"ε = {eps:.0e}" for eps in EPSILONS)),
        rows,
    )


_QUICK, _FULL = tuple(2**power for power in range(5, 12, 2)), tuple(2**power for power in range(5, 13))

STUDY = Study(
    name="median-scaling",
    title="Time and error of the geometric median",
    paper=("fig:wall-clock", "fig:conv-mean-est"),
    parts=(
        Part(
            "errors",
            measure_error,
            quick=Grid({"n": _QUICK, "psi": RATES}, seeds=5),
            full=Grid({"n": tuple(2**power for power in range(5, 17)), "psi": RATES}, seeds=20),
        ),
        Part(
            "times",
            measure_time,
            quick=Grid({"n": _QUICK, "s": _QUICK, "protocol": PROTOCOLS}, seeds=3),
            full=Grid({"n": _FULL, "s": _FULL, "protocol": PROTOCOLS}, seeds=10),
            timed=True,
        ),
        Part(
            "iterations",
            measure_iterations,
            *grids({"case": tuple(CASES), "eps": EPSILONS}, {"most": 100_000}, seeds=(1, 10)),
        ),
    ),
    claims=(
        _check_linear_s,
        _check_linear_n,
        _check_iterations,
        _check_typical,
        _check_degenerate,
        _check_accuracy,
        _check_error,
        _check_plateau,
    ),
    pictures={"": draw_time, "-error": draw_error},
    tables=(_table_time, _table_error, _table_iterations),
)
