"""What the commands say about rows that look wrong: ``select``, ``screen`` and ``compare``."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gmmatch as gm

NAMES = np.array(["cat", "dog", "owl"])


@pytest.fixture(scope="module")
def noisy():
    """900 rows in three classes, a fifth of them mislabeled, and three far out."""
    random = np.random.default_rng(0)
    truth = np.arange(900) % 3
    rows = random.normal(size=(900, 6)) + 5.0 * np.eye(6)[truth]
    labels = np.where(random.random(900) < 0.2, (truth + 1) % 3, truth)
    rows[:3] = 60.0 * np.eye(6)[3:]
    return rows, NAMES[labels], NAMES[truth]


@pytest.fixture
def table(noisy, tmp_path):
    rows, labels, _ = noisy
    path = tmp_path / "noisy.parquet"
    ids = [f"row-{i}" for i in range(900)]
    pq.write_table(pa.table({"id": ids, "vector": list(rows), "label": labels}), path)
    return path


def test_select_prints_reasons_and_estimated_noise_and_where_to_see_the_rows(table, tmp_path, gmmatch):
    result = gmmatch("select", table, "-k", 60, "-o", tmp_path / "p.json")
    assert result.exit_code == 0
    assert "60 of 900 rows by robust" in result.stdout
    assert "likely mislabeled" in result.stdout and "3 far out" in result.stdout
    noise = float(result.stdout.split("Estimated label noise: ")[1].split("%")[0])
    assert 15.0 < noise < 25.0
    assert f"gmmatch screen {table} -o suspects.csv" in result.stderr.replace("\n", "")


def test_picks_are_printed_for_a_pipe(table, tmp_path, gmmatch, succeeds):
    result = gmmatch("select", table, "-k", 30, "-o", "-")
    facts = succeeds("select", table, "-k", 30, "-o", tmp_path / "p.json", "--json")
    found = gm.Selection.load(tmp_path / "p.json")
    assert result.stdout.split() == facts["ids"] == found.ids.tolist()
    assert facts["indices"] == found.indices.tolist() and "30 of 900 rows" in result.stderr


def test_screen_writes_a_line_for_each_suspicious_row(table, noisy, tmp_path, gmmatch, succeeds):
    rows, labels, truth = noisy
    text = succeeds("screen", table, "-o", tmp_path / "suspects.csv")
    printed = gmmatch("screen", table, "-o", "-")
    assert printed.stdout == (tmp_path / "suspects.csv").read_text()
    found = list(csv.DictReader(io.StringIO(printed.stdout)))
    assert list(found[0]) == ["row", "id", "label", "suggested_label", "probability", "reason"]
    screening = gm.screen(rows, labels)
    assert sorted(int(line["row"]) for line in found) == np.flatnonzero(~screening.kept).tolist()
    assert all(line["id"] == f"row-{line['row']}" for line in found)
    chances = [float(line["probability"]) for line in found]
    assert chances == sorted(chances, reverse=True)
    wrong = [line for line in found if line["reason"] == "likely mislabeled"]
    assert np.mean([line["suggested_label"] == truth[int(line["row"])] for line in wrong]) > 0.9
    assert f"{len(found)} of 900 rows are not trusted" in text and "Estimated label noise" in text
    facts = succeeds("screen", table, "--json")
    assert facts["reasons"] == screening.counts and facts["kept"] + len(facts["indices"]) == 900
    assert "label" not in " ".join(succeeds("screen", table, "--only", "rows", "--json")["reasons"])


def test_what_cannot_be_screened_is_refused(table, tmp_path, refused):
    assert "has no labels" in refused("screen", table, "--labels", "none", "--only", "labels")
    assert ".parquet or .csv" in refused("screen", table, "-o", tmp_path / "x.txt")
    assert "is also an input" in refused("screen", table, "-o", table, "--force")


def test_compare_without_truth_is_with_the_trusted_rows(table, noisy, succeeds):
    rows, labels, truth = noisy
    result = succeeds("compare", table, "-k", "10%", "--json")
    by_method = {row["method"]: row for row in result["rows"]}
    assert list(by_method) == ["robust", "gm-matching", "moderate", "random"]
    assert result["trusted_rows"] == gm.screen(rows, labels).kept.sum()
    picks = gm.select(rows, labels, k="10%", method="random", random_state=0).indices
    share = np.mean((labels != truth)[picks])
    assert by_method["random"]["estimated_mislabeled"] == pytest.approx(share, abs=0.07)
    assert by_method["robust"]["estimated_mislabeled"] < 0.02
    for figure in ("moment_error", "mmd", "coverage_mean"):
        assert by_method["robust"][figure] < by_method["random"][figure]
    assert "est. mislabeled" in succeeds("compare", table, "-k", "10%", "--methods", "random,easy")


def test_truth_is_joined_by_id_and_a_shuffled_one_is_noticed(
    table, noisy, tmp_path, gmmatch, succeeds, refused
):
    _, labels, truth = noisy
    order = np.random.default_rng(1).permutation(900)
    lines = [f"row-{row},{truth[row]}" for row in order]
    (tmp_path / "true.csv").write_text("\n".join(["id,kind", *lines]))
    typed = ("compare", table, "-k", 30, "--methods", "random", "--truth")
    assert succeeds(*typed, tmp_path / "true.csv", "--json")["wrong_labels"] == np.mean(labels != truth)
    np.save(tmp_path / "shuffled.npy", truth[order])
    assert "Warning: --truth" in gmmatch(*typed, tmp_path / "shuffled.npy").stderr
    (tmp_path / "true.csv").write_text("\n".join(["id,kind", *lines[1:]]))
    line = refused(*typed, tmp_path / "true.csv")
    assert f"has no label for 1 of 900 rows, the first of them with the id 'row-{order[0]}'" in line


def test_ids_beside_labels_are_used_or_the_user_is_told(table, noisy, tmp_path, gmmatch, refused):
    rows, labels, _ = noisy
    np.save(tmp_path / "x.npy", rows)
    order = np.random.default_rng(1).permutation(900)
    file = tmp_path / "labels.csv"

    def picked(source, ids, shown=order):
        lines = [f"{ids(row)},{labels[row]}" for row in shown]
        file.write_text("\n".join(["id,kind", *lines]))
        return gmmatch("select", source, "-k", 30, "-m", "easy", "-o", "-", "--labels", file)

    right = picked(tmp_path / "x.npy", str, range(900))
    assert "its ids" not in right.stderr
    assert picked(tmp_path / "x.npy", str).stdout == right.stdout  # a file without ids has row numbers
    for source in (table, tmp_path / "x.npy"):
        assert "its ids are not those of" in picked(source, "image-{}".format).stderr
    file.write_text(file.read_text().replace("image", "row") + "\nrow-3,none")
    line = refused("select", table, "-k", 30, "-o", "-", "--labels", file)
    assert "two labels for the id 'row-3'" in line


def test_percentages_are_percentages_on_the_page(table, tmp_path, succeeds):
    page = tmp_path / "page.html"
    shown = succeeds("compare", table, "-k", 60, "--methods", "robust,random", "--report", page, "--json")
    share = shown["rows"][1]["estimated_mislabeled"]
    text = page.read_text(encoding="utf-8")
    assert "Estimated mislabeled" in text and json.dumps(f"{share:.1%}")[1:-1] in text
