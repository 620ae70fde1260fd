"""Whatever is wrong with the input: one clear line, exit code 2, no Python in it, nothing half-written."""

from __future__ import annotations

import errno
import os
import re
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

# A name with a value as Python writes it, or the class of an error. Settings are typed so.
PYTHON = re.compile(r"(?<!--set )(?<!write )(?<![\w.])[a-z_]+=['\"\w(\[]|\w+Error\b|\bNone\b|<class")


@pytest.fixture
def refused_in_words(refused):
    """Run a command that must be refused, in words that are no Python's; return the line."""

    def run(*arguments):
        line = refused(*arguments)
        assert not PYTHON.search(line), line
        return line

    return run


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-k", "0"], "-k"),
        (["-k", "41"], "-k 41"),
        (["-k", "-3"], "-k"),
        (["-k", "110%"], "-k '110%'"),
        (["-k", "many"], "-k 'many'"),
        (["-m", "gm-maching"], "--method 'gm-maching'"),
        (["-m", "by-score"], "scores"),
        (["--set", "normalize=true"], "--set normalize=true"),
        (["--set", "target"], "name=value"),
        (["--set", "target.epss=3"], "Did you mean 'eps'?"),
        (["--set", "target.eps=small"], "--set target.eps=small: expected a number"),
        (["--set", "target=meen"], "Did you mean 'mean'?"),
        (["--set", "k=3"], "use -k"),
        (["--set", "y=3"], "the method has no y"),
        (["--set", "random_state=3"], "use --seed"),
        (["--preprocess", "whiten"], "--preprocess"),
        (["--labels", ""], "'none' for no labels"),
        (["--labels", "kind"], "has no columns"),
        (["--labels", "labels.npy"], "--labels labels.npy: expected a .csv or .parquet table"),
        (["--labels", "missing.csv"], "--labels missing.csv: there is no such file"),
        (["--labels", "few.csv"], "nothing for 38 of the 40 rows"),
        (["--labels", "twice.csv"], "two rows with the id '0'"),
        (["--labels", "nameless.csv"], "has no column 'id'"),
        (["--labels", "few.csv::kind"], "has no column 'kind'"),
        (["--embedding-column", "v"], "--embedding-column 'v'"),
        (["--scores", "few.csv::label"], "--scores few.csv::label"),
        (["--pred-probs", "few.csv"], "--pred-probs few.csv: give a .npy file"),
        (["--pred-probs", "labels.npy"], "--pred-probs"),
        (["--pred-probs", "pipe.npy"], "--pred-probs pipe.npy: give a .npy file"),
        (["--pred-probs", "zip.npy"], "--pred-probs zip.npy: give a .npy file"),
        (["--labels", "pipe.csv"], "--labels pipe.csv: there is no such file"),
        (["--reference", "nowhere.npy"], "nowhere.npy"),
        (["--reference-weight", "3", "--reference", "vectors.npy"], "--reference-weight"),
        (["--reference-weight", "0.5"], "--reference-weight goes with --reference, rows to follow"),
        (["-m", "by-score"], "ranks rows by --scores, your own numbers"),
        (["-k", "trusted"], "give it a screening, or choose --method 'robust'"),
        (["--memory", "lots"], "2GB"),
        (["--memory", "1"], "--memory 1: give an amount such as 2GB"),
        (["--engine", "ray", "--memory", "1GB"], "--memory"),
        (["-o", "picks.txt"], ".parquet or .csv"),
        (["-o", "nowhere/picks.parquet"], "nowhere"),
        (["-o", "vectors.npy"], ".parquet or .csv"),
        (["--map", "tsne"], "--map goes with --report"),
        (["--source", "photos"], "--source goes with --report"),
        (["--report", "picks.txt"], ".html"),
    ],
)
def test_options_of_select_that_cannot_be(
    arguments, expected, vectors, tmp_path, refused_in_words, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    np.save("labels.npy", np.arange(40))
    np.savez("zip.npz", np.eye(3))
    (tmp_path / "zip.npz").rename("zip.npy")
    for name in ("pipe.npy", "pipe.csv"):
        os.mkfifo(name)  # which must not be waited for
    (tmp_path / "few.csv").write_text("id,label\n0,a\n1,b\n")
    (tmp_path / "twice.csv").write_text("id,label\n0,a\n0,b\n")
    (tmp_path / "nameless.csv").write_text("label\na\n")
    asked = ["select", vectors, "-k", 3, "-m", "gm-matching", "-o", "p.parquet", *arguments]
    assert expected in refused_in_words(*asked)
    assert not (tmp_path / "p.parquet").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["k=3"], "'k=3': write -k 3"),
        (["n=3"], "'n=3': write -k 3"),
        (["-k=3"], "'-k=3': write -k 3"),
        (["-k", 3, "seed=1"], "'seed=1': write --seed 1"),
        (["-k", 3, "random_state=1"], "'random_state=1': write --seed 1"),
        (["-k", 3, "labels=y.csv"], "'labels=y.csv': write --labels y.csv"),
        (["-k", 3, "--seed=one"], "'--seed': should be a valid integer"),
        (["-k", 3, "--per-class", "all"], "'--per-class': 'all' is not one of 'proportional'"),
        (["-k", 3, "--methd", "easy"], "--method"),
    ],
)
def test_options_that_are_written_in_another_way(arguments, expected, vectors, gmmatch):
    result = gmmatch("select", vectors, "-o", "-", *arguments)
    assert result.exit_code == 2 and result.stdout == ""
    assert expected in result.stderr and not re.search("Error:.*error|Input|parse", result.stderr)


def test_a_value_with_an_equals_sign_is_not_an_option(tmp_path, gmmatch):
    folder = tmp_path / "labels=2"
    folder.mkdir()
    np.save(folder / "x.npy", np.eye(5))
    assert gmmatch("info", folder / "x.npy").exit_code == 0
    asked = ("select", folder / "x.npy", "-k", 2, "-m", "easy", "--seed=1", "--set", "center=mean", "-o", "-")
    assert gmmatch(*asked).exit_code == 0


def test_what_is_not_there(tmp_path, refused_in_words):
    missing, picks = tmp_path / "nowhere.emb", tmp_path / "no.parquet"
    for command in (
        ["select", missing, "-k", 3, "-o", "-"],
        ["compare", missing, "-k", 3],
        ["info", missing],
    ):
        assert "there is no such" in refused_in_words(*command)
    assert "there is no such" in refused_in_words("embed", missing, "-o", tmp_path / "x.emb")
    for command in (["export", picks, tmp_path, "-o", tmp_path / "x"], ["certify", picks, "-o", "c.html"]):
        assert f"{picks}: there is no such file" in refused_in_words(*command)


def test_rows_that_cannot_be_used(vectors, tmp_path, refused_in_words):
    X = np.load(vectors)
    X[5, 1] = np.nan
    np.save(tmp_path / "nan.npy", X)
    np.save(tmp_path / "empty.npy", X[:0])
    np.save(tmp_path / "flat.npy", X[0])
    (tmp_path / "broken.npy").write_bytes(vectors.read_bytes()[:100])
    for name, expected in (
        ("nan", "The input contains NaN"),
        ("empty", "no rows"),
        ("flat", "shape"),
        ("broken", "damaged"),
    ):
        path = tmp_path / f"{name}.npy"
        assert expected in refused_in_words("select", path, "-k", 3, "-m", "easy", "-o", "-")
        assert expected in refused_in_words("screen", path)
    line = refused_in_words("duplicates", vectors, "--against", tmp_path / "nan.npy")
    assert "--against contains NaN" in line
    (tmp_path / "nameless.csv").write_text("id,label\n" + "".join(f"{row},\n" for row in range(40)))
    line = refused_in_words("select", vectors, "-k", 3, "--labels", tmp_path / "nameless.csv", "-o", "-")
    assert "No row has a label" in line and "leave the labels out" in line
    assert "--sizes 'many' is not an amount" in refused_in_words("curve", vectors, "--sizes", "many")


def test_raw_data_where_embeddings_are_expected(photos, tmp_path, refused_in_words):
    line = refused_in_words("select", photos, "-k", 3, "-o", "-")
    assert "holds images" in line and "gmmatch embed" in line
    (tmp_path / "t.csv").write_text("title,body\na,b\n")
    assert "gmmatch embed" in refused_in_words("select", tmp_path / "t.csv", "-k", 1, "-o", "-")
    pq.write_table(pa.table({"id": ["a"], "boxes": [[[1]]]}), tmp_path / "t.parquet")
    line = refused_in_words("select", tmp_path / "t.parquet", "-k", 1, "-o", "-")
    assert "no column of embeddings, which are lists of numbers" in line


def test_picks_where_rows_are_expected(store, tmp_path, refused_in_words, succeeds):
    picks = tmp_path / "picks.parquet"
    succeeds("select", store, "-k", 4, "-m", "easy", "-o", picks)
    assert "holds picks: give the store" in refused_in_words("select", picks, "-k", 2, "-o", "-")
    succeeds("select", store, "-k", 4, "-o", picks, "--force")  # its numbers could be read as vectors
    assert "holds picks: give the store" in refused_in_words("select", picks, "-k", 2, "-o", "-")
    assert "gmmatch export" in refused_in_words("embed", picks, "-o", tmp_path / "x.emb")


def test_images_and_columns_that_cannot_be_embedded(photos, texts, text_encoder, tmp_path, refused_in_words):
    (tmp_path / "empty").mkdir()
    assert "is empty" in refused_in_words("embed", tmp_path / "empty", "-o", tmp_path / "x.emb")
    arguments = ["embed", texts, "-o", tmp_path / "x.emb", "--encoder", text_encoder]
    line = refused_in_words(*arguments, "--text", "boby")
    assert "--text 'boby'" in line and "Did you mean 'body'?" in line
    assert "--text" in refused_in_words(*arguments)  # three columns of text, and no hint which
    image = photos / "dog" / "7.png"
    image.write_bytes(image.read_bytes()[:60])
    assert "dog/7.png" in refused_in_words("embed", photos, "-o", tmp_path / "x.emb", "-e", "pixels")


def test_without_pillow_the_encoder_of_pixels_names_the_extra(photos, tmp_path, refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert "[vision]" in refused("embed", photos, "-o", tmp_path / "x.emb", "--encoder", "pixels")


def test_stores_that_cannot_be_used(store, photos, tmp_path, refused_in_words, succeeds):
    assert "another encoder" in refused_in_words("embed", photos, "-o", store, "--encoder", "pixels:5x5")
    assert "give it to `gmmatch select`" in refused_in_words("embed", store, "-o", tmp_path / "x.emb")
    assert "lies within" in refused_in_words("embed", photos, "-o", photos / "x.emb", "-e", "pixels")
    from gmmatch.store import StoreWriter

    with StoreWriter(tmp_path / "half.emb", encoder="mine", encoder_fingerprint="1") as writer:
        writer.append(np.eye(3), ids=[0, 1, 2])
    asked = ("select", tmp_path / "half.emb", "-k", 1, "-m", "easy", "-o", "-")
    assert "run the `gmmatch embed`" in refused_in_words(*asked)
    assert succeeds("info", tmp_path / "half.emb", "--json")["complete"] is False
    assert "made by encoder" in refused_in_words(
        "select", store, "-k", 3, "-o", "-", "--exclude-near", _other_store(tmp_path)
    )
    (store / "manifest.json").write_text("{")
    assert "manifest.json" in refused_in_words("select", store, "-k", 3, "-o", "-")


def _other_store(folder):
    from gmmatch.store import StoreWriter

    with StoreWriter(folder / "other.emb", encoder="theirs", encoder_fingerprint="2") as writer:
        writer.append(np.eye(48)[:3], ids=[0, 1, 2])
        writer.finish()
    return folder / "other.emb"


def test_results_never_replace_what_they_are_made_from(
    store, photos, vectors, tmp_path, succeeds, refused_in_words
):
    picks = tmp_path / "picks.parquet"
    succeeds("select", store, "-k", 4, "-m", "easy", "-o", picks)
    assert "exists already" in refused_in_words("select", store, "-k", 4, "-o", picks)
    assert "lies within" in refused_in_words("select", store, "-k", 4, "-o", store / "picks.parquet")
    assert "is also an input" in refused_in_words("export", picks, photos, "-o", picks, "--force")
    assert "lie within each other" in refused_in_words("export", picks, photos, "-o", photos / "x")
    holiday = tmp_path / "holiday"
    holiday.mkdir()
    (holiday / "diary.txt").write_text("dear diary")
    assert "choose another folder" in refused_in_words("export", picks, photos, "-o", holiday, "--force")
    assert (holiday / "diary.txt").read_text() == "dear diary"


def test_a_full_disk_keeps_what_was_there(vectors, tmp_path, refused_in_words, succeeds, monkeypatch):
    picks = tmp_path / "picks.parquet"
    succeeds("select", vectors, "-k", 5, "-m", "easy", "-o", picks)
    before = picks.read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    line = refused_in_words("select", vectors, "-k", 6, "-m", "easy", "-o", picks, "--force")
    assert "No space left" in line and "picks.parquet" in line
    assert picks.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["picks.parquet", "vectors.npy"]


def test_a_damaged_selection(photos, tmp_path, refused_in_words):
    (tmp_path / "picks.parquet").write_bytes(b"PAR1 nothing PAR1")
    assert "damaged" in refused_in_words("export", tmp_path / "picks.parquet", photos, "-o", tmp_path / "x")
