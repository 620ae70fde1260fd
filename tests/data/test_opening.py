"""What open_source recognises, that it reads a batch at a time, and checks of pictures and texts."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest

from gmmatch.data import open_source
from gmmatch.data.checks import check_rows

from .helpers import png, write_tar


def test_a_source_is_returned_as_it_is():
    source = open_source(np.zeros((2, 2)))
    assert open_source(source) is source

    class Mine:
        batches = describe = fingerprint = None

        @property
        def ids(self):
            raise AssertionError("reading was not asked for")

    mine = Mine()
    assert open_source(mine) is mine


def test_a_table_beside_images_is_a_note_about_them(tmp_path):
    (tmp_path / "1.png").write_bytes(png())
    (tmp_path / "metadata.csv").write_text("text\na\n")
    assert open_source(tmp_path).kind == "image"


def test_marks_of_a_pattern_in_a_name_that_exists(tmp_path):
    for name in ("a[1].csv", "what?.csv", "a::b.csv"):
        (tmp_path / name).write_text("text\na\n")
        assert open_source(tmp_path / name).n_rows == 1


def test_descriptions_can_be_written_as_json(tmp_path, image_folder):
    np.save(tmp_path / "x.npy", np.zeros((2, 2)))
    for spec in (image_folder, tmp_path / "x.npy"):
        source = open_source(spec)
        description = source.describe()
        assert json.loads(json.dumps(description)) == description
        assert description["location"] == str(spec)
        assert description["n_rows"] == len(source)
        assert str(spec) in repr(source)


def test_each_odd_picture_has_its_reason(tmp_path):
    from PIL import Image, ImageFilter
    from sklearn.datasets import load_sample_image

    photo, random = Image.fromarray(load_sample_image("china.jpg")), np.random.default_rng(0)
    crops = [photo.crop((x, y, x + 120, y + 120)) for x, y in random.integers(0, 300, (20, 2)).tolist()]
    for number, crop in enumerate(crops):
        crop.save(tmp_path / f"fine {number:02}.png")
    Image.new("RGB", (120, 120), (10, 200, 90)).save(tmp_path / "one color.png")
    Image.fromarray(random.integers(0, 256, (120, 120, 3)).astype(np.uint8)).save(tmp_path / "noise.png")
    crops[0].point(lambda value: value // 5).save(tmp_path / "dark.png")
    crops[1].point(lambda value: 244 + value // 23).save(tmp_path / "bright.png")
    crops[2].filter(ImageFilter.GaussianBlur(8)).save(tmp_path / "blurry.png")
    photo.resize((1200, 1000)).save(tmp_path / "odd size.png")
    photo.crop((0, 0, 400, 60)).save(tmp_path / "odd shape.png")
    (tmp_path / "unreadable.png").write_bytes(b"no picture")
    source = open_source(tmp_path)
    reasons = dict(zip([name.removesuffix(".png") for name in source.ids], check_rows(source), strict=True))
    odd = {name: reason for name, reason in reasons.items() if reason}
    assert odd == {
        name: name for name in ("one color", "noise", "dark", "bright", "blurry", "odd size", "odd shape")
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "empty"), ("   ", "empty"), ("a", "short"), ("word " * 800, "long"),
     ("слова на другом языке", "other script"),
     ("twelve ordinary words, as all of the other texts have them", ""), ("1234 5678 9012 3456 7890", "")],
)  # fmt: skip
def test_each_odd_text_has_its_reason(tmp_path, text, reason):
    texts = [f"an ordinary sentence with the number {i * 37} in it" for i in range(30)]
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": line}) + "\n" for line in [*texts, text]), encoding="utf-8")
    assert check_rows(open_source(path, text_column="text")).tolist() == [""] * 30 + [reason]


def test_photographs_of_a_dataset_are_hardly_ever_odd(tmp_path):
    from PIL import Image
    from sklearn.datasets import load_sample_image

    random = np.random.default_rng(1)
    for name in ("china.jpg", "flower.jpg"):
        photo = Image.fromarray(load_sample_image(name))
        for number, (x, y) in enumerate(random.integers(0, 300, (40, 2)).tolist()):
            photo.crop((x, y, x + 100, y + 100)).save(tmp_path / f"{name}{number}.jpg", quality=85)
    assert np.mean(check_rows(open_source(tmp_path)) != "") < 0.05


VECTORS = np.ones((20_000, 128), dtype=np.float32)  # 10 MB
TEXTS = [f"{i:04d}" * 500 for i in range(4000)]  # 8 MB


def write_safetensors(path):
    pytest.importorskip("safetensors.numpy").save_file({"x": VECTORS}, path)


FORMATS = {
    "x.npy": lambda path: np.save(path, VECTORS),
    "x.safetensors": write_safetensors,
    "x.csv": lambda path: path.write_text("\n".join(["text", *TEXTS])),
    "x.jsonl": lambda path: path.write_text("\n".join(json.dumps({"text": text}) for text in TEXTS)),
    "x.tar": lambda path: write_tar(path, ((f"{i}.txt", text.encode()) for i, text in enumerate(TEXTS))),
}


@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_streamed_not_loaded(tmp_path, name):
    FORMATS[name](tmp_path / name)
    tracemalloc.start()
    try:
        source = open_source(tmp_path / name)
        count = sum(len(batch) for batch in source.batches(16, start=100))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == len(source) - 100
    assert peak < (1_000_000 if isinstance(next(source.batches(1)).rows[0], str) else 1_500_000)
