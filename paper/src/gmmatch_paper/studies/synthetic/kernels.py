"""GM Matching in polynomial and RBF kernels (fig:exp-syn-kernel)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

import gmmatch as gm
from gmmatch_paper.studies import style
from gmmatch_paper.studies.results import Cells, Results
from gmmatch_paper.studies.study import Measured, Part, Study, Table, Verdict, claim, grids
from gmmatch_paper.studies.synthetic.kernel_space import gram_matrix, greedy_picks, median_coefficients
from gmmatch_paper.studies.synthetic.noisy_gaussian_data import noisy_gaussian

DEGREES = (1, 3, 5, 10)
KERNELS = (*(f"degree {degree}" for degree in DEGREES), "rbf")
BANDWIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
RATES = (0.2, 0.4)


def kernel_named(name: str) -> gm.RBF | gm.Polynomial:
    """Return a kernel of the study: "degree 3" is (⟨x, y⟩ + 1)³, "rbf" has the median bandwidth."""
    return gm.RBF() if name == "rbf" else gm.Polynomial(degree=int(name.split()[1]), c=1.0)


def measure_kernel(*, n: int, k: int, psi: float, kernel: str, seed: int) -> Measured:
    """Pick with the median and with the mean as the target in one kernel's space."""
    return _measure(kernel_named(kernel), n, k, psi, seed, keep_picks=seed == 0)


def measure_bandwidth(*, n: int, k: int, psi: float, bandwidth: float, seed: int) -> Measured:
    """The same in RBF kernels of several bandwidths."""
    return _measure(gm.RBF(bandwidth), n, k, psi, seed, keep_picks=False)


def _measure(
    kernel: gm.RBF | gm.Polynomial, n: int, k: int, psi: float, seed: int, keep_picks: bool
) -> Measured:
    data = noisy_gaussian(n, psi, seed)
    gram = gram_matrix(kernel, data.rows)
    clean = ~data.corrupt / np.count_nonzero(~data.corrupt)

    def error(coefficients: Any) -> float:
        offset = coefficients - clean
        return float(np.sqrt(max(0.0, float(offset @ gram @ offset))))

    median = median_coefficients(gram)
    measured: Measured = {
        "median_error": error(median),
        "mean_error": error(np.full(n, 1.0 / n)),
        "corrupt_weight": median[data.corrupt].sum(),
    }
    for name, coefficients in (("gm", median), ("herding", np.full(n, 1.0 / n))):
        picks = greedy_picks(gram, coefficients, k)
        measured[f"{name}_contamination"] = gm.metrics.contamination(picks, data.corrupt)
        measured[f"{name}_error"] = gm.metrics.moment_error(data.rows[picks], data.clean)
        measured[f"{name}_mmd"] = gm.metrics.mmd(data.rows[picks], data.clean)
        if keep_picks and name == "gm":
            target = gm.GeometricMedian(max_iter=5000)
            selection = gm.GMMatching(k=k, kernel=kernel, target=target).select(data.rows, n_jobs=1)
            measured["picks"] = np.sort(picks)
            measured["shared_with_package"] = len(np.intersect1d(picks, selection.indices)) / k
    return measured


def ratio(cell: Mapping[str, Any]) -> float:
    """Return the median's error as a share of the mean's, both in the kernel's space."""
    return float(cell["median_error"] / cell["mean_error"])


def draw(results: Results) -> Any:
    """Draw what GM Matching picks in each kernel at ψ = 0.2, and how robust an RBF kernel's median is."""
    figure = style.new_figure(5.3)
    axes = figure.subplots(2, 3)
    n = results.fixed["kernels"]["n"]
    data = noisy_gaussian(n, 0.2, 0)
    for panel, letter, name in zip(axes.flat, "abcde", KERNELS, strict=False):
        cell = results["kernels"].one(psi=0.2, kernel=name, seed=0)
        style.scatter_picks(panel, data, cell["picks"])
        title = "RBF" if name == "rbf" else name.capitalize()
        panel.set_title(f"({letter})  {title}\n{style.percent(cell['gm_contamination'])} corrupted")
    style.legend(figure, axes.flat[0])
    _draw_bandwidths(axes.flat[5], results)
    return figure


def _draw_bandwidths(axes: Any, results: Results) -> None:
    for psi, color, marker in zip(RATES, (style.SKY, style.BLUE), "o*", strict=True):
        curve = results["bandwidths"].curve("bandwidth", ratio, psi=psi)
        style.band(axes, curve, color, marker=marker, label=f"ψ = {psi:g}")
    axes.set(xscale="log", ylim=(0, 1.05), xlabel="RBF bandwidth")
    axes.set_title("(f)  RBF: median's error,\nthat of the mean = 1")
    axes.legend(loc="upper right")


def _mean(results: Results, field: str, kernel: str, psi: float = 0.2) -> float:
    return results["kernels"].mean(field, kernel=kernel, psi=psi)


def _listed(results: Results, field: str, digits: int = 2) -> str:
    return ", ".join(f"{name} {_mean(results, field, name):.{digits}f}" for name in KERNELS)


@claim(
    "fig:exp-syn-kernel",
    "A higher degree improves representational capacity (checked as: every step lowers the MMD).",
)
def _check_capacity(results: Results) -> Verdict:
    mmd = [_mean(results, "gm_mmd", f"degree {degree}") for degree in DEGREES]
    return Verdict(
        all(later < earlier for earlier, later in itertools.pairwise(mmd)),
        f"MMD of the picks to the clean rows at ψ = 0.2: {_listed(results, 'gm_mmd')}",
    )


@claim(
    "fig:exp-syn-kernel",
    "A higher degree may amplify noise (checked as: degree 10 picks more corrupted rows than degree 1).",
)
def _check_noise(results: Results) -> Verdict:
    shares = [_mean(results, "gm_contamination", f"degree {degree}") for degree in DEGREES]
    herding = [_mean(results, "herding_contamination", f"degree {degree}") for degree in DEGREES]
    return Verdict(
        shares[-1] > shares[0],
        f"share of corrupted picks at ψ = 0.2: {_listed(results, 'gm_contamination')}; matching the mean instead: "
        f"{', '.join(f'{share:.2f}' for share in herding)} for the four degrees",
    )


@claim("ours", "Degree 1 gives the picks' mean that is nearest to the clean one.")
def _check_mean(results: Results) -> Verdict:
    errors = [_mean(results, "gm_error", f"degree {degree}") for degree in DEGREES]
    return Verdict(
        int(np.argmin(errors)) == 0,
        f"distance from the picks' mean to the clean rows' at ψ = 0.2: {_listed(results, 'gm_error')}",
    )


def _gain(cells: Cells, **conditions: Any) -> float:
    """Return the mean of the ratio above."""
    return float(np.mean([ratio(cell) for cell in cells.where(**conditions)]))


@claim(
    "ours",
    "In a narrow RBF kernel (bandwidth of 0.5 or less) the median is hardly more robust than the mean: it "
    "keeps over 90% of its error at ψ = 0.4.",
)
def _check_narrow(results: Results) -> Verdict:
    gains = {width: _gain(results["bandwidths"], psi=0.4, bandwidth=width) for width in BANDWIDTHS}
    narrow = [gains[width] for width in BANDWIDTHS if width <= 0.5]
    return Verdict(
        min(narrow) > 0.9,
        "error of the median relative to the mean's in the RBF kernel's space at ψ = 0.4: "
        + ", ".join(f"{gain:.2f} at bandwidth {width:g}" for width, gain in gains.items()),
    )


@claim("ours", "The same holds for the usual bandwidth, the median distance (over 80%).")
def _check_median_bandwidth(results: Results) -> Verdict:
    gains = {psi: _gain(results["kernels"], kernel="rbf", psi=psi) for psi in RATES}
    shares = {psi: _mean(results, "gm_contamination", "rbf", psi) for psi in RATES}
    herding = {psi: _mean(results, "herding_contamination", "rbf", psi) for psi in RATES}
    return Verdict(
        min(gains.values()) > 0.8,
        "with the median distance of all rows as bandwidth it keeps "
        + " and ".join(
            f"{gains[psi]:.2f} of the mean's error at ψ = {psi:g} ({shares[psi]:.2f} of the picks corrupted, against "
            f"{herding[psi]:.2f} for kernel herding)"
            for psi in RATES
        ),
    )


@claim("ours", "The package's kernel matching makes the same picks as the textbook loop used here.")
def _check_package(results: Results) -> Verdict:
    cells = results["kernels"].where(psi=0.2, seed=0)
    shared = {name: cells.one(kernel=name)["shared_with_package"] for name in KERNELS}
    return Verdict(
        min(shared.values()) == 1.0,
        "share of picks in common: " + ", ".join(f"{name} {share:.2f}" for name, share in shared.items()),
    )


def _table(results: Results) -> Table:
    rows = []
    for psi in RATES:
        for name in KERNELS:
            cells = results["kernels"].where(psi=psi, kernel=name)
            row = [f"{psi:g}", "RBF" if name == "rbf" else f"polynomial, {name}", f"{_gain(cells):.2g}"]
            for field in ("contamination", "error", "mmd"):
                row += [f"{cells.mean(f'{target}_{field}'):.2f}" for target in ("gm", "herding")]
            rows.append(row)
    fixed = results.fixed["kernels"]
    return Table(
        f"Error of the median relative to the mean's in the kernel's space; then, for k = {fixed['k']} picks of "
        f"n = {fixed['n']:,} that match the median (GM) or the mean (H): share of corrupted picks, distance of their "
        "mean from the clean rows', and MMD to the clean rows. Means over the seeds.",
        (
            "ψ",
            "kernel",
            "median : mean",
            "corrupted GM",
            "corrupted H",
            "error GM",
            "error H",
            "MMD GM",
            "MMD H",
        ),
        rows,
    )


_FIXED = {"n": 1000, "k": 100}

STUDY = Study(
    name="kernels",
    title="Matching in polynomial and RBF kernels",
    paper=("fig:exp-syn-kernel",),
    parts=(
        Part("kernels", measure_kernel, *grids({"psi": RATES, "kernel": KERNELS}, _FIXED, seeds=(2, 10))),
        Part(
            "bandwidths",
            measure_bandwidth,
            *grids({"psi": RATES, "bandwidth": BANDWIDTHS}, _FIXED, seeds=(1, 10)),
        ),
    ),
    claims=(
        _check_capacity,
        _check_noise,
        _check_mean,
        _check_narrow,
        _check_median_bandwidth,
        _check_package,
    ),
    pictures={"": draw},
    tables=(_table,),
)
