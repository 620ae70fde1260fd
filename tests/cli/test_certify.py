"""``gmmatch certify``: from picks to a page or a table, and from answers to the provenance."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm


@pytest.fixture
def picked(photos, tmp_path):
    """Picks of 20 of 24 photos, named as a store of them would."""
    names = sorted(str(path.relative_to(photos)) for path in photos.rglob("*.*"))
    order = np.random.default_rng(0).permutation(24)[:20]
    gm.Selection(order, 24, ids=[names[row] for row in order]).save(tmp_path / "picks.parquet")
    return tmp_path / "picks.parquet"


def test_a_table_is_filled_in_and_proves_something(succeeds, picked, tmp_path):
    table = tmp_path / "check.csv"
    succeeds("certify", picked, "--sample", 10, "-o", table)
    lines = table.read_text().splitlines()
    assert len(lines) == 11 and lines[0] == "sample,row,id,label,answer" and ".png" in lines[1]
    table.write_text("\n".join([lines[0], *(line + "right" for line in lines[1:])]))
    order = gm.Selection.load(picked).order
    said = succeeds("certify", picked, "--answers", table)
    assert said == (
        "At most 15.0% of the 20 picks are mislabeled, with 95% confidence (0 of 10 checked were wrong).\n"
    )
    after = gm.Selection.load(picked)
    assert after.provenance["certificate"]["statement"] == said.strip()
    assert after.order.tolist() == order.tolist() and after.screening is None
    # Answers stay valid for picks that know of an earlier certificate.
    assert succeeds("certify", picked, "--answers", table, "--json")["most_wrong"] == 3


def test_the_page_holds_the_pictures_of_the_sample(succeeds, picked, photos, tmp_path):
    page = tmp_path / "check.html"
    succeeds("certify", picked, photos, "--sample", 6, "-o", page)
    text = page.read_text(encoding="utf-8")
    assert text.count("data:image/") == 6 and "certify picks.parquet --answers" in text


def test_bad_input_is_refused_and_the_picks_stay_as_they_are(refused, picked, photos, tmp_path):
    before = picked.read_bytes()
    out = tmp_path / "check.html"
    assert "Give -o for a sample" in refused("certify", picked)
    assert ".html or .csv" in refused("certify", picked, "-o", tmp_path / "check.txt")
    assert "no such file" in refused("certify", picked, "--answers", tmp_path / "no.csv")
    np.save(tmp_path / "x.npy", np.eye(24))
    assert "holds embeddings" in refused("certify", picked, tmp_path / "x.npy", "-o", out)
    assert "needs a screening" in refused("certify", picked, photos, "-o", out, "--stratified")
    (tmp_path / "half.csv").write_text("sample,row,id,label,answer\n10-0-r-x,1,a,cat,ri")
    assert "about other picks" in refused("certify", picked, "--answers", tmp_path / "half.csv")
    assert picked.read_bytes() == before and not out.exists()
