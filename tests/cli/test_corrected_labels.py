"""``select --relabel`` and ``export --labels corrected``: wrong labels put right, beside the given ones."""

from __future__ import annotations

import csv
import json
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gmmatch as gm

NAMES = ["cat", "dog", "owl"]


@pytest.fixture
def blobs():
    """Three classes that are easy to tell apart; a tenth of the labels are wrong."""
    random = np.random.default_rng(0)
    truth = np.arange(300) % 3
    X = 6.0 * np.eye(3, 8)[truth] + random.standard_normal((300, 8))
    given = np.where(random.random(300) < 0.1, (truth + 1) % 3, truth)
    return X.astype(np.float32), [NAMES[i] for i in truth], [NAMES[i] for i in given]


@pytest.fixture
def table(blobs, tmp_path):
    X, _, given = blobs
    pq.write_table(
        pa.table({"vector": list(X), "label": given, "note": ["a,b"] * 300}), tmp_path / "rows.parquet"
    )
    return tmp_path / "rows.parquet"


def test_confident_suggestions_replace_wrong_labels_and_nothing_else(blobs):
    X, truth, given = blobs
    screening = gm.screen(X, given)
    wrong = np.array(truth) != np.array(given)
    labels = gm.corrected_labels(given, screening)
    changed = labels != np.array(given)
    assert changed.sum() >= 0.8 * wrong.sum() and np.all(labels[changed] == np.array(truth)[changed])
    assert (gm.corrected_labels(given, screening, 1.0) != np.array(given)).sum() <= changed.sum()
    assert labels.dtype == np.array(given).dtype
    numbers = np.array([NAMES.index(label) for label in given])
    assert gm.corrected_labels(numbers, gm.screen(X, numbers)).dtype == numbers.dtype
    numbers[:5] = -1
    assert np.all(gm.corrected_labels(numbers, gm.screen(X, numbers))[:5] == -1)


MISSING = np.arange(300) % 10 == 3


@pytest.mark.parametrize(
    "written",
    [
        lambda codes: np.where(MISSING, np.nan, codes),
        lambda codes: np.where(MISSING, None, np.array(NAMES, dtype=object)[codes]),
        lambda codes: pd.Series(np.where(MISSING, None, np.array(NAMES, dtype=object)[codes])).astype(
            "string"
        ),
        lambda codes: np.where(MISSING, -1, codes)[:, None],
        lambda codes: np.array(NAMES, dtype=bytes)[codes],
    ],
    ids=["NaN", "None", "pd.NA", "a column", "bytes"],
)
def test_a_label_that_stays_is_not_corrected_however_it_is_written(blobs, written):
    X, truth, given = blobs
    codes = np.array([NAMES.index(label) for label in given])
    y = written(codes)
    wrong = int((np.array(truth) != np.array(given)).sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gm.errors.UnlabeledRowsWarning)
        for method in ("herding", "robust"):
            record = gm.select(X, y=y, k=120, method=method, relabel=0.95).provenance["relabeled"]
            assert 0.7 * wrong <= record["n_rows"] <= wrong
            json.dumps(record)
    labels = gm.corrected_labels(y, gm.screen(X, y))
    assert {type(label) for label in labels.tolist()} == {type(label) for label in np.ravel(y).tolist()}


def test_bad_arguments_are_refused(blobs):
    X, _, given = blobs
    screening = gm.screen(X, given)
    with pytest.raises(gm.GMMatchError, match="min_confidence=0"):
        gm.corrected_labels(given, screening, 0.0)
    with pytest.raises(gm.GMMatchError, match="y has 3 labels"):
        gm.corrected_labels(given[:3], screening)
    with pytest.raises(gm.GMMatchError, match="suggests no labels"):
        gm.corrected_labels(given, gm.screen(X))


@pytest.mark.parametrize("method", [pytest.param("robust", marks=pytest.mark.slow), "gm-matching"])
def test_a_corrected_row_counts_for_its_class_and_is_exported_with_both_labels(
    succeeds, blobs, table, tmp_path, method
):
    _, truth, given = blobs
    picks, out = tmp_path / "picks.parquet", tmp_path / "out.parquet"
    before = table.read_bytes()
    text = succeeds("select", table, "-k", 290, "-o", picks, "--relabel", "--method", method)
    selection = gm.Selection.load(picks)
    record = selection.provenance["relabeled"]
    assert len(record["rows"]) > 10 and f"Labels corrected: {record['n_rows']} rows" in text
    assert np.array_equal(record["given"], np.array(given)[record["rows"]])
    assert np.all(
        selection.labels[np.isin(selection.indices, record["rows"])] == np.array(truth)[record["rows"]]
    )
    done = succeeds("export", picks, table, "-o", out, "--labels", "corrected", "--json")
    found = pq.read_table(out).to_pydict()
    assert found["label"] == [given[row] for row in selection.indices]
    changed = np.array(found["label_changed"])
    assert np.array_equal(np.array(found["corrected_label"]) != np.array(found["label"]), changed)
    assert np.all(np.array(found["corrected_label"])[changed] == np.array(truth)[selection.indices][changed])
    assert done["corrected"] == changed.sum() >= len(record["rows"])
    assert np.all(np.array(found["label_confidence"], dtype=float)[changed] >= 0.95)
    assert table.read_bytes() == before
    surer = succeeds(
        "export", picks, table, "-o", out, "--force", "--labels", "corrected", "--min-confidence", 1, "--json"
    )
    assert surer["corrected"] < done["corrected"]
    succeeds("export", picks, table, "-o", out, "--force")
    assert pq.read_table(out).column_names == ["vector", "label", "note"]


def test_robust_shares_picks_among_the_corrected_classes(blobs):
    X, truth, given = blobs
    labels = gm.corrected_labels(given, gm.screen(X, given))
    found = gm.select(X, y=given, k=60, method="robust", relabel=0.95, random_state=0)
    counts = {name: int((labels == name).sum()) for name in NAMES}
    assert all(abs(found.counts[name] - counts[name] / 5) <= 1 for name in NAMES)
    assert np.mean(found.labels == np.array(truth)[found.indices]) >= 0.98
    assert found.provenance["parameters"]["per_class"] == "proportional" and found.screening.kept.sum() > 200


def test_text_tables_and_folders(succeeds, blobs, tmp_path):
    X, truth, given = blobs
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "labels.txt").write_text("\n".join(given))
    picks = tmp_path / "picks.parquet"
    labels = f"{tmp_path / 'labels.txt'}"
    typed = ("select", tmp_path / "x.npy", "-k", 200, "-o", picks, "-m", "gm-matching")
    succeeds(*typed, "--relabel", "--labels", labels)
    rows = gm.Selection.load(picks).indices
    lines = [f'"text, {i}";{label}' for i, label in enumerate(given)]
    (tmp_path / "t.csv").write_text("\n".join(["text;label", *lines]))
    succeeds("export", picks, tmp_path / "t.csv", "-o", tmp_path / "out.csv", "--labels", "corrected")
    with (tmp_path / "out.csv").open(newline="") as file:
        found = list(csv.DictReader(file, delimiter=";"))
    assert [line["text"] for line in found] == [f"text, {row}" for row in rows]
    new, old = (np.array([line[name] for line in found]) for name in ("corrected_label", "label"))
    assert (new != old).sum() > 5 and np.all((new == np.array(truth)[rows])[new != old])
    records = [json.dumps({"text": str(i), "label": label}) for i, label in enumerate(given)]
    (tmp_path / "t.jsonl").write_text("\n".join(records))
    succeeds("export", picks, tmp_path / "t.jsonl", "-o", tmp_path / "out.jsonl", "--labels", "corrected")
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["corrected_label"] for line in found] == new.tolist()
    assert [line["label"] for line in found] == [given[row] for row in rows]


@pytest.mark.slow
def test_images_get_a_table_of_their_labels(succeeds, photos, tmp_path):
    succeeds("embed", photos, "-o", tmp_path / "photos.emb", "--encoder", "pixels")
    picks = tmp_path / "picks.parquet"
    succeeds("select", tmp_path / "photos.emb", "-k", 20, "-o", picks, "--relabel")
    succeeds("export", picks, photos, "-o", tmp_path / "picked", "--labels", "corrected")
    with (tmp_path / "picked" / "labels.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert len(found) == 20 and all((tmp_path / "picked" / line["file"]).is_file() for line in found)
    assert all(line["label"] == line["file"].split("/")[0] for line in found)
    assert all(line["corrected_label"] in ("cat", "dog") for line in found)


def test_what_cannot_be_corrected_is_refused(refused, succeeds, table, tmp_path):
    out = tmp_path / "picks.parquet"
    assert "has none" in refused("select", table, "-k", 5, "-o", out, "--relabel", "--labels", "none")
    assert "--min-confidence 2.0: expected a number" in refused(
        "select", table, "-k", 5, "-o", out, "--relabel", "--min-confidence", 2
    )
    asked = ("select", table, "-k", 5, "-o", out, "--min-confidence", 0.9)
    assert "--min-confidence goes with --relabel" in refused(*asked)
    succeeds("select", table, "-k", 5, "-o", out, "-m", "gm-matching")
    asked = ("export", out, table, "-o", tmp_path / "out.parquet", "--min-confidence", 0.9)
    assert "--min-confidence goes with --labels corrected" in refused(*asked)
    line = refused("export", out, table, "-o", tmp_path / "out.parquet", "--labels", "corrected")
    assert "suggest no labels" in line and not (tmp_path / "out.parquet").exists()


def test_robust_picks_corrected_rows_only_where_a_class_needs_them(blobs):
    X, truth, given = blobs
    plain = gm.screen(X, given).kept.sum()
    few, many = (gm.select(X, y=given, k=k, method="robust", relabel=0.95) for k in (100, 285))
    assert few.provenance["relabeled"]["rows"] == [] and few.screening.kept.sum() == plain
    assert len(many.provenance["relabeled"]["rows"]) > 10
    assert few.screening.counts["label corrected"] == few.provenance["relabeled"]["n_rows"]
    assert np.mean(many.labels == np.array(truth)[many.indices]) >= 0.98
