"""Image folders: which files, in which order, with which labels."""

from __future__ import annotations

import os

import pytest

from gmmatch.data import load_image, open_source
from gmmatch.errors import InvalidInputError

from .helpers import check_protocol, png


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
