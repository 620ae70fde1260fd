"""embed, info and export on small data, one after another as a user would."""

from __future__ import annotations

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gmmatch as gm


@pytest.fixture
def picks_of(tmp_path, succeeds):
    """Select k rows by ``easy``, and return the file of the picks."""

    def run(path, k, *options):
        picks = tmp_path / "picks.parquet"
        succeeds("select", path, "-k", k, "-m", "easy", "-o", picks, "--force", *options)
        return picks

    return run


def test_photos_become_a_folder_of_picked_photos(photos, store, tmp_path, picks_of, succeeds):
    picks = picks_of(store, "25%")
    assert succeeds("export", picks, photos, "-o", tmp_path / "picked", "--json")["exported"] == 6
    names = sorted(
        str(path.relative_to(tmp_path / "picked")) for path in (tmp_path / "picked").rglob("*.png")
    )
    assert names == sorted(gm.Selection.load(picks).ids)
    for name in names:
        assert (tmp_path / "picked" / name).read_bytes() == (photos / name).read_bytes()


@pytest.mark.parametrize("link", ["--link", "--copy"])
def test_linked_pictures_are_the_same_files_and_copies_are_not(
    link, photos, store, tmp_path, picks_of, succeeds
):
    succeeds("export", picks_of(store, 2), photos, "-o", tmp_path / "picked", link)
    for path in (tmp_path / "picked").rglob("*.png"):
        assert path.samefile(photos / path.relative_to(tmp_path / "picked")) == (link == "--link")


def test_embed_says_what_was_skipped_and_resumes(photos, tmp_path, succeeds, gmmatch):
    (photos / "cat" / "3.png").write_bytes((photos / "cat" / "3.png").read_bytes()[:40])
    arguments = ["embed", photos, "-o", tmp_path / "p.emb", "--encoder", "pixels", "--on-error", "skip"]
    result = gmmatch(*arguments)
    assert result.exit_code == 0
    assert "23 rows" in result.stdout and "images/s" in result.stdout and "cat/3.png" in result.stderr
    again = succeeds(*arguments, "--json")
    assert (again["n_encoded"], again["n_before"], again["skipped"][0]["id"]) == (0, 23, "cat/3.png")
    assert succeeds(*arguments, "--force", "--json")["n_encoded"] == 23


def test_csv_keeps_its_quotes(text_encoder, tmp_path, picks_of, succeeds):
    table = tmp_path / "t.csv"
    table.write_text('text;n\n"a; b";1\n"two\nlines";2\nplain;3\n', encoding="utf-8")
    succeeds("embed", table, "-o", tmp_path / "t.emb", "-e", text_encoder, "--text", "text")
    succeeds("export", picks_of(tmp_path / "t.emb", 3), table, "-o", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == table.read_text(encoding="utf-8")


def test_parquet_keeps_schema_metadata_and_rows_of_several_files(tmp_path, picks_of, succeeds):
    X = np.random.default_rng(0).normal(size=(20, 3))
    for part in range(2):
        rows = slice(10 * part, 10 * part + 10)
        columns = pa.table({"key": [f"k{i}" for i in range(20)][rows], "v": list(X[rows]), "n": range(10)})
        pq.write_table(columns.replace_schema_metadata({"mine": "kept"}), tmp_path / f"part-{part}.parquet")
    picks = picks_of(tmp_path / "part-*.parquet", 6, "--id-column", "key")
    succeeds("export", picks, tmp_path / "part-*.parquet", "-o", tmp_path / "picked.parquet")
    written = pq.read_table(tmp_path / "picked.parquet")
    assert written.schema.metadata[b"mine"] == b"kept"
    assert written.column("key").to_pylist() == gm.Selection.load(picks).ids.tolist()
    assert written.column_names == ["key", "v", "n"]


def test_weights_and_corrected_labels_become_columns(tmp_path, succeeds):
    X = np.repeat(np.eye(3), 40, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((120, 3))
    y = np.repeat(["ant", "bee", "cat"], 40)
    y[:4] = "bee"
    rows, picks, out = (tmp_path / f"{name}.parquet" for name in ("x", "picks", "out"))
    pq.write_table(pa.table({"v": list(X), "label": y}), rows)
    succeeds("select", rows, "-k", 60, "-o", picks, "--weights", "--set", "screening.relabel=0.4")
    succeeds("export", picks, rows, "-o", out, "--labels", "corrected", "--min-confidence", 0.4)
    written, selection = pq.read_table(out), gm.Selection.load(picks)
    corrected = gm.corrected_labels(selection.screening, y, 0.4)[selection.indices]
    assert written.column("corrected_label").to_pylist() == corrected.tolist()
    assert written.column("label_changed").to_pylist() == (corrected != y[selection.indices]).tolist()
    assert written.column("weight").to_pylist() == pytest.approx(selection.weights.tolist())


def test_labels_of_pictures_lie_in_a_table(photos, store, tmp_path, succeeds):
    picks = tmp_path / "picks.parquet"
    succeeds("select", store, "-k", 6, "-m", "herding", "--weights", "-o", picks)
    succeeds("export", picks, photos, "-o", tmp_path / "picked")
    with (tmp_path / "picked" / "labels.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["file"].partition("/")[0] for line in lines] == [line["label"] for line in lines]
    assert sum(float(line["weight"]) for line in lines) == pytest.approx(24, abs=1e-3)


def test_picks_of_another_source_are_refused(photos, store, texts, tmp_path, picks_of, refused):
    picks = picks_of(store, 4)
    assert "has 20 rows, but the picks were made from 24" in refused("export", picks, texts, "-o", "x.jsonl")
    (photos / "cat" / "0.png").rename(photos / "cat" / "zero.png")
    (photos / "dog" / "0.png").rename(photos / "dog" / "zero.png")
    every = picks_of(store, 24)
    assert "2 of the 24 picks are not in" in refused("export", every, photos, "-o", tmp_path / "x")
    assert "is a store" in refused("export", picks, store, "-o", tmp_path / "x")
    np.save(tmp_path / "x.npy", np.eye(3))
    assert "cannot be exported" in refused(
        "export", picks_of(tmp_path / "x.npy", 2), tmp_path / "x.npy", "-o", "y"
    )


def test_info_tells_stores_selections_and_sources_apart(photos, store, picks_of, succeeds, refused):
    found = succeeds("info", store, "--verify", "--json")
    assert (found["what"], found["n_rows"], found["n_features"], found["verified"]) == ("store", 24, 48, True)
    assert found["labels"] == [{"label": "cat", "n_rows": 12}, {"label": "dog", "n_rows": 12}]
    selection = succeeds("info", picks_of(store, 6), "--json")
    assert (selection["what"], selection["k"]) == ("selection", 6)
    source = succeeds("info", photos, "--json")
    assert (source["what"], source["kind"], source["n_rows"]) == ("source", "image", 24)
    assert "cat: 12, dog: 12" in succeeds("info", store)
    text = succeeds("info", picks_of(store, 6))
    assert "cat: 3 of 12, dog: 3 of 12" in text and "pixels:4x4" in text and "provenance" not in text
    assert "no checksums" in refused("info", photos, "--verify")


def test_info_says_which_columns_could_be_embeddings(tmp_path, succeeds):
    table = pa.table({"a": list(np.eye(3)), "b": list(np.eye(3)), "title": ["x", "y", "z"]})
    pq.write_table(table, tmp_path / "x.parquet")
    found = succeeds("info", tmp_path / "x.parquet", "--json")
    assert found["columns"] == {"embeddings": ["a", "b"], "texts": ["title"]}
    assert "--embedding-column 'a'" in found["how"]


def test_ctrl_c_says_how_much_is_saved(photos, tmp_path, gmmatch, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("gmmatch.store.run.embed", interrupted)
    monkeypatch.setattr("gmmatch.embed", interrupted, raising=False)
    result = gmmatch("embed", photos, "-o", tmp_path / "p.emb", "--encoder", "pixels")
    assert result.exit_code == 130
    assert "0 of 24 rows saved; run the same command to resume." in result.stderr


@pytest.mark.slow
def test_embed_on_ray_makes_the_same_store(photos, tmp_path, succeeds, ray_cluster):
    asked = ("embed", photos, "--encoder", "pixels:8x8", "-o")
    for name, more in (("here.emb", ()), ("there.emb", ("--engine", "ray", "--workers", 2))):
        succeeds(*asked, tmp_path / name, *more)
    here, there = (gm.open_store(tmp_path / name).manifest for name in ("here.emb", "there.emb"))
    assert here == there


@pytest.mark.slow
def test_a_function_in_a_file_goes_to_the_workers(tmp_path, succeeds, ray_cluster):
    (tmp_path / "lengths.py").write_text(
        "import numpy as np\n\ndef measure(text):\n    return [len(text), text.count('e')]\n\n"
        "def encode(texts):\n    return np.array([measure(text) for text in texts])\n"
    )
    (tmp_path / "texts.csv").write_text("text\n" + "".join(f"{'e' * row} a\n" for row in range(50)))
    encoder = ("--encoder", f"{tmp_path / 'lengths.py'}:encode")
    succeeds(
        "embed", tmp_path / "texts.csv", "-o", tmp_path / "x.emb", *encoder, "--engine", "ray", "--workers", 2
    )
    expected = [[row + 2, row] for row in range(50)]
    assert gm.open_store(tmp_path / "x.emb").to_numpy().tolist() == expected
