"""Hugging Face datasets: loaded, saved, named or streamed, they give what they hold, undecoded."""

from __future__ import annotations

import pytest

from gmmatch.data import ImageBytes, load_image, open_source
from gmmatch.errors import DataFileNotFoundError, InvalidInputError, InvalidTypeError, MissingDependencyError

from .helpers import check_protocol, png, read_all

datasets = pytest.importorskip("datasets")


@pytest.fixture
def images():
    label = datasets.ClassLabel(names=["cat", "dog"])
    features = datasets.Features({"img": datasets.Image(), "label": label, "note": datasets.Value("string")})
    values = [{"bytes": png((i, 0, 0)), "path": None} for i in range(7)]
    columns = {"img": values, "label": [0, 1, 0, 1, 1, 0, 0], "note": [str(i) for i in range(7)]}
    return datasets.Dataset.from_dict(columns, features=features)


def test_images_come_undecoded_with_integer_labels(images):
    source = open_source(images)
    rows, ids, labels = check_protocol(source)
    assert all(isinstance(row, ImageBytes) for row in rows)
    assert [load_image(row).getpixel((0, 0))[0] for row in rows] == list(range(7))
    assert (ids, labels) == (list(range(7)), [0, 1, 0, 1, 1, 0, 0])


def test_the_order_of_a_selected_and_shuffled_dataset_is_kept(images):
    shuffled = images.shuffle(seed=3).select([4, 0, 2])
    rows, ids, labels = check_protocol(open_source(shuffled, id_column="note"))
    assert ids == shuffled["note"][:]
    assert labels == shuffled["label"][:]
    assert [str(load_image(row).getpixel((0, 0))[0]) for row in rows] == ids


def test_a_stream_is_refused(images):
    with pytest.raises(InvalidTypeError, match="stream, whose rows cannot be looked up: load it whole"):
        open_source(images.to_iterable_dataset(num_shards=3))


def test_sounds_are_no_images():
    features = datasets.Features({"audio": datasets.Audio(), "text": datasets.Value("string")})
    dataset = datasets.Dataset.from_dict({"audio": [None], "text": ["a"]}, features=features)
    assert check_protocol(open_source(dataset))[0] == ["a"]


def test_saved_to_disk_with_and_without_splits(images, tmp_path):
    images.save_to_disk(tmp_path / "one")
    rows, ids, labels = check_protocol(open_source(tmp_path / "one"))
    assert [row.data for row in rows] == [row.data for row in read_all(open_source(images))[0]]
    assert (ids, labels) == (list(range(7)), images["label"][:])
    both = datasets.DatasetDict({"train": images, "test": images.select([0])})
    both.save_to_disk(tmp_path / "two")
    for spec in (both, tmp_path / "two"):
        with pytest.raises(InvalidInputError, match=r"several splits \('train', 'test'\)"):
            open_source(spec)
        assert open_source(spec, split="train").n_rows == 7
        assert open_source(spec, split="test").n_rows == 1
        with pytest.raises(InvalidInputError, match=r"split='tset': .*Did you mean 'test'"):
            open_source(spec, split="tset")
    only = datasets.DatasetDict({"train": images})
    assert open_source(only).n_rows == 7
    with pytest.raises(InvalidInputError, match="single split"):
        open_source(images, split="train")


def test_what_we_read_from_parquet_is_what_datasets_reads(images, tmp_path):
    images.to_parquet(tmp_path / "x.parquet")
    rows, ids, labels = check_protocol(open_source(tmp_path / "x.parquet"))
    loaded = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "x.parquet"), cache_dir=tmp_path / "cache"
    )
    theirs = read_all(open_source(loaded))
    assert [row.data for row in rows] == [row.data for row in theirs[0]]
    assert (ids, labels) == theirs[1:]


class TestNames:
    @pytest.fixture
    def hub(self, monkeypatch, images):
        """What `datasets.load_dataset` would be asked for; the hub itself cannot be reached."""
        asked = []

        def load_dataset(name, configuration, *, split):
            asked.append((name, configuration, split))
            data = datasets.DatasetDict({"train": images, "test": images.select([0])})
            return data if split is None else data[split]

        monkeypatch.setattr(datasets, "load_dataset", load_dataset)
        return asked

    def test_what_is_asked_of_the_hub(self, hub):
        assert open_source("hf:uoft-cs/cifar10", split="train").n_rows == 7
        assert open_source("hf:cifar10::plain", split="test").n_rows == 1
        assert hub == [("uoft-cs/cifar10", None, "train"), ("cifar10", "plain", "test")]

    def test_several_splits(self, hub):
        with pytest.raises(InvalidInputError, match="hf:x/y has several splits"):
            open_source("hf:x/y")

    def test_paths_are_never_taken_for_names(self, hub, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        # Nor is the hub asked, which takes 25 seconds without a network.
        outside = (
            "photos/",
            "./photos",
            "/no/photos",
            "a/b/c",
            "x.parquet",
            "~/nowhere",
            "a/b.jsonl",
            "x.png",
        )
        for spec in (*outside, "phtos", "data/phtos"):
            with pytest.raises(DataFileNotFoundError, match="there is no such file"):
                open_source(spec)
        assert hub == []

    def test_an_unknown_name_is_one_line(self, monkeypatch):
        def fail(*_, **__):
            raise ConnectionError("Couldn't reach the hub.\nTry again")

        monkeypatch.setattr(datasets, "load_dataset", fail)
        with pytest.raises(DataFileNotFoundError) as caught:
            open_source("hf:phtos")
        assert str(caught.value).startswith("phtos: there is no such file or folder, and no dataset")
        assert "\n" not in str(caught.value)

    def test_without_the_package(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setitem(__import__("sys").modules, "datasets", None)
        with pytest.raises(MissingDependencyError, match=r"phtos: .*\[vision\]"):
            open_source("hf:phtos")


def test_fingerprints_depend_on_content(images):
    reference = open_source(images).fingerprint()
    again = datasets.Dataset.from_dict(images.to_dict(), features=images.features)
    assert open_source(again).fingerprint() == reference
    changed = [
        open_source(images.select(range(6))),
        open_source(images.select([1, 0, *range(2, 7)])),
        open_source(images, label_column=""),
    ]
    assert len({reference, *(source.fingerprint() for source in changed)}) == 4
