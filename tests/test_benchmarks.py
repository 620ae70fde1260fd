"""The benchmarks run through on tiny data, and their files hold what the tables are made from."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import label_errors
from benchmarks.noise_cells import (
    DEVELOPMENT,
    JUDGING,
    NOISES,
    Answer,
    Cell,
    corrupt_labels,
    measure,
)
from gmmatch.errors import InvalidInputError

_REPOSITORY = Path(__file__).resolve().parent.parent
_NAMES = ("weiszfeld-pass", "median", "picks", "kernel-herding", "memory", "imports", "calibrate")


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *map(str, arguments)]
    return subprocess.run(command, cwd=_REPOSITORY, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("results")
    done = run("benchmarks", "--quick", "--json", folder)
    assert done.returncode == 0, done.stderr
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}


@pytest.mark.slow
def test_every_benchmark_writes_finite_ratios_and_timings(reports: dict[str, dict[str, Any]]) -> None:
    assert sorted(reports) == sorted(_NAMES)
    for name, report in reports.items():
        assert report["ratios"] or report["notes"], name
        for ratio in report["ratios"]:
            assert math.isfinite(ratio["value"]) and ratio["value"] >= 0.0, ratio
        for side, timing in report["timings"].items():
            assert 0.0 < timing["min_s"] <= timing["median_s"] < math.inf, side


def test_the_readme_table_comes_from_the_committed_results() -> None:
    done = run("benchmarks.table", "--check")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("noise", [noise for noise in NOISES if "=" in noise and "-" not in noise])
def test_a_wrong_label_is_of_another_class_and_as_frequent_as_named(noise: str) -> None:
    random = np.random.default_rng(0)
    true = np.arange(1200) % 6
    rows = (random.standard_normal((1200, 4)) + 2.0 * random.standard_normal((6, 4))[true]).astype(np.float32)
    kind, _, rate = noise.partition("=")
    wrong = corrupt_labels(rows, true, kind, float(rate), 0) != true
    expected = float(rate) / (3 if kind == "onesided" else 1)
    assert abs(wrong.mean() - expected) < 0.04


def test_measures_of_a_worked_example() -> None:
    true, given = np.array([0, 0, 0, 1, 1, 1, 1, 1]), np.array([0, 0, 1, 1, 1, 1, 0, 0])
    wrong = np.array([False, False, True, True, False, False, False, False])
    doubtful = np.array([False] * 6 + [True, False])
    cell = Cell("toy", "sym=0.4", 0, np.zeros((8, 1), np.float32), true, given)
    suspicion = np.array([0, 0, 3, 2, 0, 0, 2.5, 0.5])
    found = measure(Answer(suspicion, wrong, doubtful, 0.3, 0.1, 0.5), cell)
    assert found["true"] == 0.375 and found["precision"] == 0.5
    assert found["f1"] == pytest.approx(4 / 6, abs=1e-4) and found["f1_wrong"] == pytest.approx(2 / 5)
    assert found["clean_wrong"] == 0.2 and found["auroc"] == pytest.approx(14 / 15, abs=1e-4)
    assert found["picks_10%"] == 0.0


def test_committed_cells_are_of_data_kept_for_judging() -> None:
    results = json.loads((_REPOSITORY / "benchmarks/results/noise.json").read_text(encoding="utf-8"))
    measured = {run["data"] for run in results["runs"]}
    assert not measured & set(DEVELOPMENT)
    assert set(JUDGING) <= measured
    assert {run["seed"] for run in results["runs"]} == {0, 1}


def test_errors_are_counted_among_rows_that_people_were_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, count = np.random.default_rng(0), 300
    truth = np.arange(count) % 2
    labels = np.where(np.arange(count) < 20, 1 - truth, truth)
    clone, judged = tmp_path / "clone", [{"given": 1, "guessed": 4, "neither": 0}, {"given": 3, "guessed": 2}]
    for folder, name, write in (
        ("original_test_labels", "mnist_test_set_original_labels.npy", lambda path: np.save(path, labels)),
        ("mturk", "mnist_mturk.json", lambda path: path.write_text(
            json.dumps([{"id": row, "mturk": judged[row % 2]} for row in range(10)]))),
    ):  # fmt: skip
        (clone / folder).mkdir(parents=True)
        write(clone / folder / name)
    rows = random.normal(size=(count, 4)) + 6.0 * truth[:, None]
    np.savez(tmp_path / "mnist.npz", rows=rows, y_test=labels, encoder="drawn")
    # Another tool that believes the first rows least; cleanlab is no dependency of the tests.
    monkeypatch.setattr(
        label_errors, "peers", lambda rows, labels: [("other", "x", np.arange(300.0), 1.0)] * 2
    )
    results = tmp_path / "found.json"
    label_errors.main([str(clone), str(tmp_path / "mnist.npz"), "--json", str(results)])
    [one] = json.loads(results.read_text())["sets"]
    assert (one["judged"], one["confirmed"], one["evidence"]) == (10, 5, "drawn")
    assert {(each["tool"], each["judged"], each["confirmed"]) for each in one["tools"]} == {
        ("gmmatch", 10, 5),
        ("other", 10, 5),
    }
    np.savez(tmp_path / "mnist.npz", rows=rows, y_test=labels[::-1], encoder="drawn")
    with pytest.raises(InvalidInputError, match="its order is another"):
        label_errors.main([str(clone), str(tmp_path / "mnist.npz"), "--json", str(results)])
