"""screen, duplicates and compare: what is printed, and the tables that are written."""

from __future__ import annotations

import csv
import io

import numpy as np
import pyarrow.parquet as pq
import pytest

import gmmatch as gm


@pytest.fixture
def mislabeled(tmp_path):
    """150 rows of three classes with ids, of which five are mislabeled and one is there twice."""
    X = np.repeat(np.eye(3), 50, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((150, 3))
    X[149] = X[148]
    y = np.repeat(["ant", "bee", "cat"], 50)
    y[:5] = "bee"
    np.savez(tmp_path / "x.npz", x=X, label=y, id=[f"r{i}" for i in range(150)])
    return tmp_path / "x.npz"


def test_suspects_are_listed_with_the_most_suspicious_first(mislabeled, tmp_path, succeeds, gmmatch):
    data = np.load(mislabeled)
    expected = gm.screen(data["x"], data["label"], random_state=0)
    found = succeeds("screen", mislabeled, "-o", tmp_path / "s.csv", "--json")
    assert found["n_rows"] == 150 and found["reasons"] == expected.counts
    assert found["noise_rate"] == pytest.approx(expected.noise_rate)
    with (tmp_path / "s.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [int(line["row"]) for line in lines] == found["indices"]
    assert {f"r{row}" for row in range(5)} <= {line["id"] for line in lines[:6]}
    assert all(line["suggested"] == "ant" for line in lines if line["id"] in ("r0", "r1", "r2"))
    said = gmmatch("screen", mislabeled)
    assert expected.summary in said.stdout and "The most suspicious" in said.stdout
    assert "add -o suspects.csv" in said.stderr


def test_what_says_nothing_is_not_printed(vectors, succeeds):
    X = np.random.default_rng(1).normal(size=(200, 3))
    np.save(vectors, np.concatenate([X, X[:1]]))
    said = succeeds("screen", vectors)
    headings = next(line for line in said.splitlines() if " row " in line).split()
    assert headings == ["row", "verdict", "reason", "duplicate_of"] and " is a copy of another row" in said


def test_the_table_can_be_printed_and_have_every_row(mislabeled, gmmatch, succeeds, tmp_path):
    result = gmmatch("screen", mislabeled, "-o", "-", "--duplicates", "keep")
    lines = list(csv.DictReader(io.StringIO(result.stdout)))
    assert lines and set(lines[0]) == {"row", "id", "label", "suggested", "verdict", "probability", "reason"}
    assert "rows are suspects" in result.stderr
    succeeds("screen", mislabeled, "-o", tmp_path / "all.parquet", "--all")
    assert pq.read_table(tmp_path / "all.parquet").num_rows == 150


def test_groups_of_duplicates(vectors, tmp_path, succeeds):
    X = np.load(vectors)
    X[30:33] = X[:3]
    np.save(vectors, X)
    found = succeeds("duplicates", vectors, "-o", tmp_path / "groups.parquet", "--json")
    assert (found["duplicates"], found["groups"], found["largest"]) == (3, 3, [2, 2, 2])
    table = pq.read_table(tmp_path / "groups.parquet").to_pydict()
    assert table["row"] == [0, 30, 1, 31, 2, 32] and table["kept"] == [True, False] * 3
    assert "3 of 40 rows are near-duplicates" in succeeds("duplicates", vectors)


def test_rows_of_a_test_set(store, vectors, tmp_path, succeeds, refused):
    X = np.load(vectors)
    np.save(tmp_path / "test.npy", X[10:15])
    asked = ("duplicates", vectors, "--against", tmp_path / "test.npy")
    found = succeeds(*asked, "-o", tmp_path / "leaks.csv", "--json")
    assert found["duplicates"] == 5 and "groups" not in found
    lines = (tmp_path / "leaks.csv").read_text().splitlines()
    assert lines[0] == "row,other_row,similarity" and lines[1].startswith("10,0,")
    assert "5 of 40 rows have a near-duplicate" in succeeds(*asked)
    assert "--threshold 2" in refused("duplicates", vectors, "--threshold", 2)


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


def test_a_curve_is_that_of_the_library(noisy, succeeds):
    asked = ("curve", noisy[0], "--sizes", "6,12", "--methods", "easy,random", "--repeats", 1)
    data = np.load(noisy[0])
    X, y = data["x"], data["label"]
    selections = {name: gm.select(X, y, k=12, method=name, random_state=0) for name in ("easy", "random")}
    expected = gm.budget_curve(selections, X, y, sizes=[6, 12], repeats=1, random_state=0).as_json()
    assert succeeds(*asked, "--json") == {"input": str(noisy[0]), **expected}
    assert "easy picks beat" in succeeds(*asked)


def test_what_cannot_be_compared(noisy, vectors, tmp_path, refused):
    path, truth = noisy
    assert "--methods 'zz'" in refused("compare", path, "-k", 3, "--methods", "random,zz")
    assert "give names" in refused("compare", path, "-k", 3, "--methods", ",")
    assert "no labels to compare" in refused("compare", vectors, "-k", 3, "--truth", truth)
    (tmp_path / "other.csv").write_text("id,label\n" + "".join(f"{row},cat\n" for row in range(60)))
    line = refused("compare", path, "-k", 3, "--methods", "easy", "--truth", tmp_path / "other.csv")
    assert "such as 'cat'" in line and "such as '1'" in line
