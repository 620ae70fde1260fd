"""``gmmatch select``: what is read, what is picked, and what is written."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import gmmatch as gm

ROWS = np.random.default_rng(2).normal(size=(30, 3)).astype(np.float32)
OTHER = np.random.default_rng(3).normal(size=(30, 3)).astype(np.float32)
LABELS = ["a", "b", "c"] * 10


@pytest.fixture
def picked(tmp_path, succeeds):
    """Select six rows by ``easy``, and return the selection."""

    def run(path, *options):
        output = tmp_path / "picks.parquet"
        succeeds("select", path, "-k", 6, "-m", "easy", "-o", output, "--force", *options)
        return gm.Selection.load(output)

    return run


@pytest.fixture
def table(tmp_path):
    """Write a Parquet file with these columns."""

    def write(**columns):
        pq.write_table(pa.table(columns), tmp_path / "x.parquet")
        return tmp_path / "x.parquet"

    return write


def write_vectors(path):
    """Write ROWS in the format that the name says."""
    if path.suffix == ".npy":
        np.save(path, ROWS)
    elif path.suffix == ".npz":
        np.savez(path, x=ROWS)
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({"v": list(ROWS)}), path)
    elif path.suffix == ".csv":
        pa.csv.write_csv(pa.table(dict(zip("abc", ROWS.T, strict=True))), path)
    else:
        pytest.importorskip("safetensors.numpy").save_file({"x": ROWS}, path)
    return path


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.parquet", "x.csv", "x.safetensors"])
def test_vectors_of_every_format_give_the_picks_of_the_library(name, tmp_path, picked):
    selection = picked(write_vectors(tmp_path / name))
    assert selection.order.tolist() == gm.select(ROWS, k=6, method="easy").order.tolist()
    assert selection.ids is None


def test_a_store_brings_its_labels_and_ids(store, picked):
    selection, opened = picked(store, "--per-class", "balanced", "--seed", 3), gm.open_store(store)
    X = opened.to_numpy()
    expected = gm.select(X, opened.labels, k=6, method="easy", per_class="balanced", random_state=3)
    assert selection.order.tolist() == expected.order.tolist()
    assert selection.ids.tolist() == opened.ids[selection.indices].tolist()
    assert selection.counts == {"cat": 3, "dog": 3}
    assert selection.provenance["embeddings"]["encoder"] == "pixels:4x4"
    assert picked(store, "--labels", "none").counts == {None: 6}


def test_settings_reach_the_method(vectors, succeeds):
    asked = ("select", vectors, "-k", 9, "-m", "gm-matching", "--preprocess", "center,unit")
    picks = succeeds(*asked, "--set", "target.eps=1e-3", "--set", "start=zero", "-o", "-", "--json")[
        "indices"
    ]
    method = gm.GMMatching(k=9, target=gm.GeometricMedian(eps=1e-3), start="zero", random_state=0)
    assert picks == method.select(np.load(vectors), preprocess=["center", "unit"]).indices.tolist()


def test_labels_of_a_table_are_joined_by_id(vectors, labels, tmp_path, picked):
    expected = gm.select(np.load(vectors), ["a", "b"] * 20, k=6, method="easy")
    assert picked(vectors, "--labels", labels).order.tolist() == expected.order.tolist()
    pq.write_table(pa.table({"kind": ["b", "a"] * 20, "ID": range(40)}), tmp_path / "kinds.parquet")
    assert picked(vectors, "--labels", f"{tmp_path / 'kinds.parquet'}::kind").counts == {"a": 3, "b": 3}


def test_labels_and_ids_are_columns(table, picked, gmmatch, tmp_path):
    ids = [f"row {i}" for i in range(30)]
    selection = picked(table(v=list(ROWS), Class=LABELS, key=ids, note=["x"] * 30))
    assert selection.counts == {"a": 2, "b": 2, "c": 2}
    assert selection.ids.tolist() == [ids[row] for row in selection.indices]
    path = table(v=list(ROWS), y=LABELS, code=ids)
    assert picked(path, "--labels", "y", "--id-column", "code").ids.tolist()[0].startswith("row ")
    result = gmmatch("select", path, "-k", 3, "-m", "easy", "-o", "-")
    assert "pass --labels y" in result.stderr


def test_a_column_that_cannot_tell_rows_apart_is_not_taken_as_ids(table, gmmatch):
    result = gmmatch("select", table(v=list(ROWS), id=["same"] * 30), "-k", 2, "-m", "easy", "-o", "-")
    assert "'id' is not taken as ids" in result.stderr
    assert all(line.isdigit() for line in result.stdout.split())


def test_of_several_columns_of_vectors_one_is_named(table, picked, refused):
    path = table(first=list(ROWS), second=list(OTHER))
    assert "--embedding-column 'first'" in refused("select", path, "-k", 6, "-o", "-")
    expected = gm.select(OTHER, k=6, method="easy").order
    assert picked(path, "--embedding-column", "second").order.tolist() == expected.tolist()


def test_picks_are_printed_as_ids_and_everything_else_on_stderr(store, gmmatch):
    result = gmmatch("select", store, "-k", 4, "-m", "easy", "-o", "-")
    assert len(result.stdout.split()) == 4 and all(name.endswith(".png") for name in result.stdout.split())
    assert "4 of 24 rows by easy" in result.stderr


def test_classes_without_a_pick_are_counted(vectors, labels, tmp_path, succeeds):
    labels.write_text("id,label\n" + "".join(f"{row},{min(row, 9)}\n" for row in range(40)))
    asked = ("select", vectors, "--labels", labels, "-m", "easy", "--force", "-o", tmp_path / "p.csv", "-k")
    assert "9 of the 10 classes have no pick: there are fewer picks than classes." in succeeds(*asked, 3)
    assert "classes have no pick: try --per-class balanced." in succeeds(*asked, 10)
    assert "no pick" not in succeeds(*asked, 10, "--per-class", "balanced")


def test_scores_rank_rows(vectors, tmp_path, succeeds):
    lines = [f"{row},{(7 * row) % 40}" for row in range(40)]
    (tmp_path / "losses.csv").write_text("\n".join(["id,score", *lines]))
    asked = ("select", vectors, "-k", 5, "-m", "by-score", "--scores", tmp_path / "losses.csv")
    picks = succeeds(*asked, "-o", "-", "--json")["indices"]
    scores = (7 * np.arange(40)) % 40
    assert picks == gm.select(np.load(vectors), k=5, method="by-score", scores=scores).indices.tolist()


def test_picks_follow_a_reference_and_avoid_a_test_set(vectors, tmp_path, succeeds):
    X = np.load(vectors)
    np.save(tmp_path / "task.npy", X[:5] + 1)
    np.save(tmp_path / "test.npy", X[10:20])
    asked = ("select", vectors, "-k", 8, "-m", "herding", "-o", "-", "--json")
    picks = succeeds(*asked, "--reference", tmp_path / "task.npy", "--reference-weight", 0.5)["indices"]
    expected = gm.select(X, k=8, method="herding", reference=X[:5] + 1, reference_weight=0.5)
    assert picks == expected.indices.tolist()
    result = succeeds(*asked, "--exclude-near", tmp_path / "test.npy")
    assert not set(result["indices"]) & set(range(10, 20))
    assert result["provenance"]["excluded_near"]["rows"] == 10


def test_refined_and_weighed_picks(vectors, tmp_path, succeeds):
    asked = ("select", vectors, "-k", 8, "-m", "herding", "--force", "-o", tmp_path / "p.parquet")
    plain = succeeds(*asked, "--json")["groups"][0]["residual"]
    assert succeeds(*asked, "--refine", "--weights", "--json")["groups"][0]["residual"] <= plain
    assert gm.Selection.load(tmp_path / "p.parquet").weights.sum() == pytest.approx(40)


def test_the_screening_is_told_and_labels_are_corrected(tmp_path, gmmatch, succeeds):
    X = np.repeat(np.eye(3), 50, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((150, 3))
    y = np.repeat([0, 1, 2], 50)
    y[:5] = 1
    np.savez(tmp_path / "x.npz", x=X, label=y)
    asked = ("select", tmp_path / "x.npz", "-k", 20, "-o", tmp_path / "p.parquet", "--force")
    result = gmmatch(*asked)
    expected = gm.select(X, y, k=20, screening=gm.Screening(relabel=0.4), random_state=0)
    assert "of the labels look wrong" in result.stdout and "gmmatch screen" in result.stderr
    said = succeeds(*asked, "--set", "screening.relabel=0.4")
    changed = expected.provenance["relabeled"]["rows"]
    assert f"Labels corrected: {len(changed):,} rows" in said
    assert gm.Selection.load(tmp_path / "p.parquet").order.tolist() == expected.order.tolist()


def test_rows_of_files_are_read_within_a_memory_limit(tmp_path, succeeds):
    X = np.random.default_rng(0).normal(size=(4000, 16)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    asked = ("select", tmp_path / "x.npy", "-k", 40, "-m", "gm-matching", "-o", "-", "--json")
    picks = succeeds(*asked, "--memory", "128KB", "--jobs", 1)["indices"]
    expected = gm.select(tmp_path / "x.npy", k=40, method="gm-matching", memory_limit=128_000, random_state=0)
    assert picks == expected.indices.tolist()
