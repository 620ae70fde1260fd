"""embed, select, compare, info and export on small data, one after another as a user would."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.cli import COMMANDS
from gmmatch.embeddings import open_store


def test_photos_become_a_folder_of_picked_photos(photos, tmp_path, succeeds):
    store, picks, picked = tmp_path / "p.emb", tmp_path / "picks.parquet", tmp_path / "picked"
    report = succeeds("embed", photos, "-o", store, "--encoder", "pixels:4x4", "--json")
    assert (report["n_rows"], report["n_features"], report["skipped"]) == (24, 48, [])
    summary = succeeds("select", store, "-k", "25%", "-o", picks, "--json")
    assert [(group["label"], group["picked"]) for group in summary["groups"]] == [("cat", 3), ("dog", 3)]
    succeeds("export", picks, photos, "-o", picked)
    selection = gm.Selection.load(picks)
    names = sorted(str(path.relative_to(picked)) for path in picked.rglob("*.png"))
    assert names == sorted(selection.ids)
    for name in names:
        assert (picked / name).read_bytes() == (photos / name).read_bytes()


def test_the_picks_are_those_of_the_library(photos, tmp_path, succeeds):
    store, picks = tmp_path / "p.emb", tmp_path / "picks.json"
    succeeds("embed", photos, "-o", store, "--encoder", "pixels:4x4")
    succeeds(
        "select", store, "-k", 5, "-o", picks, "--seed", 3, "--set", "start=zero", "--per-class", "balanced"
    )
    opened, found = open_store(store), gm.Selection.load(picks)
    X = np.asarray(opened.as_array())
    expected = gm.select(X, y=opened.labels, k=5, per_class="balanced", start="zero", random_state=3)
    assert np.array_equal(found.order, expected.order)
    assert found.ids.tolist() == opened.ids[found.indices].tolist()
    assert found.provenance["embeddings"]["encoder"] == "pixels:4x4"
    assert found.provenance["embeddings"]["source_fingerprint"] == opened.manifest.source_fingerprint


def test_embed_says_what_was_skipped_and_goes_on_by_itself(photos, tmp_path, succeeds, gmmatch):
    (photos / "cat" / "3.png").write_bytes((photos / "cat" / "3.png").read_bytes()[:40])
    arguments = ["embed", photos, "-o", tmp_path / "p.emb", "--encoder", "pixels", "--on-error", "skip"]
    result = gmmatch(*arguments)
    assert result.exit_code == 0
    assert "23 rows" in result.stdout and "images/s" in result.stdout and "cat/3.png" in result.stderr
    again = succeeds(*arguments, "--json")
    assert (again["n_encoded"], again["n_before"], again["skipped"][0]["id"]) == (0, 23, "cat/3.png")
    assert succeeds(*arguments, "--force", "--json")["n_encoded"] == 23


@pytest.mark.parametrize("link", ["--link", "--copy"])
def test_linked_pictures_are_the_same_files_and_copies_are_not(photos, tmp_path, succeeds, link):
    succeeds("embed", photos, "-o", tmp_path / "p.emb", "--encoder", "pixels")
    succeeds("select", tmp_path / "p.emb", "-k", 2, "-o", tmp_path / "picks.npy")
    succeeds("export", tmp_path / "picks.npy", photos, "-o", tmp_path / "picked", link)
    for path in (tmp_path / "picked").rglob("*.png"):
        original = photos / path.relative_to(tmp_path / "picked")
        assert path.samefile(original) == (link == "--link")


def test_force_replaces_an_earlier_export_and_nothing_else(photos, tmp_path, succeeds, refused):
    succeeds("embed", photos, "-o", tmp_path / "p.emb", "--encoder", "pixels")
    for k in (4, 2):
        succeeds("select", tmp_path / "p.emb", "-k", k, "-o", tmp_path / "picks.parquet", "--force")
        succeeds("export", tmp_path / "picks.parquet", photos, "-o", tmp_path / "picked", "--force")
        assert len(list((tmp_path / "picked").rglob("*.png"))) == k
    holiday = tmp_path / "holiday"
    holiday.mkdir()
    (holiday / "diary.txt").write_text("dear diary")
    assert "choose another folder" in refused(
        "export", tmp_path / "picks.parquet", photos, "-o", holiday, "--force"
    )
    assert (holiday / "diary.txt").read_text() == "dear diary"
    assert "within each other" in refused(
        "export", tmp_path / "picks.parquet", photos, "-o", photos / "picked"
    )


def test_nothing_is_overwritten_without_force(photos, tmp_path, succeeds, refused):
    picks = tmp_path / "picks.parquet"
    succeeds("embed", photos, "-o", tmp_path / "p.emb", "--encoder", "pixels")
    succeeds("select", tmp_path / "p.emb", "-k", 2, "-o", picks)
    succeeds("export", picks, photos, "-o", tmp_path / "picked")
    before = picks.read_bytes()
    assert "--force" in refused("select", tmp_path / "p.emb", "-k", 3, "-o", picks)
    assert "--force" in refused("export", picks, photos, "-o", tmp_path / "picked")
    assert picks.read_bytes() == before


def picks_of(store: Path, output: Path, succeeds, k: int = 5) -> list:
    succeeds("select", store, "-k", k, "-o", output)
    return gm.Selection.load(output).ids.tolist()


def test_json_lines_keep_their_lines(texts, text_encoder, tmp_path, succeeds):
    options = ["--encoder", text_encoder, "--text-column", "body", "--id-column", "key"]
    succeeds("embed", texts, "-o", tmp_path / "t.emb", *options)
    ids = picks_of(tmp_path / "t.emb", tmp_path / "picks.json", succeeds)
    succeeds("export", tmp_path / "picks.json", texts, "-o", tmp_path / "out.jsonl")
    lines = (tmp_path / "out.jsonl").read_bytes().splitlines(keepends=True)
    wanted = [line for line in texts.read_bytes().splitlines(keepends=True) if json.loads(line)["key"] in ids]
    assert lines == wanted and len(lines) == 5


def test_csv_keeps_its_quotes_and_line_ends(text_encoder, tmp_path, succeeds):
    path, out = tmp_path / "t.csv", tmp_path / "out.csv"
    rows = [f'"w{"w" * i} ""quoted"",\nsecond line",l{i % 2}\r\n' for i in range(12)]
    path.write_text("text,label\r\n" + "".join(rows), encoding="utf-8", newline="")
    succeeds("embed", path, "-o", tmp_path / "t.emb", "--encoder", text_encoder)
    ids = picks_of(tmp_path / "t.emb", tmp_path / "picks.parquet", succeeds, k=4)
    succeeds("export", tmp_path / "picks.parquet", path, "-o", out)
    with out.open(encoding="utf-8", newline="") as file:
        assert file.read() == "text,label\r\n" + "".join(rows[i] for i in sorted(ids))
    with out.open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == 4


def test_parquet_keeps_schema_metadata_and_rows_of_several_files(text_encoder, tmp_path, succeeds):
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("text", pa.string()), ("extra", pa.list_(pa.int8()))], metadata={"who": "me"})
    folder = tmp_path / "parts"
    folder.mkdir()
    for part in range(3):
        texts = [f"{'w' * (7 * part + i)} {part}" for i in range(7)]
        table = pa.table({"text": texts, "extra": [[part, i] for i in range(7)]}, schema=schema)
        pq.write_table(table, folder / f"{part}.parquet", row_group_size=3)
    succeeds("embed", folder, "-o", tmp_path / "t.emb", "--encoder", text_encoder, "--text-column", "text")
    ids = picks_of(tmp_path / "t.emb", tmp_path / "picks.parquet", succeeds, k=6)
    succeeds("export", tmp_path / "picks.parquet", folder, "-o", tmp_path / "out.parquet")
    out = pq.read_table(tmp_path / "out.parquet")
    whole = pa.concat_tables([pq.read_table(path) for path in sorted(folder.iterdir())])
    assert out.schema.equals(whole.schema, check_metadata=True) and out.schema.metadata[b"who"] == b"me"
    assert out.equals(whole.take(sorted(ids)))


def test_picks_of_another_source_are_refused(texts, text_encoder, photos, tmp_path, succeeds, refused):
    options = ["--encoder", text_encoder, "--text-column", "body"]
    succeeds("embed", texts, "-o", tmp_path / "t.emb", *options)
    succeeds("select", tmp_path / "t.emb", "-k", 5, "-o", tmp_path / "picks.json")
    lines = texts.read_bytes().splitlines(keepends=True)
    texts.write_bytes(b"".join(lines[:-1]))
    assert "19 rows" in refused("export", tmp_path / "picks.json", texts, "-o", tmp_path / "out.jsonl")
    texts.write_bytes(b"".join(reversed(lines)))
    assert "changed" in refused("export", tmp_path / "picks.json", texts, "-o", tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()
    succeeds("embed", photos, "-o", tmp_path / "p.emb", "--encoder", "pixels")
    succeeds("select", tmp_path / "p.emb", "-k", 5, "-o", tmp_path / "picks.npy")
    picked = gm.Selection.load(tmp_path / "picks.npy").ids[0]
    (photos / picked).unlink()
    assert picked in refused("export", tmp_path / "picks.npy", photos, "-o", tmp_path / "picked")


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors", "parquet"])
def test_vectors_need_no_embedding(kind, tmp_path, succeeds):
    X = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32)
    y, path = np.arange(40) % 2, tmp_path / f"x.{kind}"
    if kind == "npy":
        np.save(path, X)
        y = None
    elif kind == "npz":
        np.savez(path, x=X, label=y)
    elif kind == "safetensors":
        pytest.importorskip("safetensors")
        from safetensors.numpy import save_file

        save_file({"x": X, "label": y}, path)
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"embedding": list(X), "label": y}), path)
    succeeds("select", path, "-k", "25%", "-o", tmp_path / "picks.json")
    expected = gm.select(X, y=y, k="25%", random_state=0)
    assert np.array_equal(gm.Selection.load(tmp_path / "picks.json").order, expected.order)


def test_labels_from_a_file_replace_the_own_ones(photos, tmp_path, succeeds):
    (photos / "cat" / "0.png").write_bytes(b"broken")
    arguments = ["--encoder", "pixels", "--on-error", "skip"]
    succeeds("embed", photos, "-o", tmp_path / "p.emb", *arguments)
    table = tmp_path / "labels.csv"  # of the source's 24 rows, of which the store has 23
    table.write_text("file,kind\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(24)))
    found = succeeds(
        "select",
        tmp_path / "p.emb",
        "-k",
        5,
        "-o",
        tmp_path / "a.json",
        "--labels",
        f"{table}::kind",
        "--method",
        "gm-matching",
        "--json",
    )
    assert [(group["label"], group["n_rows"]) for group in found["groups"]] == [("a", 11), ("b", 12)]
    options = ["--labels", "none", "--method", "gm-matching", "--json"]
    found = succeeds("select", tmp_path / "p.emb", "-k", 5, "-o", tmp_path / "b.json", *options)
    assert [group["label"] for group in found["groups"]] == [None]


def test_compare_counts_wrong_labels_and_measures_distances(tmp_path, succeeds):
    random = np.random.default_rng(0)
    true = np.repeat([0, 1], 100)
    X = random.normal(size=(200, 4)) + 10.0 * true[:, None]
    given = np.where(random.random(200) < 0.25, 1 - true, true)
    np.savez(tmp_path / "x.npz", x=X, label=given)
    np.save(tmp_path / "true.npy", true)
    result = succeeds(
        "compare",
        tmp_path / "x.npz",
        "-k",
        40,
        "--methods",
        "random,easy",
        "--truth",
        tmp_path / "true.npy",
        "--json",
    )
    assert result["wrong_labels"] == np.mean(given != true)
    rows = {row["method"]: row for row in result["rows"]}
    for name, row in rows.items():
        picks = gm.select(X, y=given, k=40, method=name, random_state=0)
        assert row["contamination"] == pytest.approx(np.mean((given != true)[picks.indices]))
        errors = [
            gm.metrics.moment_error(X[rows_of(picks, label)], X[(given == label) & (true == label)])
            for label in (0, 1)
        ]
        assert row["moment_error"] == pytest.approx(np.mean(errors))
        distances = [
            gm.metrics.mmd(X[rows_of(picks, label)], X[(given == label) & (true == label)])
            for label in (0, 1)
        ]
        assert row["mmd"] == pytest.approx(np.mean(distances))
        covered = gm.metrics.coverage(X, picks.indices, of=np.flatnonzero(given == true))
        assert row["coverage_mean"] == pytest.approx(covered.mean, rel=1e-6)
        assert row["coverage_max"] == pytest.approx(covered.largest, rel=1e-6)
    assert rows["easy"]["contamination"] < rows["random"]["contamination"]


def rows_of(selection: gm.Selection, label: int) -> np.ndarray:
    return next(group.order for group in selection.groups if group.label == label)


def test_compare_says_so_when_it_takes_a_sample(vectors, succeeds, monkeypatch):
    import gmmatch.cli.compare as comparing

    assert "sample" not in succeeds("compare", vectors, "-k", 10, "--methods", "random")
    monkeypatch.setattr(comparing, "SAMPLED_ROWS", 15)
    assert "sample of 15 rows" in " ".join(
        succeeds("compare", vectors, "-k", 10, "--methods", "random").split()
    )


@pytest.mark.filterwarnings("ignore::gmmatch.errors.UnlabeledRowsWarning")
def test_compare_does_not_count_rows_without_a_label_as_a_class(tmp_path, succeeds):
    X = np.random.default_rng(0).normal(size=(40, 3))
    np.save(tmp_path / "v.npy", X)
    np.save(tmp_path / "y.npy", np.where(np.arange(40) < 30, np.arange(40) % 2, -1))
    found = succeeds(
        "compare",
        tmp_path / "v.npy",
        "-k",
        6,
        "--labels",
        tmp_path / "y.npy",
        "--methods",
        "random",
        "--json",
    )
    assert found["classes"] == 2


def test_info_tells_stores_selections_and_sources_apart(photos, tmp_path, succeeds, refused):
    store, picks = tmp_path / "p.emb", tmp_path / "picks.npy"
    succeeds("embed", photos, "-o", store, "--encoder", "pixels:4x4")
    succeeds("select", store, "-k", 2, "-o", picks)
    found = succeeds("info", store, "--verify", "--json")
    assert (found["what"], found["n_rows"], found["encoder"], found["complete"]) == (
        "store",
        24,
        "pixels:4x4",
        True,
    )
    assert found["labels"] == [{"label": "cat", "n_rows": 12}, {"label": "dog", "n_rows": 12}]
    found = succeeds("info", picks, "--json")
    assert (found["what"], found["k"], found["provenance"]["method"]) == ("selection", 2, "robust")
    found = succeeds("info", photos, "--json")
    assert (found["what"], found["kind"], found["n_rows"]) == ("source", "image", 24)
    assert "pixels:4x4" in succeeds("info", store)
    shard = next(store.glob("*.npy"))
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    assert "checksum" in refused("info", store, "--verify")


def test_info_calls_rows_without_a_label_that(tmp_path, succeeds):
    lines = [f"{i},{i % 3},{'' if i % 4 else 'cat'}" for i in range(12)]
    (tmp_path / "x.csv").write_text("\n".join(["a,b,label", *lines]))
    store, picks = tmp_path / "x.emb", tmp_path / "picks.json"
    succeeds("embed", tmp_path / "x.csv", "-o", store, "--encoder", "identity")
    assert "no label: 9, cat: 3" in succeeds("info", store)
    succeeds("select", store, "-k", 4, "-o", picks, "-m", "random", "--set", "unlabeled=group")
    assert "cat: 1 of 3, no label: 3 of 9" in succeeds("info", picks)
    succeeds("select", store, "-k", 4, "-o", picks, "--force", "--labels", "none")
    assert "all: 4 of 12" in succeeds("info", picks)


def test_saved_picks_know_what_was_screened_out(tmp_path, succeeds):
    X = np.random.default_rng(0).normal(size=(200, 2))
    X[:60] += 15.0
    np.save(tmp_path / "v.npy", X)
    succeeds("select", tmp_path / "v.npy", "-k", 40, "--method", "robust", "-o", tmp_path / "picks.parquet")
    saved = gm.Selection.load(tmp_path / "picks.parquet")
    assert saved.screening is not None
    assert np.flatnonzero(~saved.screening.kept).tolist() == list(range(60))
    assert saved.indices.min() >= 60


def test_every_new_command_shows_an_example(succeeds):
    for name in ("embed", "select", "compare", "info", "export"):
        assert f"\n    gmmatch {name} " in succeeds(name, "--help")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell):
    words = {"bash": "COMP_WORDS", "zsh": "_TYPER_COMPLETE_ARGS", "fish": "_TYPER_COMPLETE_ARGS"}[shell]
    settings = {"_GMMATCH_COMPLETE": f"complete_{shell}", words: "gmmatch se", "COMP_CWORD": "1"}
    settings["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    script = [
        sys.executable,
        "-c",
        "import sys; sys.argv[0] = 'gmmatch'; from gmmatch.cli import main; main()",
    ]
    done = subprocess.run(script, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    assert "select" in done.stdout and "export" not in done.stdout
    assert "select" in COMMANDS
