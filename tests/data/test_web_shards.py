"""WebDataset shards: samples are found as the webdataset package finds them, and cut files are noticed."""

from __future__ import annotations

import pytest

from gmmatch.data import load_image, open_source
from gmmatch.errors import InvalidInputError

from .helpers import check_protocol, png, write_tar


def sample(key, value, label):
    return [(f"{key}.png", png((value, 0, 0))), (f"{key}.cls", str(label).encode())]


def test_images_and_classes_over_several_shards(tmp_path):
    for shard in (10, 9):
        members = [member for i in range(3) for member in sample(f"{shard}-{i}", shard + i, i)]
        write_tar(tmp_path / f"shard-{shard}.tar", members)
    source = open_source(tmp_path)
    rows, ids, labels = check_protocol(source)
    assert ids == [f"{shard}-{i}" for shard in (9, 10) for i in range(3)]
    assert [load_image(row).getpixel((0, 0))[0] for row in rows] == [9, 10, 11, 10, 11, 12]
    assert labels == [0, 1, 2] * 2
    assert "labels in column 'cls'" in source.how
    assert check_protocol(open_source(f"{tmp_path}/shard-*.tar"))[1] == ids


def test_text_and_labels_that_are_words(tmp_path):
    members = [("a/1.txt", "ün\nï".encode()), ("a/1.cls", b" cat \n"), ("a/1.json", b"{}"), ("a/2.txt", b"")]
    path = write_tar(tmp_path / "x.tar", members)
    assert check_protocol(open_source(path)) == (["ün\nï", ""], ["a/1", "a/2"], ["cat", None])


def test_mixed_image_types_are_one_column(tmp_path):
    path = write_tar(
        tmp_path / "x.tar", [("1.png", png((1, 0, 0))), ("2.JPG", png((2, 0, 0))), ("3.txt", b"x")]
    )
    rows, ids, labels = check_protocol(open_source(path))
    assert (ids, labels) == (["1", "2", "3"], None)
    assert [load_image(row).getpixel((0, 0))[0] for row in rows[:2]] == [1, 2]
    assert rows[2].data == b""  # reported as missing when it is loaded
    assert rows[2].name == f"3 of {path}"


def test_members_can_be_named(tmp_path):
    members = [
        ("1.left.png", png((1, 0, 0))),
        ("1.right.png", png((2, 0, 0))),
        ("1.txt", b"note"),
        ("1.tag", b"7"),
    ]
    path = write_tar(tmp_path / "x.tar", members)
    rows, _, labels = check_protocol(open_source(path, image_column="right.png", label_column="tag"))
    assert (load_image(rows[0]).getpixel((0, 0))[0], labels) == (2, [7])
    assert check_protocol(open_source(path, text_column="txt", label_column=""))[0] == ["note"]
    with pytest.raises(InvalidInputError, match="image_column='jpg'"):
        open_source(path, image_column="jpg")
    with pytest.raises(InvalidInputError, match=r"the ids of .* are its keys"):
        open_source(path, id_column="txt")


def test_hidden_files_folders_and_names_without_a_dot_are_passed_over(tmp_path):
    members = [
        ("./.hidden.txt", b"x"),
        ("__x/._1.txt", b"x"),
        ("README", b"x"),
        ("./1.txt", b"a"),
        ("v1.0/2.txt", b"b"),
    ]
    path = write_tar(tmp_path / "x.tar", members)
    assert check_protocol(open_source(path))[:2] == (["a", "b"], ["1", "v1.0/2"])


@pytest.mark.parametrize("suffix", [".tar.gz", ".tgz"])
def test_compressed_shards(tmp_path, suffix):
    path = write_tar(tmp_path / f"x{suffix}", sample("1", 5, 6) + sample("2", 6, 7), mode="w:gz")
    assert check_protocol(open_source(path))[1:] == (["1", "2"], [6, 7])
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(InvalidInputError, match="truncated or damaged"):
        list(open_source(path).batches(1))


def test_what_webdataset_writes_is_read_as_webdataset_reads_it(tmp_path):
    webdataset = pytest.importorskip("webdataset")
    path = str(tmp_path / "x.tar")
    with webdataset.TarWriter(path) as writer:
        for i in range(5):
            writer.write({"__key__": f"a.b/{i:03d}", "png": png((i, 0, 0)), "cls": i, "seg.png": png()})
    theirs = list(webdataset.WebDataset(path, shardshuffle=False))
    rows, ids, labels = check_protocol(open_source(path))
    assert ids == [one["__key__"] for one in theirs]
    assert [row.data for row in rows] == [one["png"] for one in theirs]
    assert labels == [int(one["cls"]) for one in theirs]


class TestErrors:
    def test_every_cut_is_noticed(self, tmp_path):
        path = write_tar(tmp_path / "x.tar", sample("1", 1, 1) + sample("2", 2, 2))
        data = path.read_bytes()
        content_ends = len(data.rstrip(b"\0"))
        for cut in range(0, content_ends + 512, 256):  # within headers, within contents, between members
            path.write_bytes(data[:cut])
            with pytest.raises(
                InvalidInputError, match=r"x\.tar is not a tar file, or is truncated or damaged"
            ):
                list(open_source(path).batches(1))
