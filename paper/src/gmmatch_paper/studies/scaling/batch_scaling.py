"""Matching in batches: time and error against k (fig:wall-clock B, fig:main-conv-gmm, lemma:gmm_comp)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import gmmatch as gm
from gmmatch_paper.arrays import Indices, Matrix, Vector
from gmmatch_paper.studies.results import Results, log_slope
from gmmatch_paper.studies.scaling.batch_scaling_figure import MODES, draw, largest_k
from gmmatch_paper.studies.study import Grid, Measured, Part, Study, Table, Verdict, claim
from gmmatch_paper.studies.synthetic.noisy_gaussian_data import NoisyRows, noisy_gaussian
from gmmatch_paper.studies.timing import timed
from gmmatch_paper.theory import batch_error_rate


def measure_error(*, n: int, psi: float, k: int, batches: int, mode: str, seed: int) -> Measured:
    """Pick k rows in batches; return the distance to the target and to the clean mean."""
    data = noisy_gaussian(n, psi, seed)
    target = gm.geometric_median(data.rows, n_jobs=1).point
    order = pick_in_batches(data.rows, target, k, batches, mode, seed)
    return _errors(data, order, target)


def _errors(data: NoisyRows, order: Indices, target: Vector) -> Measured:
    mean = data.rows[order].mean(axis=0)
    return {
        "residual": np.linalg.norm(mean - target),
        "delta_squared": np.sum((mean - data.clean_mean) ** 2),
        "contamination": data.corrupt[order].mean(),
    }


def pick_in_batches(rows: Matrix, target: Vector, k: int, batches: int, mode: str, seed: int) -> Indices:
    """Return k picks that match the median of the rows, the target: θ carried from batch to batch, or not.

    "carry" and "no-carry" are what the package offers as ``batches=8`` and ``batches=Independent(8)``. In
    "independent" every batch matches the target on its own and nothing is merged or corrected: what the paper's
    analysis of the variance assumes.
    """
    if mode == "independent":
        parts = split(len(rows), k, batches, seed)
        return np.concatenate(
            [batch[match_plainly(rows[batch], target, target, count)[0]] for batch, count in parts]
        )
    option = batches if mode == "carry" else gm.Independent(batches)
    return gm.GMMatching(k=k, batches=option, random_state=seed).select(rows, n_jobs=1).order


def split(n: int, k: int, batches: int, seed: int) -> list[tuple[Indices, int]]:
    """Return random batches of n rows, and how many of k picks each makes."""
    parts = np.array_split(np.random.default_rng(seed).permutation(n), batches)
    return [(part, k // batches + (number < k % batches)) for number, part in enumerate(parts)]


def match_plainly(rows: Matrix, theta: Vector, target: Vector, k: int) -> tuple[Indices, Vector]:
    """Return k picks from θ on and the θ after them, as the paper's listing has it: a pass over the rows for each."""
    order, free = np.empty(k, dtype=np.int64), np.ones(len(rows), dtype=bool)
    for t in range(k):
        order[t] = int(np.argmax(np.where(free, rows @ theta, -np.inf)))
        free[order[t]] = False
        theta = theta + target - rows[order[t]]
    return order, theta


def measure_target(*, n: int, psi: float, k: int, batches: int, target: str, seed: int) -> Measured:
    """Run Algorithm 1 with the median of all rows or of each batch in its update; θ is carried on, or restarts."""
    data = noisy_gaussian(n, psi, seed)
    median = gm.geometric_median(data.rows, n_jobs=1).point
    theta, orders = median, []
    for batch, count in split(n, k, batches, seed):
        if target == LITERAL:
            theta = median
        own = median if target == "all rows" else gm.geometric_median(data.rows[batch], n_jobs=1).point
        order, theta = match_plainly(data.rows[batch], theta, own, count)
        orders.append(batch[order])
    return _errors(data, np.concatenate(orders), median)


def measure_time(*, n: int, s: int, k: int, batches: int, seed: int) -> Measured:
    """Time k picks in batches on one core, one pass over the batch per pick as in the paper's listing."""
    rows = np.random.default_rng(seed).standard_normal((n, s))
    mean = rows.mean(axis=0)

    def match_batches() -> None:
        theta = mean
        for batch, count in split(n, k, batches, seed):
            _, theta = match_plainly(rows[batch], theta, mean, count)

    def match_by_package() -> None:
        gm.Herding(k=k, batches=batches, random_state=seed).select(rows, n_jobs=1)

    gm.Herding(k=4, batches=min(2, batches)).select(rows[:64], n_jobs=1)  # loads the compiled code
    return {"time": timed(match_batches, repeats=3)[0], "time_auto": timed(match_by_package, repeats=3)[0]}


def _enough_picks(cell: Mapping[str, Any]) -> bool:
    """Every batch makes a pick, and a single batch has nothing to carry."""
    return bool(
        cell["batches"] <= cell["k"] and (cell["batches"] > 1 or cell.get("mode", "carry") == "carry")
    )


@claim(
    "fig:main-conv-gmm",
    "Moderate to large B (256, 512) gives lower errors for the same k than B = 1 "
    "(checked as: 10% lower at the largest k, carried on or independent).",
)
def _check_larger_is_better(results: Results) -> Verdict:
    k = largest_k(results)
    cells = results["errors"].where(k=k)
    errors = {
        mode: {number: cells.mean("delta_squared", batches=number, mode=mode) for number in _several(results)}
        for mode in ("carry", "independent")
    }
    one = cells.mean("delta_squared", batches=1)
    middle = [number for number in _several(results) if 256 <= number <= 512]
    return Verdict(
        any(min(errors[mode][number] for number in middle) < 0.9 * one for mode in errors),
        f"Δ² with k = {k:,}: {one:.4f} for B = 1; carrying θ on, "
        + ", ".join(f"{errors['carry'][number]:.4f} for B = {number:,}" for number in _several(results))
        + "; independent, "
        + ", ".join(
            f"{errors['independent'][number]:.3g} for B = {number:,}" for number in _several(results)
        ),
    )


@claim(
    "fig:main-conv-gmm",
    "B = 1 has a more pronounced error at smaller k (checked as: a lower mean Δ² for B = 32 at the smallest k).",
)
def _check_few_picks(results: Results) -> Verdict:
    few = min(results["errors"].distinct("k"))
    alone, batched = (
        results["errors"].values("delta_squared", k=few, batches=number, mode="carry") for number in (1, 32)
    )
    return Verdict(
        bool(batched.mean() < alone.mean()),
        f"Δ² with k = {few}, θ carried on: {alone.mean():.3f} for B = 1 and {batched.mean():.3f} for B = 32, "
        f"which is lower in {int((batched < alone).sum())} of {len(alone)} seeds",
    )


def _several(results: Results) -> list[int]:
    return [int(number) for number in results["errors"].distinct("batches") if number > 1]


@claim("sec:comp", "With a moderate batch size the additional error is negligible (carrying θ on).")
def _check_negligible(results: Results) -> Verdict:
    cells, k = results["errors"], largest_k(results)
    one = cells.mean("residual", batches=1, k=k)
    worst = max(cells.mean("residual", batches=number, k=k, mode="carry") for number in _several(results))
    delta = cells.mean("delta_squared", batches=1, k=k)
    return Verdict(
        worst**2 < 0.01 * delta,
        f"carrying θ on with k = {k:,}, the distance to the median is {one:.1e} for B = 1 and at most {worst:.1e} "
        f"for any B; the median itself is {np.sqrt(delta):.2f} from the clean mean",
    )


def independent_slope(results: Results) -> float:
    """Return the slope of the independent batches' residual against B/k, where a batch makes 4 to 64 picks."""
    cells = [
        cell for cell in results["errors"].where(mode="independent") if 4 <= cell["k"] / cell["batches"] <= 64
    ]
    ratios = [cell["batches"] / cell["k"] for cell in cells]
    return log_slope(ratios, [cell["residual"] for cell in cells])


@claim(
    "sec:comp",
    "The error of independent batches is O(B/k) + O(1/√B) (checked as: below 20 times their sum, and "
    "falling with B somewhere).",
)
def _check_prediction(results: Results) -> Verdict:
    k = largest_k(results)
    cells = results["errors"].where(k=k, mode="independent")
    curve = cells.curve("batches", "residual")
    falls = bool(np.any(np.diff(curve.y) < 0))
    ratios = [
        cell["residual"] / sum(batch_error_rate(cell["k"], cell["batches"]))
        for cell in results["errors"].where(mode="independent")
    ]
    return Verdict(
        max(ratios) < 20.0 and falls,
        f"the residual is {min(ratios):.2f} to {max(ratios):.0f} times B/k + 1/√B. Against B/k it has the slope "
        f"{independent_slope(results):.2f} on log-log axes, so the first term is there; with k = {k:,} it grows from "
        f"{curve.y[0]:.2g} at B = {curve.x[0]:.0f} to {curve.y[-1]:.2g} at B = {curve.x[-1]:.0f} and "
        + (
            "falls somewhere in between"
            if falls
            else "never falls: no term that shrinks as 1/√B is seen, the batches' errors do not average out"
        ),
    )


@claim("ours", "The package's Independent(B) at least halves the residual of independent batches.")
def _check_correction(results: Results) -> Verdict:
    cells = results["errors"]
    k, many = largest_k(results), max(_several(results))
    per_batch = {number: k // number for number in _several(results)}
    gains = {
        number: cells.mean("residual", k=k, batches=number, mode="independent")
        / cells.mean("residual", k=k, batches=number, mode="no-carry")
        for number in _several(results)
    }
    return Verdict(
        min(gains.values()) > 2.0,
        f"with k = {k:,}, the residual falls by a factor of "
        + ", ".join(f"{gains[number]:.3g} ({per_batch[number]} picks per batch)" for number in gains)
        + f"; it is {cells.mean('residual', k=k, batches=many, mode='no-carry'):.2g} for B = {many:,}",
    )


@claim(
    "lemma:gmm_comp",
    "B batches cut the time of the matching by a factor of B (checked as: by half of that at B = 32).",
)
def _check_time(results: Results) -> Verdict:
    cells = results["times"]
    k = max(cells.distinct("k"))
    counts = sorted(cells.distinct("batches"))
    one = cells.median("time", k=k, batches=1)
    speedups = {number: one / cells.median("time", k=k, batches=number) for number in counts[1:]}
    auto = cells.median("time", k=k, batches=1) / cells.median("time_auto", k=k, batches=1)
    first = counts[1]
    return Verdict(
        speedups[first] > 0.5 * first,
        f"speed-up over B = 1 at k = {k:,}: "
        + ", ".join(f"{speedup:.0f} for B = {number:,}" for number, speedup in speedups.items())
        + f"; without any batches, the package's own scan gains {auto:.1f}",
    )


def _table_error(results: Results) -> Table:
    k = largest_k(results)
    cells = results["errors"].where(k=k)
    rows = []
    for number in cells.distinct("batches"):
        row = [f"{number:,}"]
        modes = ["carry" if number == 1 else mode for mode in MODES]
        row += [f"{cells.mean('residual', batches=number, mode=mode):.2e}" for mode in modes]
        row += [f"{cells.mean('delta_squared', batches=number, mode=mode):.4g}" for mode in modes]
        rate = batch_error_rate(k, int(number))
        rows.append([*row, f"{rate.matching:.2g}", f"{rate.averaging:.2g}"])
    fixed = results.fixed["errors"]
    return Table(
        f"Distance r of the picks' mean to the median, and Δ² to the clean mean, n = {fixed['n']:,}, k = {k:,}, "
        f"ψ = {fixed['psi']:g}; means over the seeds; then the two terms that the paper predicts for r.",
        ("B", *(f"r, {mode}" for mode in MODES), *(f"Δ², {mode}" for mode in MODES), "B/k", "1/√B"),
        rows,
    )


def _table_time(results: Results) -> Table:
    cells = results["times"]
    counts = sorted(cells.distinct("batches"))
    fixed = results.fixed["times"]
    return Table(
        f"Time in milliseconds of k picks from n = {fixed['n']:,} rows with {fixed['s']} columns, one pass per pick, "
        "one core.",
        ("k", *(f"B = {number:,}" for number in counts)),
        [
            [f"{k:,}", *(
                f"{1e3 * cells.median('time', k=k, batches=number):.1f}" if number <= k else "" for number in counts
            )]
            for k in sorted(cells.distinct("k"))
        ],
    )  # fmt: skip


@claim(
    "ours",
    "It makes no difference whether the update takes the median of all rows or, as the listing has it, "
    "that of the batch (checked as: Δ² at most a tenth larger).",
)
def _check_targets(results: Results) -> Verdict:
    cells = results["targets"]
    parts, agrees = [], True
    for number in cells.distinct("batches"):
        whole, each = (cells.mean("delta_squared", batches=number, target=target) for target in TARGETS[:2])
        agrees &= each <= 1.1 * whole
        parts.append(f"{whole:.3f} and {each:.3f} for B = {number:,}")
    return Verdict(agrees, f"Δ² with the median of all rows and of each batch: {', '.join(parts)}")


@claim(
    "ours",
    "Read to the letter, the listing restarts θ in every batch and matches the batch's own median; that costs "
    "accuracy "
    "(checked as: Δ² over a tenth larger than with θ carried on and one median, for every B above 1).",
)
def _check_literal(results: Results) -> Verdict:
    cells = results["targets"]
    pairs = {
        number: [
            cells.mean("delta_squared", batches=number, target=target) for target in (TARGETS[0], LITERAL)
        ]
        for number in cells.distinct("batches")
        if number > 1
    }
    words = ", ".join(f"{first:.3f} and {second:.3f} for B = {n:,}" for n, (first, second) in pairs.items())
    return Verdict(
        all(second > 1.1 * first for first, second in pairs.values()),
        f"Δ² carried on, and to the letter: {words}",
    )


def _table_targets(results: Results) -> Table:
    cells = results["targets"]
    numbers = cells.distinct("batches")
    rows = [
        [
            f"{words}, median of {target}",
            *(f"{cells.mean(field, batches=b, target=target):.3g}" for b in numbers),
        ]
        for field, words in (("residual", "distance to the median of all rows"), ("delta_squared", "Δ²"))
        for target in TARGETS
    ]
    k = results.fixed["targets"]["k"]
    return Table(
        f"Algorithm 1 with the readings of μ(Φ_b), k = {k:,} picks; θ is carried on but in the last.",
        ("", *(f"B = {number:,}" for number in numbers)),
        rows,
    )


LITERAL = "each batch, θ restarts"
"""The listing to the letter: its θ starts at t = 0 in every batch."""

TARGETS = ("all rows", "each batch", LITERAL)
_BATCHES = (1, 32, 64, 128, 256, 512, 1024)
_ERRORS = {"k": (64, 128, 256, 512, 1024, 2048, 4096), "batches": _BATCHES, "mode": MODES}
_QUICK_ERRORS = {"k": (64, 512, 2048), "batches": (1, 32, 256, 1024), "mode": MODES}
_TIMES = {"k": (64, 256, 1024, 4096), "batches": _BATCHES}
_QUICK_TIMES = {"k": (64, 256, 1024), "batches": (1, 32, 256, 1024)}

STUDY = Study(
    name="batch-scaling",
    title="Matching in batches",
    paper=("fig:wall-clock", "fig:main-conv-gmm", "lemma:gmm_comp"),
    parts=(
        Part(
            "errors",
            measure_error,
            quick=Grid(_QUICK_ERRORS, {"n": 8192, "psi": 0.2}, seeds=2),
            full=Grid(_ERRORS, {"n": 16384, "psi": 0.2}, seeds=10),
            keep=_enough_picks,
        ),
        Part(
            "times",
            measure_time,
            quick=Grid(_QUICK_TIMES, {"n": 8192, "s": 64}, seeds=1),
            full=Grid(_TIMES, {"n": 16384, "s": 128}, seeds=5),
            timed=True,
            keep=_enough_picks,
        ),
        Part(
            "targets",
            measure_target,
            quick=Grid({"batches": (1, 32), "target": TARGETS}, {"n": 2048, "psi": 0.2, "k": 256}, seeds=2),
            full=Grid(
                {"batches": (1, 32, 256, 1024), "target": TARGETS},
                {"n": 16384, "psi": 0.2, "k": 4096},
                seeds=10,
            ),
        ),
    ),
    claims=(
        _check_larger_is_better,
        _check_few_picks,
        _check_negligible,
        _check_prediction,
        _check_targets,
        _check_literal,
        _check_correction,
        _check_time,
    ),
    pictures={"": draw},
    tables=(_table_error, _table_time, _table_targets),
)
