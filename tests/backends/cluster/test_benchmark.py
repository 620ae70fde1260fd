"""The guide's tables are what the benchmark's result file says, or that there is none."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import cluster as module

    yield module
    sys.modules.pop("benchmarks.cluster", None)


def test_the_guide_shows_what_was_measured(cluster, tmp_path):
    copy = tmp_path / "cluster.md"
    text = (ROOT / "docs" / "results-cluster.md").read_text(encoding="utf-8")
    copy.write_text(text, encoding="utf-8")
    cluster.write_table(copy)
    assert copy.read_text(encoding="utf-8") == text


def test_the_rows_are_sorted_by_kind_and_complete(cluster, tmp_path):
    paths = cluster.make_rows(tmp_path, 1000, 3)
    rows = np.concatenate([np.load(path) for path in paths])
    assert rows.shape == (1000, 3) and rows.dtype == np.float16
    assert rows[:300].mean() > 1.8 and abs(rows[300:].mean()) < 0.1


def test_the_model_is_exact_where_its_constants_come_from_and_linear_elsewhere(cluster):
    from benchmarks import cluster_model as model

    def run(rows, features):
        once, each_pass, each_round = (
            rows * (row + features * n) for row, n in ((5, 1.0), (1, 0.25), (2, 0.5))
        )
        return {
            "core_seconds": once + 4 * each_pass + 10 * each_round, "passes": 4, "rounds": 10,
            "core_seconds_per_pass": each_pass, "core_seconds_per_round": each_round,
        }  # fmt: skip

    per = model.constants([(run(1000, 8), 1000, 8), (run(100, 64), 100, 64)])
    assert per["pass"] == pytest.approx((1, 0.25)) and per["round"] == pytest.approx((2, 0.5))
    assert per["once"] == pytest.approx((5, 1.0))
    said = model.core_seconds(per, 500, 32, 4, 10)
    assert sum(said.values()) == pytest.approx(run(500, 32)["core_seconds"])


@pytest.mark.slow
def test_both_engines_are_measured_and_the_tables_can_be_written(cluster, tmp_path):
    pytest.importorskip("ray", reason="needs the extra gmmatch[ray]")
    cluster.main(["--quick", "--json", str(tmp_path / "cluster.json")])
    result = json.loads((tmp_path / "cluster.json").read_text(encoding="utf-8"))
    for case in result["cases"]:
        assert case["same_picks"]
        for way in ("sent", "received"):
            assert case["ray"]["most_bytes_per_pass_and_worker"][way] <= case["allowed_bytes_per_pass"]
        assert case["ray"]["bytes_received"] == case["local"]["bytes_received"]
    text = cluster.markdown(result)
    assert "| Ray over local, seconds |" in text and "nobody has run it" in text
