"""certify and update: what is done with picks that were made before."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import gmmatch as gm


@pytest.fixture
def picks(store, tmp_path, succeeds):
    succeeds("select", store, "-k", 12, "-m", "herding", "-o", tmp_path / "picks.parquet")
    return tmp_path / "picks.parquet"


def test_a_sample_is_checked_and_the_bound_recorded(picks, tmp_path, succeeds, refused):
    table = tmp_path / "check.csv"
    succeeds("certify", picks, "--sample", 8, "-o", table)
    with table.open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 8 and all(line["id"].endswith(".png") for line in lines)
    assert "have no answer" in refused("certify", picks, "--answers", table)
    for number, line in enumerate(lines):
        line["answer"] = "wrong" if number == 0 else "right"
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    selection = gm.Selection.load(picks)
    expected = str(gm.certify(selection, table, confidence=0.9))
    assert succeeds("certify", picks, "--answers", table, "--confidence", 0.9).strip() == expected
    assert gm.Selection.load(picks).provenance["certificate"]["statement"] == expected


def test_the_sample_is_a_page_with_pictures(picks, photos, tmp_path, succeeds, refused):
    succeeds("certify", picks, photos, "--sample", 5, "-o", tmp_path / "check.html")
    page = (tmp_path / "check.html").read_text(encoding="utf-8")
    assert page.count("data:image/") == 5 and "picks.parquet" in page
    assert "and not both" in refused("certify", picks)


def write_part(folder, name, first, n, labels=True):
    """Write a store of some rows of a larger table."""
    from gmmatch.store import StoreWriter

    X, rows = np.random.default_rng(0).normal(size=(300, 3)), np.arange(first, first + n)
    with StoreWriter(folder / name, encoder="mine", encoder_fingerprint="1") as writer:
        writer.append(
            X[rows], ids=[f"r{row}" for row in rows], labels=(rows % 2).tolist() if labels else None
        )
        writer.finish()
    return folder / name


def test_picks_are_updated_from_the_stores_that_they_came_from(tmp_path, succeeds, gmmatch):
    first, picks = write_part(tmp_path, "a.emb", 0, 100), tmp_path / "picks.parquet"
    succeeds("select", first, "-k", 20, "-m", "herding", "-o", picks)
    expected = gm.Selection.load(picks)
    for name, start in (("b.emb", 100), ("c.emb", 180)):
        part = write_part(tmp_path, name, start, 80)
        rows = np.concatenate(
            [gm.open_store(tmp_path / one).to_numpy() for one in ("a.emb", "b.emb")[: 1 + start // 180]]
        )
        new = gm.open_store(part)
        expected = gm.update(expected, expected.apply(rows), new.to_numpy(), new.labels, ids=new.ids)
        assert succeeds("update", picks, part, "--json")["n_rows"] == start + 80
        assert gm.Selection.load(picks).order.tolist() == expected.order.tolist()
        assert gm.Selection.load(picks).ids.tolist() == expected.ids.tolist()
    before = picks.read_bytes()
    assert "stays as it is" in gmmatch("update", picks, part).stderr and picks.read_bytes() == before


def test_labels_of_new_rows_are_not_used_where_the_picks_have_none(vectors, tmp_path, succeeds):
    succeeds("select", vectors, "-k", 5, "-m", "herding", "-o", tmp_path / "p.parquet")
    np.savez(tmp_path / "new.npz", x=np.load(vectors)[:20] + 1, label=np.arange(20) % 2)
    succeeds("update", tmp_path / "p.parquet", tmp_path / "new.npz", "-o", tmp_path / "q.parquet")
    assert gm.Selection.load(tmp_path / "q.parquet").n_rows == 60
    assert gm.Selection.load(tmp_path / "p.parquet").n_rows == 40


def test_what_cannot_be_updated(vectors, labels, tmp_path, succeeds, refused):
    picks = tmp_path / "p.parquet"
    succeeds("select", vectors, "-k", 6, "-m", "herding", "--labels", labels, "-o", picks)
    assert "--labels" in refused("update", picks, vectors)
    assert ".parquet" in refused("update", picks, vectors, "-o", tmp_path / "p.csv")
    assert "give new rows" in refused("update", picks, vectors, "--labels", labels)
    np.save(tmp_path / "wide.npy", np.zeros((5, 7)))
    refused("update", picks, tmp_path / "wide.npy")
    np.save(vectors, np.load(vectors)[:30])
    (tmp_path / "n.csv").write_text("id,label\n" + "".join(f"{row},a\n" for row in range(30)))
    assert "select again" in refused("update", picks, vectors, "--labels", tmp_path / "n.csv")
