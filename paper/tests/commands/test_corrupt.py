"""`gmmatch corrupt`: copies of every kind of source, each with a mask that tells the truth."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from gmmatch.data import open_source
from gmmatch_paper.corruption import GrossCorruption, ImageCorruption, SymmetricNoise, image_kinds

PAPER_FIVE = {"gaussian-noise", "occlusion", "low-resolution", "fog", "motion-blur"}


def mask_of(path: Path) -> dict[str, list]:
    return pq.read_table(path).to_pydict()


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.asarray(picture)


def test_a_folder_of_images_gets_a_copy_in_which_the_masked_ones_are_corrupted(photos, tmp_path, succeeds):
    out = tmp_path / "bad"
    options = ("--kind", "mixture", "--rate", 0.5, "--severity", 4, "--seed", 7)
    facts = succeeds("corrupt", photos, "-o", out, *options, "--json")
    assert (facts["n_rows"], facts["corrupted"], sum(facts["counts"].values())) == (24, 12, 12)
    assert set(facts["counts"]) <= PAPER_FIVE
    mask = mask_of(tmp_path / "bad.mask.parquet")
    assert mask["id"] == list(open_source(photos).ids) == list(open_source(out).ids)
    corruption = ImageCorruption(kind="mixture", rate=0.5, severity=4, seed=7)
    expected = corruption.apply([Image.open(photos / name) for name in mask["id"]])
    assert mask["corrupted"] == expected.mask.tolist()
    assert [kind or "" for kind in mask["kind"]] == expected.kinds.tolist()
    for name, corrupted, picture in zip(mask["id"], mask["corrupted"], expected.data, strict=True):
        if corrupted:
            assert np.array_equal(pixels(out / name), np.asarray(picture))
            assert not np.array_equal(pixels(out / name), pixels(photos / name))
        else:
            assert (out / name).read_bytes() == (photos / name).read_bytes()


@pytest.mark.parametrize("kind", image_kinds())
def test_every_kind_of_image_corruption_can_be_named(kind, photos, tmp_path, succeeds):
    facts = succeeds("corrupt", photos, "-o", tmp_path / "bad", "--kind", kind, "--rate", 1.0, "--json")
    assert facts["corrupted"] == 24
    assert "mixture" in kind or kind == "xia" or facts["counts"] == {kind: 24}


def test_formats_and_gray_images_stay_what_they_were(tmp_path, succeeds):
    folder, out = tmp_path / "photos", tmp_path / "bad"
    folder.mkdir()
    color = np.random.default_rng(0).integers(0, 256, (12, 10, 3), dtype=np.uint8)
    for suffix in (".jpg", ".bmp", ".webp", ".tiff", ".png"):
        Image.fromarray(color).save(folder / f"color{suffix}")
        if suffix != ".webp":  # which knows no gray
            Image.fromarray(color[..., 0]).save(folder / f"gray{suffix}")
    succeeds("corrupt", folder, "-o", out, "--kind", "fog", "--rate", 1.0)
    for path in folder.iterdir():
        with Image.open(path) as before, Image.open(out / path.name) as after:
            assert (before.format, before.mode, before.size) == (after.format, after.mode, after.size)


def test_images_that_stay_can_be_linked(photos, tmp_path, succeeds):
    before = {path: path.read_bytes() for path in photos.rglob("*.png")}
    succeeds("corrupt", photos, "-o", tmp_path / "bad", "--kind", "cutout", "--link")
    mask = mask_of(tmp_path / "bad.mask.parquet")
    for name, corrupted in zip(mask["id"], mask["corrupted"], strict=True):
        assert (tmp_path / "bad" / name).samefile(photos / name) != corrupted
    assert all(path.read_bytes() == content for path, content in before.items())


def test_label_noise_moves_images_to_other_classes(photos, tmp_path, succeeds):
    (photos / "bird").mkdir()
    Image.new("RGB", (5, 5)).save(photos / "bird" / "only.png")
    out = tmp_path / "noisy"
    succeeds("corrupt", photos, "-o", out, "--kind", "symmetric", "--rate", 0.4, "--seed", 1)
    mask, copy = mask_of(tmp_path / "noisy.mask.parquet"), open_source(out)
    copied = dict(zip(copy.ids, copy.labels, strict=True))
    assert dict(zip(mask["id"], mask["label"], strict=True)) == copied
    assert sum(mask["corrupted"]) == 10
    assert sorted(mask["source_id"]) == sorted(open_source(photos).ids)
    for new, old, label, original, moved in zip(
        mask["id"], mask["source_id"], mask["label"], mask["original_label"], mask["corrupted"], strict=True
    ):
        assert (out / new).read_bytes() == (photos / old).read_bytes()
        assert old.split("/")[0] == original and (label != original) == moved == (new != old)


def test_labels_in_parquet(tmp_path, succeeds):
    path, out = tmp_path / "t.parquet", tmp_path / "noisy.parquet"
    schema = pa.schema([("label", pa.int64()), ("note", pa.string())], metadata={"huggingface": "{}"})
    table = pa.Table.from_pylist([{"label": i // 12, "note": f"n{i}"} for i in range(24)], schema=schema)
    pq.write_table(table, path, row_group_size=5)
    succeeds("corrupt", path, "-o", out, "--kind", "pair-flip", "--rate", 0.25)
    before, after = pq.read_table(path), pq.read_table(out)
    assert after.schema.equals(before.schema, check_metadata=True)
    assert after.drop(["label"]).equals(before.drop(["label"]))
    mask = mask_of(tmp_path / "noisy.parquet.mask.parquet")
    assert sum(mask["corrupted"]) == 6
    assert mask["original_label"] == before["label"].to_pylist()
    assert mask["label"] == after["label"].to_pylist()
    assert [a != b for a, b in zip(mask["label"], mask["original_label"], strict=True)] == mask["corrupted"]
    made = json.loads(pq.read_schema(tmp_path / "noisy.parquet.mask.parquet").metadata[b"gmmatch_corruption"])
    assert (made["rate"], made["seed"], made["counts"]) == (0.25, 0, {"pair-flip": 6})


def test_labels_in_json_lines(tmp_path, succeeds):
    path, out = tmp_path / "t.jsonl", tmp_path / "noisy.jsonl"
    lines = [{"text": f"wört {i}", "label": i % 3, "deep": [1, {"a": None}]} for i in range(30)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    succeeds("corrupt", path, "-o", out, "--kind", "symmetric", "--rate", 0.3, "--seed", 2)
    mask = mask_of(tmp_path / "noisy.jsonl.mask.parquet")
    expected = SymmetricNoise(rate=0.3, seed=2).apply([i % 3 for i in range(30)])
    assert mask["corrupted"] == expected.mask.tolist() and mask["label"] == expected.data.tolist()
    after = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert after == [{**line, "label": label} for line, label in zip(lines, mask["label"], strict=True)]


def test_labels_in_csv(tmp_path, succeeds):
    path, out = tmp_path / "t.csv", tmp_path / "noisy.csv"
    rows = [f'"say ""{i}"",\nand more",{"ab"[i % 2]},x{i}\n' for i in range(20)]
    path.write_text("text,label,key\n" + "".join(rows), encoding="utf-8", newline="")
    succeeds("corrupt", path, "-o", out, "--kind", "symmetric", "--rate", 0.25)
    mask = mask_of(tmp_path / "noisy.csv.mask.parquet")
    assert mask["id"] == list(range(20)) and sum(mask["corrupted"]) == 5
    text = out.read_text(encoding="utf-8")
    assert [row["label"] for row in csv.DictReader(io.StringIO(text))] == mask["label"]
    for row, changed in zip(rows, mask["corrupted"], strict=True):
        assert (row in text) != changed


def test_a_transition_matrix(tmp_path, succeeds):
    path, matrix = tmp_path / "t.csv", "matrix=[[0.5, 0.5, 0], [0, 1, 0], [0.2, 0, 0.8]]"
    path.write_text("text,label\n" + "".join(f"w{i},{'abc'[i % 3]}\n" for i in range(30)))
    succeeds("corrupt", path, "-o", tmp_path / "n.csv", "--kind", "transition", "--set", matrix)
    mask = mask_of(tmp_path / "n.csv.mask.parquet")
    pairs = Counter(zip(mask["original_label"], mask["label"], strict=True))
    assert pairs == {("a", "a"): 5, ("a", "b"): 5, ("b", "b"): 10, ("c", "a"): 2, ("c", "c"): 8}


def test_vectors_in_npy(vectors, tmp_path, succeeds):
    out = tmp_path / "bad.npy"
    succeeds("corrupt", vectors, "-o", out, "--kind", "far-cluster", "--rate", 0.4, "--seed", 3)
    expected = GrossCorruption(rate=0.4, seed=3).apply(np.load(vectors))
    assert np.array_equal(np.load(out), expected.data) and np.load(out).dtype == np.float32
    assert mask_of(tmp_path / "bad.npy.mask.parquet")["corrupted"] == expected.mask.tolist()


def test_one_row_moves_the_mean(vectors, tmp_path, succeeds):
    target = "target=[100.0, -5.0, 3.0]"
    succeeds("corrupt", vectors, "-o", tmp_path / "bad.npy", "--kind", "mean-attack", "--set", target)
    bad = np.load(tmp_path / "bad.npy")
    assert bad.mean(axis=0) == pytest.approx([100.0, -5.0, 3.0], rel=1e-5)
    assert (bad != np.load(vectors)).any(axis=1).sum() == 1
    assert sum(mask_of(tmp_path / "bad.npy.mask.parquet")["corrupted"]) == 1


def test_vectors_in_parquet(tmp_path, succeeds):
    path, rows = tmp_path / "x.parquet", np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    pq.write_table(pa.table({"embedding": rows.tolist(), "label": [0, 1] * 15}), path, row_group_size=7)
    succeeds("corrupt", path, "-o", tmp_path / "bad.parquet", "--kind", "heavy-tail", "--rate", 0.5)
    before, after = pq.read_table(path), pq.read_table(tmp_path / "bad.parquet")
    assert after.schema.equals(before.schema) and after["label"].equals(before["label"])
    changed = [
        old != new
        for old, new in zip(before["embedding"].to_pylist(), after["embedding"].to_pylist(), strict=True)
    ]
    assert sum(changed) == 15 and mask_of(tmp_path / "bad.parquet.mask.parquet")["corrupted"] == changed


def test_the_mask_is_what_compare_calls_the_truth(tmp_path, succeeds):
    path, noisy = tmp_path / "x.parquet", tmp_path / "n.parquet"
    labels = np.repeat([0, 1], 20)
    rows = np.random.default_rng(0).normal(size=(40, 3)) + 9.0 * labels[:, None]
    pq.write_table(pa.table({"embedding": rows.tolist(), "label": labels}), path)
    succeeds("corrupt", path, "-o", noisy, "--kind", "symmetric", "--rate", 0.25)
    truth = f"{tmp_path / 'n.parquet.mask.parquet'}::original_label"
    facts = succeeds("compare", noisy, "-k", 40, "--methods", "random", "--truth", truth, "--json")
    assert facts["wrong_labels"] == facts["rows"][0]["contamination"] == 0.25


def test_nothing_is_overwritten_without_force(photos, vectors, tmp_path, succeeds, refused):
    for source, out in ((photos, tmp_path / "bad"), (vectors, tmp_path / "bad.npy")):
        options = ("-o", out, "--kind", "fog" if source == photos else "shell")
        succeeds("corrupt", source, *options)
        mask = tmp_path / f"{out.name}.mask.parquet"
        before = mask.read_bytes()
        assert "--force" in refused("corrupt", source, *options)
        shutil.rmtree(out) if out.is_dir() else out.unlink()
        assert "mask.parquet exists already" in refused("corrupt", source, *options)
        assert not out.exists()
        succeeds("corrupt", source, *options, "--seed", 5, "--force")
        assert mask.read_bytes() != before


def test_a_broken_image_leaves_nothing_behind(photos, tmp_path, refused):
    (photos / "cat" / "3.png").write_bytes(b"no image")
    line = refused("corrupt", photos, "-o", tmp_path / "bad", "--kind", "fog", "--rate", 1.0)
    assert "cat/3.png" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{photos}", "-o", "bad", "--kind", "fogg"], "Did you mean 'fog'"),
        (["{vectors}", "-o", "bad.npy", "--kind", "fog"], "for images"),
        (["{photos}", "-o", "bad", "--kind", "shell"], "for vectors"),
        (["{vectors}", "-o", "bad.npy", "--kind", "symmetric"], "is not .parquet or .csv or .jsonl"),
        (["texts.jsonl", "-o", "bad.jsonl", "--kind", "symmetric"], "--column"),
        (["{vectors}", "-o", "bad.csv", "--kind", "shell"], "end it in .npy"),
        (["{vectors}", "-o", "{vectors}", "--kind", "shell", "--force"], "source itself"),
        (["{photos}", "-o", "{photos}/bad", "--kind", "fog"], "lie within"),
        (["{photos}", "-o", "nowhere/bad", "--kind", "fog"], "no folder nowhere"),
        (["{photos}", "-o", "bad", "--kind", "symmetric", "--severity", "3"], "--severity 3"),
        (["{vectors}", "-o", "bad.npy", "--kind", "mean-attack", "--rate", "0.1"], "--rate 0.1"),
        (["{photos}", "-o", "bad", "--kind", "transition"], "--set matrix="),
        (["{photos}", "-o", "bad", "--kind", "fog", "--set", "colour=1"], "it has 'opacities'"),
        (["{photos}", "-o", "bad", "--kind", "mixture", "--set", "fill=black"], "no settings"),
        (["{photos}", "-o", "bad", "--kind", "occlusion", "--set", "fill=white"], "fill='white'"),
        (["{photos}", "-o", "bad", "--kind", "fog", "--set", "opacities=(0.1,)"], "five settings"),
        (
            ["{vectors}", "-o", "bad.npy", "--kind", "far-cluster", "--set", "distance=far"],
            "expected a number",
        ),
        (["{vectors}", "-o", "bad.npy", "--kind", "shell", "--link"], "--link"),
        (["nowhere/", "-o", "bad", "--kind", "fog"], "no such file"),
    ],
)
def test_what_cannot_be_done_is_one_line(arguments, message, photos, vectors, tmp_path, refused, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("texts.jsonl").write_text('{"key": 1, "body": "word"}\n')
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    names = {"photos": photos, "vectors": vectors}
    assert message in refused("corrupt", *(argument.format(**names) for argument in arguments))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_formats_that_cannot_be_written_are_refused_before_the_work(photos, tmp_path, refused):
    Image.new("P", (4, 4)).save(photos / "cat" / "moving.gif")
    line = refused("corrupt", photos, "-o", tmp_path / "bad", "--kind", "fog", "--rate", 1.0)
    assert "moving.gif" in line and ".png" in line


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", "", "is empty"),
        ("t.csv", "text,label\na,b,c\n", "more values than the header"),
        ("t.jsonl", "not json\n", "not a .jsonl file"),
        ("t.jsonl", "[1]\n", "not a .jsonl file"),
        ("t.parquet", "nothing of the kind", "not a .parquet file"),
    ],
)
def test_a_damaged_file_is_one_line_and_leaves_nothing(name, content, words, tmp_path, refused):
    (tmp_path / name).write_text(content)
    line = refused("corrupt", tmp_path / name, "-o", tmp_path / f"n{name}", "--kind", "symmetric")
    assert words in line and sorted(path.name for path in tmp_path.iterdir()) == [name]
