"""``gmmatch curve``: a table, a page, JSON, and one sentence."""

from __future__ import annotations

import numpy as np


def test_curve_prints_a_table_and_writes_a_page(succeeds, refused, tmp_path):
    random = np.random.default_rng(0)
    for name, n in (("rows", 300), ("test", 200)):
        labels = random.integers(0, 2, n)
        np.save(
            tmp_path / f"{name}.npy", (3.0 * labels[:, None] + random.standard_normal((n, 3))).astype("f4")
        )
        np.save(tmp_path / f"{name}_labels.npy", labels)
    asked = ("curve", tmp_path / "rows.npy", "--labels", tmp_path / "rows_labels.npy", "--sizes", "5%,20%")
    printed = succeeds(*asked, "--report", tmp_path / "curve.html")
    assert "at most one point below 60" in printed and "interval" in printed
    assert "Accuracy of a linear probe" in (tmp_path / "curve.html").read_text(encoding="utf-8")
    printed = succeeds("curve", tmp_path / "rows.npy", "--sizes", "5%,20%")
    assert "Error is the moment error" in printed and "Accuracy by" not in printed
    judged = ("--test", tmp_path / "test.npy", "--test-labels", tmp_path / "test_labels.npy")
    facts = succeeds(*asked, *judged, "--methods", "random,herding", "--json")
    assert [point["k"] for point in facts["points"]] == [15, 60, 15, 60] and facts[
        "judged_by"
    ] == "200 test rows"
    assert all(point["accuracy"] > 0.9 for point in facts["points"])
    assert "exists already" in refused(*asked, "--report", tmp_path / "curve.html")
    assert "has no labels" in refused(*asked, "--test", tmp_path / "test.npy")
    assert "goes with --test" in refused(*asked, "--test-labels", tmp_path / "test_labels.npy")
    assert "is not a parameter" in refused(*asked, "--set", "sprews=1")
