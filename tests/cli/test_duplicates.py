"""``gmmatch duplicates``, and what `select` does about near-duplicates."""

from __future__ import annotations

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import gmmatch as gm


@pytest.fixture
def train(tmp_path):
    X = np.random.default_rng(0).standard_normal((200, 12)).astype(np.float32)
    X[100:150] = X[:50] + 1e-3
    X[150:160] = X[7]
    np.save(tmp_path / "train.npy", X)
    return tmp_path / "train.npy"


@pytest.fixture
def test_set(tmp_path, train):
    Y = np.random.default_rng(1).standard_normal((60, 12)).astype(np.float32)
    Y[:5] = np.load(train)[60:65] + 1e-3
    np.save(tmp_path / "test.npy", Y)
    return tmp_path / "test.npy"


def test_groups_are_written_with_the_row_that_is_kept(succeeds, train, tmp_path):
    facts = succeeds("duplicates", train, "-o", tmp_path / "groups.parquet", "--json")
    found = gm.duplicates(np.load(train))
    assert facts["duplicates"] == found.mask.sum() == 60 and facts["estimated"]
    table = pq.read_table(tmp_path / "groups.parquet").to_pydict()
    assert list(table) == ["group", "row", "kept", "similarity"]
    assert sum(table["kept"]) == facts["groups"] == 50
    assert [
        row for row, kept in zip(table["row"], table["kept"], strict=True) if not kept and row >= 150
    ] == [*range(150, 160)]
    assert table["group"].count(0) == facts["largest"][0] == 12
    shown = succeeds("duplicates", train, "--threshold", 0.99)
    assert (
        "60 of 200 rows are near-duplicates of another row" in shown and "Threshold: 0.99, as given." in shown
    )


def test_rows_that_are_also_in_the_test_set(succeeds, train, test_set, tmp_path):
    facts = succeeds("duplicates", train, "--against", test_set, "-o", tmp_path / "leaks.csv", "--json")
    table = pyarrow.csv.read_csv(tmp_path / "leaks.csv").to_pydict()
    assert table["row"] == list(range(60, 65)) and table["other_row"] == list(range(5))
    assert facts["by_similarity"][0] == {"at_least": facts["threshold"], "rows": 5}
    shown = succeeds("duplicates", train, "--against", test_set)
    assert "5 of 200 rows have a near-duplicate in the other set" in shown


def test_ids_of_a_source_stand_beside_the_rows(succeeds, train, tmp_path):
    import pyarrow as pa

    X = np.load(train)[:120]
    names = [f"row-{i}" for i in range(len(X))]
    pq.write_table(pa.table({"id": names, "vector": list(X)}), tmp_path / "rows.parquet")
    succeeds("duplicates", tmp_path / "rows.parquet", "-o", tmp_path / "groups.parquet")
    table = pq.read_table(tmp_path / "groups.parquet").to_pydict()
    assert table["id"] == [names[row] for row in table["row"]] and len(table["row"]) == 40


@pytest.mark.parametrize("engine", [(), ("--engine", "local")], ids=["here", "on an engine"])
def test_select_takes_one_of_each_group_and_leaves_leaks_out(succeeds, train, test_set, tmp_path, engine):
    out = tmp_path / "picks.parquet"
    text = succeeds(
        "select", train, "-k", "100", "-o", out, "--duplicates", "one", "--exclude-near", test_set, *engine
    )
    selection = gm.Selection.load(out)
    found = gm.duplicates(np.load(train))
    assert not found.mask[selection.indices].any()
    assert not np.isin(selection.indices, np.arange(60, 65)).any()
    assert selection.provenance["duplicates"]["left_out"] == 60
    assert selection.provenance["excluded_near"]["rows"] == 5
    assert "near-duplicates: 60 rows" in text and "test.npy: 5 rows" in text.replace("\n", "")


def test_by_default_the_papers_methods_keep_duplicates(succeeds, train, tmp_path):
    out = tmp_path / "picks.parquet"
    succeeds("select", train, "-k", "200", "-o", out, "--method", "gm-matching")
    assert "duplicates" not in gm.Selection.load(out).provenance


def test_bad_input_is_refused(refused, train, tmp_path):
    assert "expected a cosine" in refused("duplicates", train, "--threshold", 2)
    assert ".parquet or .csv" in refused("duplicates", train, "-o", tmp_path / "groups.txt")
    assert "no.npy" in refused("duplicates", train, "--against", tmp_path / "no.npy")
    other = tmp_path / "a.csv"
    assert "is also an input" in refused("duplicates", train, "-o", other, "--against", other)
    np.save(tmp_path / "narrow.npy", np.eye(3))
    assert "against has 3" in refused("duplicates", train, "--against", tmp_path / "narrow.npy")
