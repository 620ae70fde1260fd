"""Every kind of picture becomes the RGB picture a person would see; folders of them in order, with labels."""

from __future__ import annotations

import io
import os

import numpy as np
import pytest

from gmmatch.data import BrokenImageError, ImageBytes, load_image, open_source
from gmmatch.errors import InvalidInputError, InvalidTypeError

from .helpers import check_protocol, png

Image = pytest.importorskip("PIL.Image")


def encoded(picture, format="PNG", **options):
    buffer = io.BytesIO()
    picture.save(buffer, format=format, **options)
    return ImageBytes(buffer.getvalue(), "it")


def pixels(item):
    picture = load_image(item)
    assert picture.mode == "RGB"
    return np.asarray(picture)


def test_plain_rgb_is_unchanged_from_bytes_path_and_pil(tmp_path):
    values = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    picture = Image.fromarray(values)
    path = tmp_path / "naïve name\n\"quoted\" 'x'.png"
    picture.save(path)
    for item in (encoded(picture), encoded(picture).data, path, str(path), picture):
        np.testing.assert_array_equal(pixels(item), values)


@pytest.mark.parametrize(
    ("rgba", "expected"),
    [
        ((0, 0, 0, 0), (255, 255, 255)),  # a hidden black does not show
        ((200, 100, 0, 255), (200, 100, 0)),
        ((0, 0, 0, 51), (204, 204, 204)),  # a fifth of black on white
    ],
)
def test_transparent_pixels_lie_on_white(rgba, expected):
    np.testing.assert_array_equal(pixels(encoded(Image.new("RGBA", (1, 1), rgba)))[0, 0], expected)


@pytest.mark.parametrize(
    ("picture", "channel"),
    [
        (lambda: Image.fromarray(np.array([[0, 200]], dtype=np.uint8)), [0, 200]),
        (lambda: Image.fromarray(np.array([[True, False]])), [255, 0]),
        (lambda: Image.new("LA", (1, 1), (0, 0)), [255]),
        (lambda: Image.fromarray(np.array([[-100, 50, 100]], dtype=np.int32)), [0, 191, 255]),  # stretched
    ],
    ids=["gray", "one bit", "gray with alpha", "32-bit integers"],
)
def test_one_channel_is_repeated_in_all(picture, channel):
    result = pixels(encoded(picture(), "TIFF"))
    assert result[0].tolist() == [[value] * 3 for value in channel]


def test_palette_gives_its_colours_and_its_transparent_entry_white():
    picture = Image.new("P", (2, 1))
    picture.putpalette([9, 8, 7, 60, 50, 40])
    picture.putpixel((1, 0), 1)
    assert pixels(encoded(picture)).tolist() == [[[9, 8, 7], [60, 50, 40]]]
    assert pixels(encoded(picture, transparency=0)).tolist() == [[[255, 255, 255], [60, 50, 40]]]


def test_cmyk_without_ink_is_white_and_with_black_ink_black():
    for ink, value in (((0, 0, 0, 0), 255), ((0, 0, 0, 255), 0)):
        item = encoded(Image.new("CMYK", (8, 8), ink), "JPEG", quality=100)
        assert np.abs(pixels(item).astype(int) - value).max() <= 2


def test_sixteen_bits_are_scaled_to_eight():
    values = np.array([[0, 257, 32896, 65535, 100, 300]], dtype=np.uint16)
    expected = [0, 1, 128, 255, 0, 1]
    for format in ("PNG", "TIFF"):
        result = pixels(encoded(Image.fromarray(values), format))
        assert result[0, :, 0].tolist() == expected
        assert (result == result[:, :, :1]).all()


def test_floats_within_one_are_taken_as_they_are_and_others_stretched():
    def of(*values):
        picture = Image.fromarray(np.array([values], dtype=np.float32))
        return pixels(encoded(picture, "TIFF"))[0, :, 0].tolist()

    assert of(0.0, 0.2, 1.0) == [0, 51, 255]
    assert of(0.2, 0.2) == [51, 51]
    assert of(-10.0, 0.0, 10.0) == [0, 128, 255]
    assert of(np.nan, 1.0, 0.5) == [0, 255, 128]
    assert of(7.0, 7.0) == [0, 0]


@pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG"])
def test_an_animation_gives_its_first_frame(format):
    frames = [Image.new("RGB", (6, 6), color) for color in ((255, 0, 0), (0, 0, 255))]
    item = encoded(frames[0], format, save_all=True, append_images=frames[1:], lossless=True)
    assert Image.open(io.BytesIO(item.data)).n_frames == 2
    assert pixels(item)[0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_camera_orientation_is_applied(orientation):
    # Left half dark, top row marked; undoing the stored transformation must bring both back.
    upright = np.zeros((4, 6, 3), dtype=np.uint8)
    upright[:, 3:] = 200
    upright[0, 0] = 120
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.swapaxes(0, 1),
        6: np.rot90(upright, 1),
        7: np.rot90(upright.swapaxes(0, 1), 2),
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    item = encoded(Image.fromarray(np.ascontiguousarray(stored)), exif=exif)
    np.testing.assert_array_equal(pixels(item), upright)


def test_damaged_notes_about_a_picture_do_not_break_it():
    item = encoded(Image.new("RGB", (4, 4), (1, 2, 3)), exif=b"Exif\x00\x00garbage that is no EXIF")
    assert pixels(item)[0, 0].tolist() == [1, 2, 3]


def test_the_given_picture_is_not_changed():
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = Image.open(io.BytesIO(encoded(Image.new("RGBA", (4, 2), (1, 2, 3, 4)), exif=exif).data))
    before = (picture.mode, picture.size)
    assert load_image(picture).size == (2, 4)
    assert (picture.mode, picture.size) == before


class TestBroken:
    def test_truncated_files_name_themselves(self, tmp_path):
        noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        for format in ("PNG", "JPEG", "WEBP", "GIF"):
            data = encoded(Image.fromarray(noise), format).data
            path = tmp_path / f"cut.{format.lower()}"
            path.write_bytes(data[: len(data) // 2])
            with pytest.raises(BrokenImageError, match=f"cut.{format.lower()} is not a readable image"):
                load_image(path)

    @pytest.mark.parametrize("data", [b"not an image", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff"])
    def test_garbage_is_one_line_with_the_rows_name(self, data):
        with pytest.raises(BrokenImageError) as caught:
            load_image(ImageBytes(data, "row 7 of x.parquet"))
        assert str(caught.value).startswith("row 7 of x.parquet is not a readable image: ")
        assert "\n" not in str(caught.value)
        assert caught.value.name == "row 7 of x.parquet"

    def test_no_image_at_all(self, tmp_path):
        (tmp_path / "empty.png").touch()
        with pytest.raises(BrokenImageError, match="the file is empty"):
            load_image(tmp_path / "empty.png")
        with pytest.raises(BrokenImageError, match="there is no image"):
            load_image(ImageBytes(b"", "row 3"))
        with pytest.raises(BrokenImageError, match=r"gone\.png is not a readable image: No such file"):
            load_image(tmp_path / "gone.png")

    def test_other_things_are_refused(self):
        with pytest.raises(InvalidTypeError, match="int"):
            load_image(3)


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
def test_the_usual_formats_are_read(format):
    assert pixels(encoded(Image.new("RGB", (4, 3), (200, 0, 0)), format)).shape == (3, 4, 3)


def make(folder, *names):
    for i, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(png((i, 0, 0)))
    return folder


def test_natural_order_and_classes_by_top_folder(image_folder):
    source = open_source(image_folder)
    rows, ids, labels = check_protocol(source)
    assert ids == ["cat/1.png", "cat/b/2.PNG", "dog/img09.png", "dog/img9.png", "dog/img10.png"]
    assert labels == ["cat", "cat", "dog", "dog", "dog"]
    assert [load_image(row).getpixel((0, 0))[0] for row in rows] == [2, 3, 4, 1, 0]
    assert "the sub-folders are the classes (2)" in source.describe()["how"]


def test_without_sub_folders_there_are_no_labels(tmp_path):
    _, ids, labels = check_protocol(open_source(make(tmp_path, "test_1.png", "train_2.png")))
    assert (ids, labels) == (["test_1.png", "train_2.png"], None)


def test_images_beside_the_class_folders_have_no_label(tmp_path):
    source = open_source(make(tmp_path, "a/1.png", "stray.png", "b/2.png"))
    assert list(zip(source.ids, source.labels, strict=True)) == [
        ("a/1.png", "a"),
        ("b/2.png", "b"),
        ("stray.png", None),
    ]
    assert "images in none of them have no label (1)" in source.how


def test_hidden_and_other_files_are_passed_over(tmp_path):
    make(tmp_path, "a/1.png", "a/.2.png", ".git/3.png", "__MACOSX/4.png")
    (tmp_path / "a" / "notes.txt").touch()
    (tmp_path / "Thumbs.db").touch()
    source = open_source(tmp_path)
    assert source.ids == ["a/1.png"]
    assert "other files passed over (2)" in source.how


def test_hostile_names_are_ids_like_any_other(tmp_path):
    names = ["ü ñ/写真.png", "quote\"s/it's.png", "new\nline/a\tb.png", "back\\slash/x.png"]
    _, ids, labels = check_protocol(open_source(make(tmp_path, *names)))
    assert sorted(ids) == sorted(names)
    assert set(labels) == {name.split("/")[0] for name in names}


def test_a_name_that_is_no_valid_text(tmp_path):
    try:
        make(tmp_path, os.fsdecode(b"caf\xe9.png"))
    except OSError:
        pytest.skip("this file system takes valid text only")
    rows, ids, _ = check_protocol(open_source(tmp_path))
    assert os.fsencode(ids[0]) == b"caf\xe9.png"
    assert load_image(rows[0]).size == (4, 3)


def test_links_are_followed_but_not_in_circles(tmp_path):
    make(tmp_path / "real", "1.png")
    (tmp_path / "photos" / "a").mkdir(parents=True)
    (tmp_path / "photos" / "a" / "linked").symlink_to(tmp_path / "real")
    (tmp_path / "photos" / "a" / "loop").symlink_to(tmp_path / "photos")
    (tmp_path / "photos" / "a" / "dangling.png").symlink_to("nowhere")
    assert open_source(tmp_path / "photos").ids == ["a/dangling.png", "a/linked/1.png"]


class TestSplits:
    def test_several_must_be_told_apart(self, tmp_path):
        make(tmp_path, "train/a/1.png", "train/b/2.png", "test/a/3.png")
        with pytest.raises(InvalidInputError, match=r"several splits \('test', 'train'\)"):
            open_source(tmp_path)
        source = open_source(tmp_path, split="train")
        assert (source.ids, source.labels) == (["train/a/1.png", "train/b/2.png"], ["a", "b"])
        with pytest.raises(InvalidInputError, match=r"split='dev': .* has 'test', 'train'"):
            open_source(tmp_path, split="dev")

    def test_a_class_may_be_named_train(self, tmp_path):
        make(tmp_path, "train/1.png", "car/2.png")
        assert open_source(tmp_path).labels == ["car", "train"]


class TestFingerprint:
    def test_depends_on_names_sizes_and_content_only(self, tmp_path):
        first = make(tmp_path / "one", "a/1.png", "a/2.png")
        second = make(tmp_path / "two", "a/1.png", "a/2.png")
        os.utime(second / "a/1.png", (0, 0))
        reference = open_source(first).fingerprint()
        assert open_source(second).fingerprint() == reference
        (second / "a/1.png").write_bytes(png((77, 0, 0)))
        changed = open_source(second).fingerprint()
        make(second, "b/3.png")
        added = open_source(second).fingerprint()
        (first / "a/2.png").rename(first / "a/3.png")
        renamed = open_source(first).fingerprint()
        assert len({reference, changed, added, renamed}) == 4


class TestErrors:
    @pytest.mark.parametrize("arguments", [(0,), (-1,), (1.5,), (True,), (1, -1), (1, "a")])
    def test_batches(self, image_folder, arguments):
        with pytest.raises(InvalidInputError):
            open_source(image_folder).batches(*arguments)
