"""Whatever is wrong with the input: one clear line, exit code 2, no traceback, nothing half-written."""

from __future__ import annotations

import errno
import json
import sys

import numpy as np
import pytest


@pytest.fixture
def store(photos, tmp_path, succeeds):
    succeeds("embed", photos, "-o", tmp_path / "p.emb", "--encoder", "pixels:4x4")
    return tmp_path / "p.emb"


def test_without_pillow_the_encoder_of_pixels_names_the_extra(photos, tmp_path, refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert "[vision]" in refused("embed", photos, "-o", tmp_path / "x.emb", "--encoder", "pixels")


def test_a_missing_folder(tmp_path, refused):
    line = refused("embed", tmp_path / "nowhere", "-o", tmp_path / "x.emb", "--encoder", "pixels")
    assert "nowhere" in line and "no such" in line
    for command in ("select", "compare"):
        output = ["-o", tmp_path / "p.json"] if command == "select" else []
        assert "no such" in refused(command, tmp_path / "nowhere.emb", "-k", 3, *output)
    assert "no such" in refused("info", tmp_path / "nowhere.emb")
    assert "no such" in refused("export", tmp_path / "no.json", tmp_path, "-o", tmp_path / "x")


def test_an_empty_folder(tmp_path, refused):
    (tmp_path / "empty").mkdir()
    assert "is empty" in refused("embed", tmp_path / "empty", "-o", tmp_path / "x.emb")
    assert not (tmp_path / "x.emb").exists()


def test_a_truncated_image(photos, tmp_path, refused):
    image = photos / "dog" / "7.png"
    image.write_bytes(image.read_bytes()[:60])
    assert "dog/7.png" in refused("embed", photos, "-o", tmp_path / "x.emb", "--encoder", "pixels")


def test_a_missing_column_of_text(texts, text_encoder, tmp_path, refused):
    arguments = ["embed", texts, "-o", tmp_path / "x.emb", "--encoder", text_encoder]
    line = refused(*arguments, "--text-column", "boby")
    assert "--text-column 'boby'" in line and "Did you mean 'body'?" in line
    assert "--text-column" in refused(*arguments)  # three columns of text, and no hint which


def test_labels_of_another_length(store, vectors, tmp_path, refused):
    labels = tmp_path / "labels.npy"
    np.save(labels, np.arange(7))
    line = refused("select", store, "-k", 3, "-o", tmp_path / "p.json", "--labels", labels)
    assert "7 labels" in line and "24 rows" in line
    assert "7 labels" in refused("select", vectors, "-k", 3, "-o", tmp_path / "p.json", "--labels", labels)
    assert "no columns" in refused("select", store, "-k", 3, "-o", tmp_path / "p.json", "--labels", "kind")
    assert "no labels to compare" in refused("compare", vectors, "-k", 3, "--truth", labels)


def test_a_row_with_nan(vectors, tmp_path, refused):
    X = np.load(vectors)
    X[5, 1] = np.nan
    np.save(vectors, X)
    line = refused("select", vectors, "-k", 3, "-o", tmp_path / "p.json")
    assert "NaN" in line and "first: 5" in line
    assert "NaN" in refused("compare", vectors, "-k", 3)
    assert "5" in refused("embed", vectors, "-o", tmp_path / "x.emb", "--encoder", "identity")
    assert not (tmp_path / "p.json").exists()


@pytest.mark.parametrize("k", ["0", "41", "-3", "0%", "110%", "many", "1.5", "nan"])
def test_an_amount_that_cannot_be(k, vectors, tmp_path, refused):
    assert f"k={k}" in refused("select", vectors, "-k", k, "-o", tmp_path / "p.json").replace("'", "")
    assert f"k={k}" in refused("compare", vectors, "-k", k).replace("'", "")


def test_an_unknown_encoder(photos, texts, tmp_path, refused, monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    line = refused("embed", photos, "-o", tmp_path / "x.emb", "--encoder", "no-such/model")
    assert "no-such/model" in line
    assert "takes images" in refused(
        "embed", texts, "--text-column", "body", "-o", tmp_path / "x.emb", "--encoder", "pixels"
    )


@pytest.mark.parametrize("content", ["{", "[]", '{"format": "gmmatch-embeddings"}', ""])
def test_an_unreadable_manifest(content, store, tmp_path, refused):
    (store / "manifest.json").write_text(content)
    if content != "[]":  # someone else's file of that name is no store
        assert "manifest.json" in refused("select", store, "-k", 3, "-o", tmp_path / "p.json")
        assert "manifest.json" in refused("info", store)
    else:
        refused("select", store, "-k", 3, "-o", tmp_path / "p.json")


def test_a_store_that_is_not_finished(tmp_path, refused, succeeds):
    from gmmatch.embeddings import StoreWriter

    with StoreWriter(tmp_path / "x.emb", encoder="mine", encoder_fingerprint="1") as writer:
        writer.append(np.eye(3), ids=[0, 1, 2])
    assert "not complete" in refused("select", tmp_path / "x.emb", "-k", 1, "-o", tmp_path / "p.json")
    assert succeeds("info", tmp_path / "x.emb", "--json")["complete"] is False


def test_a_store_of_another_encoder(store, photos, refused):
    assert "another encoder" in refused("embed", photos, "-o", store, "--encoder", "pixels:5x5")


def test_a_full_disk_while_embedding(tmp_path, small_disk, refused, succeeds):
    np.save(tmp_path / "x.npy", np.zeros((20_000, 16), dtype=np.float32))
    line = refused("embed", tmp_path / "x.npy", "-o", small_disk / "x.emb", "--encoder", "identity")
    assert "No space left on device" in line and "rows are safe" in line


def test_a_full_disk_while_selecting_and_exporting(
    texts, text_encoder, tmp_path, small_disk, refused, succeeds
):
    options = ["--encoder", text_encoder, "--text-column", "body"]
    succeeds("embed", texts, "-o", tmp_path / "t.emb", *options)
    succeeds("select", tmp_path / "t.emb", "-k", 20, "-o", tmp_path / "picks.json")
    (small_disk / "filler").write_bytes(b"0" * (256 << 10))
    line = refused("select", tmp_path / "t.emb", "-k", 5, "-o", small_disk / "picks.json")
    assert "No space left on device" in line and "picks.json" in line
    line = refused("export", tmp_path / "picks.json", texts, "-o", small_disk / "out.jsonl")
    assert "No space left on device" in line and "out.jsonl" in line
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


def test_a_full_disk_keeps_what_was_there(vectors, tmp_path, refused, succeeds, monkeypatch):
    picks = tmp_path / "picks.json"
    succeeds("select", vectors, "-k", 5, "-o", picks)
    before = picks.read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert "No space left" in refused("select", vectors, "-k", 6, "-o", picks, "--force")
    assert picks.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["picks.json", "vectors.npy"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--method", "gm-maching"], "gm-matching"),
        (["--set", "normalise=True"], "normalize"),
        (["--set", "normalize"], "name=value"),
        (["--set", "k=3"], "-k"),
        (["--set", "y=3"], "--labels"),
        (["--set", "normalize=maybe"], "--set normalize=maybe: expected True or False"),
        (["--set", "eps=small"], "--set eps=small: expected a number"),
        (["--method", "el2n"], "give some by --labels"),
        (["--labels", ""], "'none' for no labels"),
        (["--labels", "."], "--labels . is a folder"),
        (["--labels", "scalar.npz"], "--labels scalar.npz has shape ()"),
        (["--labels", "square.npz"], "--labels square.npz has shape (40, 2)"),
        (["--labels", "lists.jsonl"], "--labels lists.jsonl holds [1, 2]"),
        (["--memory", "lots"], "2GB"),
        (["--memory", "1MB"], "at least"),
        (["-o", "picks.txt"], ".parquet"),
        (["-o", "nowhere/picks.json"], "nowhere"),
    ],
)
def test_options_that_cannot_be(arguments, expected, vectors, tmp_path, refused, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("scalar.npz", label=np.array(3))
    np.savez("square.npz", label=np.zeros((40, 2)))
    (tmp_path / "lists.jsonl").write_text('{"label": [1, 2]}\n' * 40)
    assert expected in refused("select", vectors, "-k", 3, "-o", tmp_path / "p.json", *arguments)


def test_false_is_false_however_it_is_written(vectors, tmp_path, succeeds):
    found = []
    for value in ("False", "false", "true"):
        picks = tmp_path / f"{value}.json"
        succeeds("select", vectors, "-k", 5, "-o", picks, "--set", f"normalize={value}")
        found.append(json.loads(picks.read_text())["order"])
    assert found[0] == found[1] != found[2]


def test_errors_name_options_of_their_own_command_alone(vectors, tmp_path, photos, refused):
    assert "--methods 'zz'" in refused("compare", vectors, "-k", 3, "--methods", "random,zz")
    assert "--method 'zz'" in refused("select", vectors, "-k", 3, "-o", tmp_path / "p.json", "--method", "zz")
    line = refused("export", tmp_path / "nowhere.json", photos, "-o", tmp_path / "out")
    assert line == f"Error: {tmp_path / 'nowhere.json'}: there is no such file."


def test_truth_about_other_classes_is_no_truth(tmp_path, refused):
    np.savez(tmp_path / "x.npz", x=np.eye(4), label=["a", "b", "a", "b"])
    np.save(tmp_path / "true.npy", np.arange(4) % 2)
    line = refused("compare", tmp_path / "x.npz", "-k", 2, "--truth", tmp_path / "true.npy")
    assert "such as 0" in line and "such as 'a'" in line


def test_numbers_in_a_text_file_are_those_of_an_array(tmp_path, succeeds):
    labels, table = np.array([0, 1, 1, 0, 10, 10]), tmp_path / "x.csv"
    table.write_text("\n".join(["a,b,label", *(f"{i},{i % 3},{label}" for i, label in enumerate(labels))]))
    np.savez(tmp_path / "x.npz", x=np.arange(12).reshape(6, 2), label=labels)
    for path, truth in ((table, tmp_path / "x.npz"), (tmp_path / "x.npz", table)):
        asked = ("compare", path, "-k", 3, "--methods", "random", "--json", "--truth", f"{truth}::label")
        assert succeeds(*asked)["wrong_labels"] == 0


@pytest.mark.filterwarnings("ignore:1 of 8 rows have no label")
def test_a_label_that_is_not_known_is_not_a_wrong_one(tmp_path, refused, succeeds):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(8, 2)))
    for name, labels in (("given", "aabbaabb"), ("true", "abbbaabb"), ("some", "a bbaabb")):
        (tmp_path / f"{name}.txt").write_text("\n".join(labels).replace(" ", ""))
    asked = ("compare", tmp_path / "x.npy", "-k", 4, "--methods", "random", "--json", "--truth")
    true, some = tmp_path / "true.txt", tmp_path / "some.txt"
    assert "has no label for 1 of the 8 rows" in refused(*asked, some, "--labels", tmp_path / "given.txt")
    assert succeeds(*asked, true, "--labels", tmp_path / "given.txt")["wrong_labels"] == 1 / 8
    assert succeeds(*asked, true, "--labels", some)["wrong_labels"] == 0


def test_a_file_without_rows(tmp_path, refused):
    np.save(tmp_path / "x.npy", np.zeros((0, 3)))
    for command in (["select", "-o", tmp_path / "p.json"], ["compare"]):
        assert "x.npy has no rows" in refused(command[0], tmp_path / "x.npy", "-k", 1, *command[1:])


def test_raw_data_where_embeddings_are_expected(photos, tmp_path, refused):
    line = refused("select", photos, "-k", 3, "-o", tmp_path / "p.json")
    assert "holds images" in line and "gmmatch embed" in line


def test_a_damaged_selection(photos, tmp_path, refused):
    (tmp_path / "picks.json").write_text(json.dumps({"format": "gmmatch-selection"}))
    assert "damaged" in refused("export", tmp_path / "picks.json", photos, "-o", tmp_path / "x")
