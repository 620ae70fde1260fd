"""clean: what stays, what goes and why; and decisions in every command that takes them."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import gmmatch as gm

N = 400


@pytest.fixture
def folder(tmp_path):
    """400 digits, a fifth of them mislabeled, with copies and a broken file."""
    from PIL import Image
    from sklearn.datasets import load_digits

    random, folder, digits = np.random.default_rng(0), tmp_path / "photos", load_digits()
    truth = digits.target[:N]
    given = np.where(random.random(N) < 0.2, (truth + random.integers(1, 10, N)) % 10, truth)
    for number in range(N):
        pixels = 14 * digits.images[number] + random.integers(0, 20, (8, 8))
        path = folder / f"class {given[number]}" / f"{number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
        if number in np.flatnonzero(truth == given)[:2]:
            Image.fromarray(pixels.astype(np.uint8)).save(path.with_name(f"copy {number}.png"))
    (folder / "class 0" / "broken.png").write_bytes(b"no picture")
    return folder, truth, given


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return {line["id"]: line for line in csv.DictReader(file)}


def names_in(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.png")}


@pytest.fixture
def cleaned(folder, tmp_path, succeeds):
    photos, truth, given = folder
    result = succeeds("clean", photos, "-o", tmp_path / "clean", "--encoder", "pixels:8x8:gray", "--json")
    return photos, truth, given, result


def test_a_folder_loses_what_is_wrong_and_says_why(cleaned, tmp_path):
    photos, truth, given, result = cleaned
    kept, removed = names_in(tmp_path / "clean"), read(tmp_path / "clean" / "removed.csv")
    assert kept | set(removed) == names_in(photos) and not kept & set(removed)
    assert result["n_rows"] == N + 3 == result["n_kept"] + len(removed)
    wrong = {f"class {given[i]}/{i:03}.png" for i in np.flatnonzero(truth != given)}
    mislabeled = {name for name, line in removed.items() if line["why"] == "mislabeled"}
    assert len(mislabeled ^ wrong) <= 0.25 * len(wrong)
    assert all(float(removed[name]["probability"]) > 0.5 for name in mislabeled)
    assert removed["class 0/broken.png"]["why"] == "unreadable"
    copies = {name: line["detail"] for name, line in removed.items() if line["why"] == "duplicate"}
    assert len(copies) == 2 and all(detail.startswith("copy of class") for detail in copies.values())
    assert (tmp_path / "clean" / "report.html").stat().st_size > 10_000
    assert result["counts"] == {
        why: sum(line["why"] == why for line in removed.values()) for why in result["counts"]
    }


def test_relabeled_images_move_and_doubtful_ones_can_go(cleaned, tmp_path, succeeds):
    _, truth, given, result = cleaned
    moved = succeeds(
        "clean", result["store"], "-o", tmp_path / "moved", "--relabel", "--doubtful", "drop", "--json"
    )
    assert moved["n_relabeled"] >= 0.8 * (truth != given).sum()
    assert moved["n_kept"] > result["n_kept"]
    labels = {path.name: path.parent.name for path in (tmp_path / "moved").rglob("*.png")}
    right = [labels[f"{i:03}.png"] == f"class {truth[i]}" for i in range(N) if f"{i:03}.png" in labels]
    assert np.mean(right) > 0.95


def test_a_persons_word_is_final(cleaned, tmp_path, succeeds, refused):
    _, truth, given, result = cleaned
    wrong, right = np.flatnonzero(truth != given)[:3], np.flatnonzero(truth == given)[:3]
    name = {i: f"class {given[i]}/{i:03}.png" for i in [*wrong, *right]}
    answers = [
        gm.Decision(-1, name[wrong[0]], "", "right"),
        gm.Decision(-1, name[wrong[1]], "", "wrong", f"class {truth[wrong[1]]}"),
        gm.Decision(-1, name[right[0]], "", "drop"),
        gm.Decision(-1, name[right[1]], "", "duplicate", keep=name[right[2]]),
    ]
    gm.Decisions(answers).write(tmp_path / "d.csv")
    succeeds("clean", result["store"], "-o", tmp_path / "final", "--decisions", tmp_path / "d.csv")
    kept, removed = names_in(tmp_path / "final"), read(tmp_path / "final" / "removed.csv")
    assert name[wrong[0]] in kept and name[right[2]] in kept
    assert f"class {truth[wrong[1]]}/{wrong[1]:03}.png" in kept
    assert {removed[name[right[i]]]["why"] for i in (0, 1)} == {"decision"}
    # The same word counts in the other commands.
    suspects = succeeds("screen", result["store"], "--decisions", tmp_path / "d.csv", "--json")["indices"]
    ids = gm.open_store(result["store"]).ids
    assert not {decision.id for decision in answers} & set(ids[suspects])
    picks = tmp_path / "p.parquet"
    succeeds("select", result["store"], "-k", "trusted", "--decisions", tmp_path / "d.csv", "-o", picks)
    picked = gm.Selection.load(picks)
    assert name[right[0]] not in picked.ids and {name[wrong[0]], name[wrong[1]]} <= set(picked.ids)
    succeeds("select", result["store"], "-k", 1.0, "-m", "random", "-o", tmp_path / "all.parquet")
    exported = tmp_path / "exported"
    succeeds(
        "export", tmp_path / "all.parquet", cleaned[0], "-o", exported, "--decisions", tmp_path / "d.csv"
    )
    with (exported / "labels.csv").open(newline="") as file:
        lines = {line["file"]: line for line in csv.DictReader(file)}
    assert lines[name[wrong[1]]]["corrected_label"] == f"class {truth[wrong[1]]}"
    assert name[right[0]] not in lines
    (tmp_path / "other.csv").write_text("id,answer\nx.png,drop\n")
    assert "not there" in refused("screen", result["store"], "--decisions", tmp_path / "other.csv")


def test_questions_and_picks_go_to_other_tools_and_their_answers_come_back(
    cleaned, tmp_path, succeeds, refused
):
    photos, _, _, result = cleaned
    store, tasks, decisions = result["store"], tmp_path / "tasks.jsonl", tmp_path / "d.csv"
    succeeds("review", store, "-o", decisions, "--static", tasks, "--tool", "jsonl")
    question = json.loads(tasks.read_text().splitlines()[0])
    tasks.write_text(json.dumps({**question, "answer": "drop"}) + "\n")
    succeeds("clean", store, "-o", tmp_path / "again", "--decisions", tasks)
    assert read(tmp_path / "again" / "removed.csv")[question["id"]]["why"] == "decision"
    succeeds("select", store, "-k", 20, "-o", tmp_path / "p.parquet")
    succeeds("export", tmp_path / "p.parquet", photos, "-o", tmp_path / "samples.json", "--tool", "fiftyone")
    samples = json.loads((tmp_path / "samples.json").read_text())["samples"]
    picked = {str((photos / name).resolve()) for name in gm.Selection.load(tmp_path / "p.parquet").ids}
    assert {sample["filepath"] for sample in samples} == picked and samples[0]["tags"] == ["pick"]
    assert "--static" in refused("review", store, "-o", decisions, "--tool", "argilla")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_rows_of_tables_stay_as_they_are(tmp_path, succeeds, suffix):
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    words = np.array(["cats purr and sleep", "dogs bark at mail", "birds sing and fly"])
    truth = np.arange(150) % 3
    given = np.where(np.arange(150) % 15 == 0, (truth + 1) % 3, truth)
    records = [
        {"key": f"k{i}", "body": f"{words[truth[i]]} {i}", "label": "abc"[given[i]], "more": i}
        for i in range(150)
    ]  # fmt: skip
    path, table = tmp_path / f"rows.{suffix}", pa.Table.from_pylist(records)
    if suffix == "jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    elif suffix == "csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pyarrow.parquet.write_table(table, path)
    output = tmp_path / f"clean.{suffix}"
    result = succeeds(
        "clean", path, "-o", output, "--text", "body", "--id-column", "key", "-e", "words", "--relabel",
        "--doubtful", "drop", "--json",
    )  # fmt: skip
    from gmmatch.data import open_source

    again = open_source(output, text_column="body", id_column="key")
    removed = read(tmp_path / "clean.removed.csv")
    assert set(again.ids) | set(removed) == {record["key"] for record in records}
    assert result["n_kept"] == len(again.ids) and (tmp_path / "clean.report.html").is_file()
    fixed = open_source(output, text_column="body", id_column="key", label_column="corrected_label")
    rows = [int(key[1:]) for key in fixed.ids]
    assert np.mean([label == "abc"[truth[row]] for row, label in zip(rows, fixed.labels, strict=True)]) > 0.97


def test_pictures_that_say_nothing_have_reasons_of_their_own(folder, tmp_path, succeeds, refused):
    from PIL import Image

    photos = folder[0]
    Image.new("L", (8, 8), 99).save(photos / "class 1" / "flat.png")
    succeeds("embed", photos, "-o", tmp_path / "p.emb", "-e", "pixels:8x8:gray", "--on-error", "skip")
    succeeds("screen", tmp_path / "p.emb", "--check-rows", "-o", tmp_path / "suspects.csv")
    line = read(tmp_path / "suspects.csv")["class 1/flat.png"]
    assert (line["verdict"], line["reason"]) == ("wrong", "one color")
    np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=(40, 3)))
    assert "--check-rows" in refused("screen", tmp_path / "v.npy", "--check-rows")


def test_what_cannot_be_cleaned_is_refused_before_the_work(folder, tmp_path, succeeds, refused, vectors):
    photos = folder[0]
    assert "within" in refused("clean", photos, "-o", photos / "clean")
    assert "cannot be exported" in refused("clean", vectors, "-o", tmp_path / "c.npy")
    (tmp_path / "t.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    asked = ("clean", tmp_path / "t.jsonl", "-e", "words", "-o", tmp_path / "c.jsonl", "--link")
    assert "Error: --link is for folders of images" in refused(*asked)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep me")
    assert "gmmatch did not write" in refused("clean", photos, "-o", tmp_path / "mine", "--force")
    succeeds("embed", photos, "-o", tmp_path / "p.emb", "-e", "pixels:8x8:gray", "--on-error", "skip")
    assert "gmmatch did not write" in refused("clean", tmp_path / "p.emb", "-o", tmp_path / "mine", "--force")
    for option in (("-e", "pixels"), ("--text", "body"), ("--label-column", "label")):
        assert "leave them out" in refused("clean", tmp_path / "p.emb", "-o", tmp_path / "c", *option)
    assert "within" in refused("clean", tmp_path / "p.emb", "-o", photos, "--force")
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep me"
