"""What each study concludes, as a property with a margin, on small sizes."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch_paper.studies.results import log_slope
from gmmatch_paper.studies.synthetic import (
    breakdown,
    noisy_gaussian,
    unit_target,
)
from gmmatch_paper.studies.synthetic.kernel_space import greedy_picks, median_coefficients
from gmmatch_paper.studies.synthetic.noisy_gaussian_data import noisy_gaussian as rows_of
from gmmatch_paper.studies.synthetic.worst_attack import (
    far_cluster_error,
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


def test_the_textbook_loop_in_the_linear_kernel_is_linear_matching() -> None:
    rows = rows_of(300, 0.2, seed=1).rows
    picks = greedy_picks(rows @ rows.T, median_coefficients(rows @ rows.T, eps=1e-12), 30)
    expected = gm.GMMatching(k=30, target=gm.GeometricMedian(eps=1e-12)).select(rows).order
    assert picks.tolist() == expected.tolist()


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


def test_the_median_can_lie_outside_the_hull_of_the_clean_rows() -> None:
    found = breakdown.measure_hull(configuration="collinear", seed=0)
    assert found["psi"] < 0.5
    assert not found["in_clean_hull"] and found["in_hull_of_all"]
    assert found["distance"] == pytest.approx(1 / np.sqrt(3), abs=1e-6)
    square = breakdown.measure_hull(configuration="square", seed=0)
    assert square["distance"] > 1.0 and square["psi"] < 0.5


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
