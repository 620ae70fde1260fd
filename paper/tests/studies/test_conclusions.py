"""What each study concludes, as a property with a margin, on small sizes."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch_paper.studies.results import log_slope
from gmmatch_paper.studies.scaling import batch_scaling, median_scaling, subsampling
from gmmatch_paper.studies.synthetic import (
    bounds,
    breakdown,
    kernels,
    median_landscape,
    moment_convergence,
    noisy_gaussian,
    robust_mean,
    unit_target,
)
from gmmatch_paper.studies.synthetic.kernel_space import greedy_picks, median_coefficients
from gmmatch_paper.studies.synthetic.noisy_gaussian_data import noisy_gaussian as rows_of
from gmmatch_paper.studies.synthetic.worst_attack import (
    distance_to_hull,
    far_cluster_error,
    in_hull,
    pull,
    worst_median,
)

pytestmark = pytest.mark.filterwarnings("ignore::gmmatch.errors.GMMatchWarning")


def average(measure, field, seeds=3, **cell):  # type: ignore[no-untyped-def]
    return float(np.mean([measure(**cell, seed=seed)[field] for seed in range(seeds)]))


def test_the_mixture_is_the_papers() -> None:
    data = rows_of(100_000, 0.4, seed=0)
    assert int(data.corrupt.sum()) == 40_000
    np.testing.assert_allclose(data.clean_mean, [0.0, 0.0], atol=0.02)
    np.testing.assert_allclose(data.rows[data.corrupt].mean(axis=0), [10.0, 6.0], atol=0.02)
    np.testing.assert_allclose(np.cov(data.clean.T), [[1.0, -0.5], [-0.5, 0.5]], atol=0.02)
    np.testing.assert_allclose(np.cov(data.rows[data.corrupt].T), [[1.0, 0.5], [0.5, 0.5]], atol=0.02)
    # The corrupt rows do not stand together.
    assert 0.38 < data.corrupt[:10_000].mean() < 0.42


def test_robust_mean() -> None:
    errors = {
        (psi, name): average(robust_mean.measure_centers, f"{name}_error", n=1000, psi=psi)
        for psi in (0.0, 0.2, 0.4, 0.45)
        for name in ("mean", "median")
    }
    assert errors[0.4, "median"] < 0.25 * errors[0.4, "mean"]
    assert errors[0.2, "median"] < 0.2 * errors[0.2, "mean"]
    assert errors[0.0, "median"] < 0.1
    # It is not unmoved: at 45% it is off by more than the clean rows' spread.
    assert errors[0.45, "median"] > 1.0


@pytest.mark.parametrize("configuration", ["triangle", "pentagon"])
def test_landscape_is_lowest_at_the_centre_of_symmetric_points(configuration: str) -> None:
    found = median_landscape.measure_landscape(configuration=configuration, seed=0)
    assert found["off_center"] < 1e-9
    assert found["objective"] <= found["lowest_on_grid"] * (1 + 1e-12)


def test_landscape_of_random_and_obtuse_points() -> None:
    for seed in range(3):
        found = median_landscape.measure_landscape(configuration="random", seed=seed)
        assert found["objective"] <= found["lowest_on_grid"] * (1 + 1e-12)
        assert found["grid_distance"] < 2 * found["grid_step"]
    assert median_landscape.measure_landscape(configuration="obtuse", seed=0)["nearest_point"] == 0.0
    moved = median_landscape.measure_outlier(distance=1000.0, seed=0)
    assert moved["median_moves"] < 0.01 * moved["mean_moves"]


def test_noisy_gaussian() -> None:
    def value(method: str, field: str, psi: float) -> float:
        return average(noisy_gaussian.measure_picks, field, n=1000, k=100, psi=psi, method=method)

    own = {field: value("gm-matching", field, 0.4) for field in ("contamination", "mean_error", "mmd")}
    assert own["contamination"] < 0.5 * value("herding", "contamination", 0.4)
    assert own["mean_error"] < 0.25 * value("herding", "mean_error", 0.4)
    assert value("hard", "contamination", 0.4) > 0.95
    # Against the paper: Easy picks fewer corrupt rows than GM Matching does at ψ = 0.4,
    assert value("easy", "contamination", 0.4) < 0.5 * own["contamination"]
    # and linear picks have the right mean but the wrong distribution, even without corruption.
    assert own["mmd"] > 3 * value("clean-random", "mmd", 0.4)
    assert value("gm-matching", "mmd", 0.0) > 3 * value("clean-random", "mmd", 0.0)
    assert value("gm-matching", "mean_error", 0.0) < 0.5 * value("clean-random", "mean_error", 0.0)


def _path(field: str, **cell: object) -> tuple[np.ndarray, np.ndarray]:
    runs = [moment_convergence.measure_path(**cell, seed=seed) for seed in range(3)]  # type: ignore[arg-type]
    return np.array(runs[0]["k"]), np.exp(np.mean([np.log(run[field]) for run in runs], axis=0))


def test_moment_convergence_rates_without_corruption() -> None:
    for method, low, high in (("herding", -2.6, -1.6), ("random", -1.4, -0.6)):
        k, path = _path("delta_squared", n=2000, psi=0.0, method=method, replacement=False)
        inside = (k >= 5) & (k <= 200)
        assert low < log_slope(k[inside], path[inside]) < high


def test_moment_convergence_levels_off_under_corruption() -> None:
    k, own = _path("delta_squared", n=1000, psi=0.4, method="gm-matching", replacement=True)
    herding = _path("delta_squared", n=1000, psi=0.4, method="herding", replacement=True)[1]
    assert own[-1] < 0.1 * herding[-1]
    # Against the paper: it does not keep falling ...
    middle = int(np.searchsorted(k, 100))
    assert own[-1] > 0.7 * own[middle]
    # ... only its distance to the median does, as 1/k.
    residual = _path("residual", n=1000, psi=0.4, method="gm-matching", replacement=True)[1]
    assert -1.2 < log_slope(k[k >= 10], residual[k >= 10]) < -0.8


def test_each_row_once_the_rate_ends_when_clean_rows_run_out() -> None:
    turns = {
        psi: moment_convergence.measure_path(
            n=1000, psi=psi, method="gm-matching", replacement=False, seed=0
        )["turn"]
        for psi in (0.2, 0.4)
    }
    assert 700 < turns[0.2] < 900
    assert 500 < turns[0.4] < 700


def test_kernels() -> None:
    cells = {
        name: kernels.measure_kernel(n=500, k=50, psi=0.2, kernel=name, seed=0)
        for name in ("degree 1", "degree 3")
    }
    for found in cells.values():
        assert found["gm_contamination"] < 0.5 * found["herding_contamination"]
        assert found["shared_with_package"] == 1.0
    # Against the paper: a higher degree picks fewer corrupt rows here, not more.
    assert cells["degree 3"]["gm_contamination"] < cells["degree 1"]["gm_contamination"]


def test_an_rbf_median_is_robust_only_when_its_bandwidth_is_wide() -> None:
    narrow, wide = (
        kernels.measure_bandwidth(n=500, k=50, psi=0.4, bandwidth=width, seed=0) for width in (0.25, 8.0)
    )
    assert kernels.ratio(narrow) > 0.9
    assert kernels.ratio(wide) < 0.5


def test_the_textbook_loop_in_the_linear_kernel_is_linear_matching() -> None:
    rows = rows_of(300, 0.2, seed=1).rows
    picks = greedy_picks(rows @ rows.T, median_coefficients(rows @ rows.T, eps=1e-12), 30)
    expected = gm.GMMatching(k=30, target=gm.GeometricMedian(eps=1e-12)).select(rows).order
    assert picks.tolist() == expected.tolist()


def test_median_error_stops_falling_under_corruption() -> None:
    def error(name: str, n: int, psi: float) -> float:
        return average(median_scaling.measure_error, f"{name}_error", seeds=5, n=n, psi=psi)

    assert error("median", 8192, 0.0) < 0.4 * error("median", 256, 0.0)
    assert error("median", 8192, 0.4) > 0.8 * error("median", 256, 0.4)
    assert error("median", 8192, 0.4) < 0.25 * error("mean", 8192, 0.4)


def test_both_protocols_converge() -> None:
    paper, ours = (
        median_scaling.measure_time(n=512, s=64, protocol=protocol, seed=0) for protocol in ("paper", "ours")
    )
    assert paper["converged"] and paper["iterations"] < 20
    assert max(ours["gap"], paper["gap"]) <= 1e-8
    assert paper["time"] > 0.0


def _batch(field: str, batches: int, mode: str) -> float:
    return average(batch_scaling.measure_error, field, n=4096, psi=0.2, k=1024, batches=batches, mode=mode)


def test_batches_with_theta_carried_on_cost_no_accuracy() -> None:
    one = _batch("delta_squared", 1, "carry")
    for batches in (32, 256):
        assert _batch("delta_squared", batches, "carry") == pytest.approx(one, rel=0.1)


def test_independent_batches_get_worse_with_their_number() -> None:
    residuals = [_batch("residual", batches, "independent") for batches in (1, 32, 256)]
    assert residuals[1] > 5 * residuals[0]
    assert residuals[2] > 5 * residuals[1]


def test_independent_batches_match_the_target_one_by_one() -> None:
    rows = rows_of(256, 0.0, seed=0).rows
    picks = batch_scaling.pick_in_batches(rows, np.zeros(2), 64, 8, "independent", seed=0)
    assert len(set(picks.tolist())) == 64


def test_subsampling_adds_the_predicted_variance_without_corruption_and_more_with_it() -> None:
    def ratio(psi: float, gamma: float) -> float:
        found = subsampling.measure_error(n=2000, k=50, psi=psi, gamma=gamma, draws=60, seed=0)
        return float(found["median_added"] / found["predicted"])

    assert 0.7 < ratio(0.0, 0.1) < 2.5
    assert ratio(0.4, 0.1) > 4.0


def test_subsampling_at_one_half_hardly_matters() -> None:
    whole, half = (
        average(subsampling.measure_error, "median_error", n=2000, k=50, psi=0.4, gamma=gamma, draws=10)
        for gamma in (1.0, 0.5)
    )
    assert half < 1.05 * whole


def test_one_row_moves_the_mean_the_scores_and_linear_picks_anywhere() -> None:
    near, far = (breakdown.measure_one_row(n=300, k=30, distance=distance, seed=0) for distance in (1e2, 1e6))
    assert far["mean_missed"] < 1e-9 and far["lemma_error"] < 1e-9
    assert far["least_score_change"] > 0.9e12
    for field in ("mean", "herding", "gm-matching"):
        assert far[field] > 1000 * near[field]
    # What stays: the median, and picks in a bounded kernel.
    for field in ("median", "gm-matching-rbf"):
        assert far[field] < 0.2


@pytest.mark.parametrize("lead", [100, 20, 1])
def test_the_worst_attack_is_exact_and_below_the_bound(lead: int) -> None:
    found = breakdown.measure_worst(n_clean=200, lead=lead, seed=0)
    assert found["all_there"] == pytest.approx(found["worst"], rel=1e-3)
    assert found["all_far"] == pytest.approx(found["worst"], rel=1e-2)
    assert found["paper"] <= found["worst"] * (1 + 1e-6)
    assert found["worst"] < 0.5 * found["bound"]


def test_no_attack_that_was_tried_beats_the_worst_one() -> None:
    clean = rows_of(100, 0.0, seed=0).rows
    mean, m = clean.mean(axis=0), 80
    worst = float(np.linalg.norm(worst_median(clean, m)[0] - mean))
    random = np.random.default_rng(0)
    for _ in range(50):
        spread, distance = 10.0 ** random.uniform(-2, 1), 10.0 ** random.uniform(-1, 3)
        angle = random.uniform(0, 2 * np.pi)
        corrupt = (
            mean + distance * np.array([np.cos(angle), np.sin(angle)]) + spread * random.normal(size=(m, 2))
        )
        point = gm.geometric_median(np.vstack([clean, corrupt]), n_jobs=1).point
        assert np.linalg.norm(point - mean) <= worst * (1 + 1e-5)
        # A median that meets a clean row has that row on its side.
        assert pull(clean, point[None])[0] <= m + 1.001


def test_the_worst_error_grows_with_the_root_of_the_lead() -> None:
    clean = rows_of(400, 0.0, seed=0).rows
    leads = (1, 4, 16)
    errors = [
        float(np.linalg.norm(worst_median(clean, 400 - lead)[0] - clean.mean(axis=0))) for lead in leads
    ]
    assert -0.6 < log_slope(leads, errors) < -0.4
    assert errors[0] == pytest.approx(far_cluster_error(clean, 399), rel=0.02)


def test_at_one_half_the_median_goes_wherever_it_is_taken() -> None:
    found = breakdown.measure_half(n_clean=200, distance=1e6, seed=0)
    assert found["half"] == pytest.approx(1e6)
    assert found["one fewer"] < 100


def test_the_median_can_lie_outside_the_hull_of_the_clean_rows() -> None:
    found = breakdown.measure_hull(configuration="collinear", seed=0)
    assert found["psi"] < 0.5
    assert not found["in_clean_hull"] and found["in_hull_of_all"]
    assert found["distance"] == pytest.approx(1 / np.sqrt(3), abs=1e-6)
    square = breakdown.measure_hull(configuration="square", seed=0)
    assert square["distance"] > 1.0 and square["psi"] < 0.5


def test_distances_to_a_hull() -> None:
    square = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]])
    assert distance_to_hull(np.array([1.0, 1.0]), square) == 0.0
    assert distance_to_hull(np.array([1.0, 5.0]), square) == pytest.approx(3.0)
    assert distance_to_hull(np.array([5.0, 6.0]), square) == pytest.approx(5.0)
    assert in_hull(np.array([2.0, 1.0]), square)


def test_bounds_hold_and_are_loose() -> None:
    for psi in (0.1, 0.45):
        found = bounds.measure_median(n=300, psi=psi, seed=0)
        assert found["error"] <= found["worst"] * (1 + 1e-6)
        assert found["worst"] < 0.1 * found["bound"]
    path = bounds.measure_path(n=500, psi=0.4, seed=0)
    assert np.all(np.array(path["residual"]) < path["residual_bound"])
    assert np.all(np.array(path["delta_squared"]) < path["delta_bound"])
    assert path["least_cosine"] > path["kappa"] > 0.0


def test_the_bound_says_nothing_in_an_rbf_kernel() -> None:
    found = bounds.measure_rbf(n=400, k=40, psi=0.1, seed=0)
    assert found["bound"] > bounds.LARGEST_RBF_ERROR
    assert found["error"] < 0.1


def test_the_unit_target_keeps_scattered_rows_out_and_the_median_helps_against_a_cluster() -> None:
    def share(method: str, kind: str) -> float:
        cell = {"n": 500, "k": 50, "s": 64, "psi": 0.4, "kind": kind, "method": method}
        return average(unit_target.measure_picks, "contamination", **cell)

    for center in ("mean", "median"):
        assert share(f"{center}, unit target", "scattered") < 0.01
        assert share(f"{center}, unit rows", "scattered") > 0.25
        assert share(f"{center}, raw", "far") > 0.9
    assert share("median, unit target", "clustered") < share("mean, unit target", "clustered") - 0.03
    assert share("easy, unit rows", "near") < 0.75 * share("median, unit target", "near")


def test_kinds_of_corruption_lie_where_they_should() -> None:
    for kind, low, high in (("scattered", -0.2, 0.2), ("clustered", -0.2, 0.2), ("near", 0.55, 0.85)):
        data = unit_target.corrupted_rows(2000, 0.3, 64, kind, seed=0)
        clean, corrupt = data.clean_mean, data.rows[data.corrupt].mean(axis=0)
        cosine = clean @ corrupt / np.linalg.norm(clean) / max(0.2, float(np.linalg.norm(corrupt)))
        assert low < cosine < high
    far = unit_target.corrupted_rows(2000, 0.3, 64, "far", seed=0)
    lengths = np.linalg.norm(far.rows, axis=1)
    assert np.median(lengths[far.corrupt]) > 8 * np.median(lengths[~far.corrupt])
