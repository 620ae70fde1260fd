"""Pictures and texts are found wherever they lie, and what cannot be shown says so."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gmmatch as gm
from gmmatch.data import open_source
from gmmatch.errors import InvalidInputError
from gmmatch.report.content import open_contents

from .conftest import blobs


def color_of(address: str) -> tuple[int, ...]:
    import base64

    picture = Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))).convert("RGB")
    return picture.getpixel((picture.width // 2, picture.height // 2))


def png(shade: int, side: int = 60) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (side, side), (shade, shade, shade)).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def folder(tmp_path) -> Path:
    """300 gray pictures, each of its own shade modulo 256, in natural order."""
    place = tmp_path / "photos"
    place.mkdir()
    for i in range(300):
        (place / f"{i}.png").write_bytes(png(i % 256, 8))
    return place


def test_rows_of_an_image_folder_are_their_files(folder):
    found = open_contents(folder, 300).fetch(np.array([255, 3, 299, 3]))
    assert sorted(found) == [3, 255, 299]
    assert color_of(found[255].value) == (255, 255, 255) and color_of(found[3].value) == (3, 3, 3)
    assert color_of(found[299].value) == (299 - 256,) * 3


def test_rows_that_were_not_embedded_are_stepped_over(folder):
    embedded = np.setdiff1d(np.arange(300), [0, 5])
    found = open_contents(open_source(folder), 298, embedded).fetch(np.array([0, 4, 297]))
    assert [color_of(found[row].value)[0] for row in (0, 4, 297)] == [1, 6, 299 - 256]


def test_rows_of_parquet_files_are_found_across_row_groups_and_files(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [f"text {i}" for i in range(9000)]
    for part in (0, 1):
        table = pa.table({"text": texts[part * 4500 : (part + 1) * 4500]})
        pq.write_table(table, tmp_path / f"part-{part}.parquet", row_group_size=700)
    wanted = np.array([0, 1, 65, 699, 700, 4499, 4500, 8999])
    found = open_contents(str(tmp_path / "part-*.parquet"), 9000).fetch(wanted)
    assert {row: one.value for row, one in found.items()} == {row: texts[row] for row in wanted.tolist()}


@pytest.mark.slow
def test_hugging_face_datasets_and_torch_datasets_are_sources():
    datasets = pytest.importorskip("datasets", reason="needs the extra gmmatch[vision]")
    torch = pytest.importorskip("torch", reason="needs the extra gmmatch[torch]")
    loaded = datasets.Dataset.from_dict({"text": ["zero", "one", "two"]})
    assert open_contents(loaded, 3).fetch(np.array([2]))[2].value == "two"
    images = torch.stack([torch.full((3, 50, 50), shade / 255) for shade in (0.0, 128.0, 255.0)])
    pairs = torch.utils.data.TensorDataset(images, torch.arange(3))
    assert color_of(open_contents(pairs, 3).fetch(np.array([1]))[1].value) == pytest.approx((128,) * 3, abs=2)


@pytest.mark.parametrize(
    ("item", "color"),
    [
        (np.full((60, 60, 3), 200, dtype=np.uint8), 200),
        (np.full((3, 60, 60), 200, dtype=np.uint8), 200),
        (np.full((60, 60), 200, dtype=np.uint8), 200),
        (np.full((60, 60, 1), 200, dtype=np.uint8), 200),
        (np.full((60, 60, 4), 200, dtype=np.uint8), 200),
        (np.full((60, 60), 0.5), 128),
        (np.full((60, 60), 77, dtype=np.int64), 77),
        (np.where(np.arange(60)[:, None] < 20, -3.0, 9.0) * np.ones((60, 60)), 255),
        (np.full((60, 60), np.nan), 0),
        (np.ones((60, 60), dtype=bool), 255),
        (png(90), 90),
        (Image.new("L", (60, 60), 90), 90),
        (Image.new("RGBA", (60, 60), (0, 0, 0, 0)), 255),
    ],
)
def test_pictures_of_any_form_have_their_colors(item, color):
    found = open_contents([item], 1).fetch(np.array([0]))[0]
    assert found.kind == "image"
    assert color_of(found.value) == pytest.approx((color,) * 3, abs=2)


@pytest.mark.parametrize(
    "item",
    [
        b"",
        b"no picture",
        Path("nowhere.png"),
        np.zeros(7),
        np.zeros((5, 5, 6)),
        np.array([["a"]]),
        object(),
        None,
    ],
)
def test_what_cannot_be_shown_says_so_and_harms_no_other(item):
    found = open_contents([item, "fine"], 2).fetch(np.array([0, 1]))
    assert found[0].kind == "broken" and found[0].value
    assert found[1].value == "fine"


def test_a_dataset_that_fails_at_one_row_loses_that_row_only():
    class Failing:
        def __len__(self):
            return 3

        def __getitem__(self, row):
            if row == 1:
                raise OSError("the disk is gone")
            return f"text {row}"

    torch = pytest.importorskip("torch", reason="needs the extra gmmatch[torch]")
    dataset = type("Rows", (Failing, torch.utils.data.Dataset), {})()
    found = open_contents(dataset, 3).fetch(np.array([0, 1, 2]))
    assert [found[row].kind for row in range(3)] == ["text", "broken", "text"]
    assert "the disk is gone" in found[1].value


def test_vectors_are_nothing_to_look_at(page_of):
    X, _ = blobs(12)
    assert open_contents(open_source(X), 12) is None
    page = page_of(gm.Easy(k=2).select(X), X, source=open_source(X))
    assert page.data()["contents"] == {}


def test_small_pictures_take_few_bytes_and_drawings_are_kept_pixel_by_pixel():
    random = np.random.default_rng(0)
    drawing = np.kron(random.integers(0, 2, (7, 7), dtype=np.uint8) * 255, np.ones((4, 4), dtype=np.uint8))
    photograph = (np.linspace(0, 200, 32)[:, None, None] + random.normal(20, 12, (32, 32, 3))).clip(0, 255)
    found = open_contents([drawing, photograph.astype(np.uint8)], 2).fetch(np.arange(2))
    kept, small = (base64.b64decode(found[row].value.partition(",")[2]) for row in (0, 1))
    assert (np.asarray(Image.open(io.BytesIO(kept)).convert("L")) == drawing).all() and len(small) < 1_500


def test_a_source_of_another_length_is_refused(folder):
    with pytest.raises(InvalidInputError, match="has 300 rows, but there are 299 to show"):
        open_contents(folder, 299)
    with pytest.raises(InvalidInputError, match="source has 2 rows"):
        open_contents(["a", "b"], 3)


def test_the_page_holds_texts_for_its_galleries_and_a_sample_of_the_map(page_of):
    X, y = blobs(2000)
    selection = gm.Easy(k=800, random_state=0).select(X, y)
    page = page_of(selection, X, y, source=[f"text {i}" for i in range(2000)])
    held = {int(at) for at in page.data()["contents"]}
    on_cards = {int(attrs["data-at"]) for attrs, _ in page.all("button") if "data-at" in attrs}
    assert on_cards and on_cards <= held
    assert 600 <= len(held) <= 600 + len(on_cards)
    assert len(held & set(selection.indices.tolist())) >= 300  # half of the sample are picks
    assert f"{len(held)} texts" in page.words()
