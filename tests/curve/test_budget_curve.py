"""The budget curve: prefixes of one selection, figures as metrics give them, accuracy on rows that were not seen."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.curve import probe
from gmmatch.selectors import registry
from gmmatch.yardsticks import Yardsticks

RNG = np.random.default_rng(0)
CENTRES = 1.4 * RNG.standard_normal((4, 10))


def blobs(n, seed):
    random = np.random.default_rng(seed)
    y = random.integers(0, 4, n)
    return (CENTRES[y] + random.standard_normal((n, 10))).astype(np.float32), np.array(["a", "b", "c", "d"])[
        y
    ]


X, Y = blobs(2000, 1)
TEST = blobs(3000, 2)


@pytest.fixture(scope="module")
def curve():
    return gm.budget_curve(X, Y, sizes=["20%", 40, 0.05], methods=["random", "gm-matching"])


def test_sizes_are_counts_in_ascending_order_for_each_method(curve):
    assert [(point.method, point.k) for point in curve.points] == [
        (method, k) for method in ("random", "gm-matching") for k in (40, 100, 400)
    ]
    assert all(point.low <= point.accuracy <= point.high for point in curve.points)
    assert all(point.mislabeled is None for point in curve.points)


def test_held_out_rows_predict_the_accuracy_on_test_rows(curve):
    measured = gm.budget_curve(X, Y, sizes=["20%", 40, 0.05], methods=["random", "gm-matching"], test=TEST)
    for one, other in zip(curve.points, measured.points, strict=True):
        assert one.accuracy == pytest.approx(other.accuracy, abs=0.02)
        assert other.low < other.accuracy < other.high and other.high - other.low < 0.04


def test_figures_are_those_of_the_prefixes(curve):
    codes = np.searchsorted(["a", "b", "c", "d"], Y)
    picks = gm.select(X, y=Y, k=400, random_state=0, method="gm-matching")
    for point in curve.of("gm-matching"):
        figures = Yardsticks(X, codes).measure(picks.prefix(point.k).order)
        assert point.moment_error == pytest.approx(figures.moment_error, rel=1e-6)
        assert point.mmd == pytest.approx(figures.mmd, rel=0.25)
        assert point.coverage_mean == pytest.approx(figures.coverage_mean, rel=0.05)


def nearest_rows(inputs):
    """The rows of X that a probe was trained on, as bytes."""
    places = np.argmin(((inputs[:, None, :] - X[None]) ** 2).sum(axis=2), axis=1)
    return {row.tobytes() for row in X[places]}


def test_coverage_of_clusters_far_apart_is_not_lost_to_rounding():
    rows = np.random.default_rng(0).standard_normal((400, 8)) + 1e4 * (np.arange(400) % 2)[:, None]
    curve = gm.budget_curve(rows, sizes=[20, 200, 400], methods="herding")
    order = gm.select(rows, k=400, method="herding", random_state=0).order
    for point in curve.points:
        whole = gm.metrics.coverage(rows, order[: point.k])
        assert (point.coverage_mean, point.coverage_max) == pytest.approx((whole.mean, whole.largest))


def test_one_selection_is_made_and_no_row_is_judged_by_a_probe_that_has_seen_it(monkeypatch):
    asked, judged = [], []
    real, right = registry.select, probe._Probe.right

    def spied(self, rows, codes):
        scale = self.problem.scale
        inputs = (self.problem.rows[:, :-1] / scale.inverse + scale.center).astype(np.float32)
        judged.append((nearest_rows(inputs), rows.gather(np.arange(len(rows)))))
        return right(self, rows, codes)

    monkeypatch.setattr(registry, "select", lambda *a, **o: asked.append(o["k"]) or real(*a, **o))
    monkeypatch.setattr(probe._Probe, "right", spied)
    gm.budget_curve(X, Y, sizes=[50, 180], repeats=3)
    assert asked == [180]
    assert sum(len(rows) for _, rows in judged) == 2 * 3 * 200  # all of each tenth, at each size
    for seen, rows in judged:
        assert len(seen) > 30
        assert not {row.tobytes() for row in rows.astype(np.float32)} & seen


def test_a_method_that_screens_expects_as_many_mislabeled_picks_as_it_says():
    wrong = RNG.random(2000) < 0.2
    noisy = np.where(wrong, np.roll(Y, 1), Y)
    found = gm.budget_curve(X, noisy, sizes=[100, 300], methods="robust", repeats=1)
    assert [point.mislabeled is not None for point in found.points] == [True, True]
    assert found.points[0].mislabeled < found.points[1].mislabeled < 60
    assert found.points[0].low is None  # one repeat has no spread


def test_the_sentence_names_the_smallest_size_that_is_as_good(curve):
    best = curve.enough("gm-matching")
    last = curve.of("gm-matching")[-1]
    assert best.accuracy >= last.accuracy - 0.01
    assert all(point.accuracy < last.accuracy - 0.01 for point in curve.of("gm-matching") if point.k < best.k)
    assert f"{last.k:,}" in curve.sentence and curve.as_json()["sentence"] == curve.sentence


def test_without_labels_there_are_figures_but_no_accuracy(tmp_path):
    found = gm.budget_curve(X, sizes=[20, 60], methods="herding")
    assert [point.accuracy for point in found.points] == [None, None]
    assert "no accuracy" in found.sentence
    found.report(tmp_path / "curve.html")
    page = (tmp_path / "curve.html").read_text(encoding="utf-8")
    assert "Moment error" in page and "Accuracy of a linear probe" not in page


def test_rows_on_disk_and_rows_without_a_label(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    labels = [None if i % 7 == 0 else label for i, label in enumerate(Y)]
    with pytest.warns(gm.errors.UnlabeledRowsWarning):
        here = gm.budget_curve(X, labels, sizes="5%", repeats=2)
    with pytest.warns(gm.errors.UnlabeledRowsWarning):
        disk = gm.budget_curve(np.load(tmp_path / "rows.npy", mmap_mode="r"), labels, sizes="5%", repeats=2)
    # A share is one of the rows that can be picked, as it is of a selection.
    assert here == disk and here.points[0].k == round(0.05 * sum(label is not None for label in labels))


def test_what_makes_no_sense_is_refused():
    with pytest.raises(gm.GMMatchError, match="repeats=11"):
        gm.budget_curve(X, Y, repeats=11)
    with pytest.raises(gm.GMMatchError, match="sizes=3000 exceeds"):
        gm.budget_curve(X, Y, sizes=[3000])
    with pytest.raises(gm.GMMatchError, match="pass sizes= instead"):
        gm.budget_curve(X, Y, k=5)
    with pytest.raises(gm.GMMatchError, match="give at least one of each"):
        gm.budget_curve(X, Y, sizes=[])
    with pytest.raises(gm.GMMatchError, match="pair of rows and their labels"):
        gm.budget_curve(X, Y, test=TEST[0])
    with pytest.raises(gm.GMMatchError, match="same features"):
        gm.budget_curve(X, Y, test=(TEST[0][:, :5], TEST[1]))
    with pytest.raises(gm.GMMatchError, match="none of them is among those of y"):
        gm.budget_curve(X, Y, test=(TEST[0], ["x"] * 3000))
    with pytest.raises(gm.GMMatchError, match="needs y"):
        gm.budget_curve(X, test=TEST)
