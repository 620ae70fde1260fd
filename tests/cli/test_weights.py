"""``select --weights --refine``, and the column in what ``export`` writes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gmmatch as gm


def test_weights_go_from_select_to_export(succeeds, tmp_path, monkeypatch):
    X = np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32)
    pq.write_table(pa.table({"vector": list(X), "note": ["a"] * 60}), tmp_path / "rows.parquet")
    monkeypatch.chdir(tmp_path)
    asked = "-k 10 -o picks.parquet --method herding --weights --refine 3 --report picks.html"
    succeeds("select", "rows.parquet", *asked.split())
    succeeds("export", "picks.parquet", "rows.parquet", "-o", "picked.parquet")
    selection = gm.Selection.load("picks.parquet")
    assert selection.weights.sum() == pytest.approx(60)
    assert selection.provenance["parameters"]["refine"] == 3
    assert pq.read_table("picked.parquet")["weight"].to_numpy() == pytest.approx(selection.weights)
    assert "Weights" in (tmp_path / "picks.html").read_text(encoding="utf-8")
