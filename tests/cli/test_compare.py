"""compare: what several methods keep, measured."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm


@pytest.fixture
def noisy(tmp_path):
    """Two classes of 30 rows, of which six are mislabeled, and a table of the true labels."""
    random = np.random.default_rng(0)
    true = np.repeat([0, 1], 30)
    X = random.normal(size=(60, 3)) + 4 * true[:, None]
    labels = true.copy()
    labels[:6] = 1
    np.savez(tmp_path / "x.npz", x=X, label=labels)
    lines = [f"{row},{label}" for row, label in enumerate(true)]
    (tmp_path / "true.csv").write_text("\n".join(["id,label", *lines]))
    return tmp_path / "x.npz", tmp_path / "true.csv"


def test_wrong_labels_are_counted_and_distances_measured(noisy, succeeds):
    path, truth = noisy
    asked = ("compare", path, "-k", 12, "--methods", "easy,hard", "--truth", truth)
    result = succeeds(*asked, "--json")
    data = np.load(path)
    X, y = data["x"], data["label"]
    wrong = np.arange(60) < 6
    assert result["wrong_labels"] == pytest.approx(0.1) and result["trusted_rows"] == 54
    for line in result["rows"]:
        picks = gm.select(X, y, k=12, method=line["method"]).indices
        assert line["contamination"] == pytest.approx(wrong[picks].mean())
        assert line["estimated_mislabeled"] is None
        errors = [
            gm.metrics.moment_error(X[picks[y[picks] == label]], X[~wrong & (y == label)]) for label in (0, 1)
        ]
        assert line["moment_error"] == pytest.approx(np.mean(errors))
        assert 0 < line["coverage_mean"] < line["coverage_max"]
    said = succeeds(*asked)
    assert "12 of 60 rows" in said and "wrong labels" in said and "10.0% are mislabeled" in said


@pytest.mark.slow
def test_without_the_truth_the_screening_is_asked(noisy, tmp_path, succeeds):
    page = tmp_path / "c.html"
    result = succeeds("compare", noisy[0], "-k", 12, "--methods", "robust,random", "--report", page, "--json")
    assert result["wrong_labels"] is None and result["estimated_noise"] is not None
    assert result["rows"][0]["estimated_mislabeled"] <= result["rows"][1]["estimated_mislabeled"]
    assert "robust" in page.read_text(encoding="utf-8")


def test_what_cannot_be_compared(noisy, vectors, tmp_path, refused):
    path, truth = noisy
    assert "--methods 'zz'" in refused("compare", path, "-k", 3, "--methods", "random,zz")
    assert "give names" in refused("compare", path, "-k", 3, "--methods", ",")
    assert "no labels to compare" in refused("compare", vectors, "-k", 3, "--truth", truth)
    (tmp_path / "other.csv").write_text("id,label\n" + "".join(f"{row},cat\n" for row in range(60)))
    line = refused("compare", path, "-k", 3, "--methods", "easy", "--truth", tmp_path / "other.csv")
    assert "such as 'cat'" in line and "such as '1'" in line
