"""Stores of gmmatch 0.2: pairs of a .npy and a Parquet file. ``old.emb`` was written by that version's code."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.cli.info import describe_path
from gmmatch.data.arrays import ArraySource
from gmmatch.encoders import load_encoder
from gmmatch.errors import InvalidInputError, UnlabeledRowsWarning
from gmmatch.store import StoreWriter, delete_store, open_store
from gmmatch.store.run import embed

X = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
NAMES = [f"shard-{first:012d}-{stop:012d}" for first, stop in ((0, 32), (32, 50))]


@pytest.fixture
def path(tmp_path):
    shutil.copytree(Path(__file__).parent / "old.emb", tmp_path / "old.emb")
    return tmp_path / "old.emb"


def test_it_is_read(path):
    store = open_store(path, verify=True)
    assert np.array_equal(store.to_numpy(), X)
    assert store.ids.tolist() == [f"photo {row}.png" for row in range(50)]
    assert store.labels.tolist() == [["cat", "dog", None][row % 3] for row in range(50)]
    assert store.source_rows.tolist() == list(range(50))
    with pytest.warns(UnlabeledRowsWarning):
        picks = gm.select(store, k=10, method="gm-matching")
    with pytest.warns(UnlabeledRowsWarning):
        assert picks.order.tolist() == gm.select(X, store.labels, k=10, method="gm-matching").order.tolist()


def test_info_says_that_it_is_old(path, tmp_path):
    assert "gmmatch 0.2" in describe_path(str(path))["format"]
    embed(ArraySource(X), load_encoder("identity"), tmp_path / "new.emb")
    assert "Arrow" in describe_path(str(tmp_path / "new.emb"))["format"]


@pytest.mark.parametrize("name", [f"{NAMES[1]}.npy", f"{NAMES[0]}.parquet"])
def test_a_changed_byte_is_noticed(path, name):
    data = bytearray((path / name).read_bytes())
    data[-20] ^= 1
    (path / name).write_bytes(data)
    with pytest.raises(InvalidInputError, match=f"{name} is damaged .its checksum is wrong"):
        open_store(path, verify=True)
    store = open_store(path)
    with pytest.raises(InvalidInputError, match=f"{name} is damaged .its checksum is wrong"):
        store.to_numpy() if name.endswith("npy") else store.ids


def test_it_is_not_continued_but_replaced_or_deleted(path):
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    with pytest.raises(InvalidInputError, match=r"of the format of gmmatch 0\.2.*another folder.*--force"):
        StoreWriter(path, encoder="clip", encoder_fingerprint="f1")
    with pytest.raises(InvalidInputError, match=r"of the format of gmmatch 0\.2"):
        embed(ArraySource(X), load_encoder("identity"), path)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    delete_store(path)
    assert not path.exists()
