"""What goes into a store comes out of it, and what is wrong with one is said in one line."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gmmatch as gm
from gmmatch.errors import DataFileNotFoundError, GMMatchError, InvalidInputError, InvalidTypeError
from gmmatch.store import Store, StoreWriter, delete_store, open_store
from gmmatch.store.shard import RowTable, write_shard

X = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)


def make(path, rows=X, *, batch=7, labels=None, ids=None, finish=True, **options):
    settings = {"encoder": "clip", "encoder_fingerprint": "f1", "rows_per_shard": 16, **options}
    with StoreWriter(path, **settings) as writer:
        for start in range(0, len(rows), batch):
            part = slice(start, start + batch)
            names = range(len(rows))[part] if ids is None else ids[part]
            writer.append(rows[part], names, None if labels is None else labels[part])
        if finish:
            writer.finish()
    return path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_rows_ids_and_labels_come_back(tmp_path, dtype):
    labels = [["cat", "dög", None][i % 3] for i in range(50)]
    ids = [f"dir {i}/ü\n\"{i}'.png" for i in range(50)]
    store = open_store(make(tmp_path / "x.emb", labels=labels, ids=ids, dtype=dtype), verify=True)
    assert (len(store), store.n_features, store.dtype, store.shape) == (50, 4, np.dtype(dtype), (50, 4))
    assert (store.complete, store.encoder) == (True, "clip")
    np.testing.assert_array_equal(store.to_numpy(), X.astype(dtype))
    assert store.ids.tolist() == ids
    assert store.labels.tolist() == labels
    assert store.source_rows.tolist() == list(range(50))


def test_the_files_are_plain(tmp_path):
    """Shards can be read by PyArrow, and their checksums are those of sha256sum."""
    path = make(tmp_path / "x.emb", labels=list(range(50)))
    shards = [f"shard-{i:06d}-{n:06d}.arrow" for i, n in enumerate((16, 16, 16, 2))]
    assert sorted(contents(path)) == ["dataset_info.json", "manifest.json", *shards, "state.json"]
    with pa.memory_map(str(path / shards[3])) as file:
        table = pa.ipc.open_stream(file).read_all()
    assert table.drop(["vector"]).to_pydict() == {"id": [48, 49], "label": [48, 49], "source_row": [48, 49]}
    assert table["vector"].to_pylist() == X[48:].astype(np.float16).tolist()
    manifest = json.loads((path / "manifest.json").read_text())
    assert [shard["file"] for shard in manifest["shards"]] == shards
    for shard in manifest["shards"]:
        data = (path / shard["file"]).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (shard["size"], shard["sha256"])


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 32])
def test_every_number_of_rows(tmp_path, n):
    store = open_store(make(tmp_path / "x.emb", X[:n], n_features=4), verify=True)
    assert store.shape == store.to_numpy().shape == (n, 4)
    np.testing.assert_array_equal(store.to_numpy(), X[:n].astype(np.float16))
    assert store.ids.shape == store.source_rows.shape == (n,)
    assert bool(store)


def test_provenance_is_kept(tmp_path):
    source = {"format": "image folder", "location": "photos", "n_rows": 50}
    details = {"image_size": 224, "mean": [0.5, 0.5]}
    path = make(tmp_path / "x.emb", source=source, source_fingerprint="s1", encoder_details=details)
    store = open_store(path)
    assert store.source == source
    assert store.manifest.encoder_details == details
    assert (store.manifest.encoder_fingerprint, store.manifest.source_fingerprint) == ("f1", "s1")
    assert "50 rows of 4 by clip" in repr(store)


def test_default_shards_are_of_a_useful_size(tmp_path):
    store = open_store(make(tmp_path / "x.emb", rows_per_shard=None))
    assert store.manifest.rows_per_shard == 2**18
    wide = np.zeros((2, 1280), dtype=np.float32)
    assert open_store(make(tmp_path / "y.emb", wide, rows_per_shard=None)).manifest.rows_per_shard == 16384


label = st.one_of(
    st.none(),
    st.integers(-(2**70), 2**70),
    st.booleans(),
    st.text(st.characters()),  # lone surrogates included: file names can hold them
    st.floats(allow_nan=False),
)


class TestTables:
    @given(data=st.data(), n=st.integers(0, 20))
    def test_any_ids_and_labels_survive_with_their_types(self, tmp_path_factory, data, n):
        kinds = [
            label,
            st.integers(0, 9),
            st.text(max_size=3),
            st.booleans(),
            st.none(),
            st.floats(allow_nan=False),
        ]
        values = st.lists(data.draw(st.sampled_from(kinds)), min_size=n, max_size=n)
        ids = data.draw(
            st.lists(st.integers(-(2**70), 2**70) | st.text(st.characters()), min_size=n, max_size=n)
        )
        table = RowTable(list(range(n)), ids, data.draw(st.none() | values))
        folder = tmp_path_factory.mktemp("shard")
        shard = write_shard(folder, 0, table, np.zeros((n, 2), dtype=np.float16))
        result = shard.read_table(folder)
        assert result == table
        for before, after in ((table.ids, result.ids), (table.labels or [], result.labels or [])):
            assert [type(value) for value in before] == [type(value) for value in after]
        assert write_shard(folder, 0, result, np.zeros((n, 2), dtype=np.float16)) == shard

    def test_types_may_change_from_shard_to_shard(self, tmp_path):
        labels = [1] * 16 + ["a"] * 16 + [None] * 18
        ids = ["x"] * 16 + list(range(34))
        store = open_store(make(tmp_path / "x.emb", labels=labels, ids=ids))
        assert (store.labels.tolist(), store.ids.tolist()) == (labels, ids)

    def test_numbers_are_arrays_of_numbers(self, tmp_path):
        store = open_store(make(tmp_path / "x.emb", labels=np.arange(50, dtype=np.int8), ids=np.arange(50)))
        assert store.labels.dtype == store.ids.dtype == np.int64
        assert open_store(make(tmp_path / "y.emb")).labels is None
        assert open_store(make(tmp_path / "z.emb", labels=[True, False] * 25)).labels.dtype == np.bool_

    @pytest.mark.parametrize("ids", [[None], [1.5], [True], [b"x"]])
    def test_what_is_no_id(self, tmp_path, ids):
        with pytest.raises(InvalidTypeError, match="an id is an integer or a text"):
            make(tmp_path / "x.emb", X[:1], ids=ids)


class TestRefusals:
    def test_rows_that_are_not_finite(self, tmp_path):
        rows = X.copy()
        rows[9, 1] = np.nan
        rows[11, 2] = np.inf
        with pytest.raises(
            InvalidInputError, match=r"NaN or infinity in 2 of 50 rows \(the first has id 9\)"
        ):
            make(tmp_path / "x.emb", rows, batch=50)

    def test_numbers_too_large_for_half_precision(self, tmp_path):
        rows = X * np.where(np.arange(50) == 30, 1e6, 1.0)[:, None]
        with pytest.raises(InvalidInputError, match=r"\(id 30\), which float16 cannot: use dtype='float32'"):
            make(tmp_path / "x.emb", rows)
        assert len(open_store(make(tmp_path / "y.emb", rows, dtype="float32"))) == 50

    def test_a_refused_batch_leaves_no_trace(self, tmp_path):
        make(tmp_path / "a.emb")
        with StoreWriter(
            tmp_path / "b.emb", encoder="clip", encoder_fingerprint="f1", rows_per_shard=16
        ) as writer:
            for bad in (np.full((2, 9), np.nan), np.full((2, 4), 1e9)):
                with pytest.raises(InvalidInputError):
                    writer.append(bad, ["x", "y"], [1, 2])
            writer.append(X, range(50))
            writer.finish()
        assert contents(tmp_path / "a.emb") == contents(tmp_path / "b.emb")

    @pytest.mark.parametrize(
        ("rows", "options", "message"),
        [
            (np.zeros((2, 3)), {}, "rows has 3 features, but .* has 4"),
            (np.zeros(4), {}, r"rows has shape \(4,\)"),
            (np.zeros((1, 0)), {}, "rows has shape"),
            (np.array([["a"] * 4]), {}, "dtype <U1"),
            (X[:2], {"ids": [1]}, "ids has 1 entries for 2 rows"),
            (X[:2], {"labels": [1]}, "labels has 1 entries for 2 rows"),
            (X[:2], {"labels": [1, 2]}, "has no labels: leave them out"),
            (X[:2], {"source_rows": [5, 5]}, "source_rows must be 2 ascending row numbers"),
            (X[:2], {"source_rows": [60]}, "source_rows must be 2 ascending"),
            (X[:2], {"source_rows": [-1, 60]}, "source_rows must be 2 ascending"),
            (X[:2], {"source_rows": [60.5, 61]}, "source_rows must be 2 ascending"),
        ],
    )
    def test_what_does_not_fit(self, tmp_path, rows, options, message):
        with StoreWriter(tmp_path / "x.emb", encoder="clip", encoder_fingerprint="f1") as writer:
            writer.append(X, range(50))
            with pytest.raises(InvalidInputError, match=message):
                writer.append(rows, **{"ids": range(len(rows)), **options})
            assert writer.n_rows == 50

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"dtype": "float64"}, "dtype='float64': give 'float16' or 'float32'"),
            ({"dtype": "half a float"}, "dtype="),
            ({"n_features": 0}, "n_features=0"),
            ({"rows_per_shard": 1.5}, "rows_per_shard=1.5"),
        ],
    )
    def test_settings(self, tmp_path, options, message):
        with pytest.raises(InvalidInputError, match=message):
            StoreWriter(tmp_path / "x.emb", **{"encoder": "clip", "encoder_fingerprint": "f1", **options})
        assert not (tmp_path / "x.emb").exists()

    def test_places(self, tmp_path):
        (tmp_path / "file").touch()
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos" / "holiday.jpg").touch()
        for place, message in (
            ("file", "is a file"),
            ("photos", "is not an embedding store .it holds 'holiday.jpg'"),
            ("no/where.emb", "make it first"),
        ):
            with pytest.raises(GMMatchError, match=message):
                make(tmp_path / place)
        assert contents(tmp_path / "photos").keys() == {"holiday.jpg"}


class TestOpening:
    @pytest.fixture
    def path(self, tmp_path):
        return make(tmp_path / "x.emb", labels=list(range(50)))

    def rewrite(self, path, **changes):
        manifest = json.loads((path / "manifest.json").read_text())
        (path / "manifest.json").write_text(json.dumps({**manifest, **changes}))

    def fails(self, path, message, kind=InvalidInputError, **options):
        with pytest.raises(kind, match=message) as caught:
            open_store(path, **options)
        assert "\n" not in str(caught.value)

    def test_no_store(self, tmp_path):
        self.fails(tmp_path / "gone.emb", "there is no such folder", DataFileNotFoundError)
        self.fails(tmp_path, "is not an embedding store: it has no manifest.json")
        (tmp_path / "file").touch()
        self.fails(tmp_path / "file", "is a file")

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', "\x00", '{"format": "other"}'])
    def test_an_unreadable_manifest(self, path, text):
        (path / "manifest.json").write_text(text)
        self.fails(path, "manifest.json")

    def test_a_newer_format(self, path):
        self.rewrite(path, format_version=3)
        self.fails(path, "newer gmmatch .format 3, not 2.: upgrade")

    @pytest.mark.parametrize(
        "changes",
        [
            {"dtype": "float64"},
            {"rows_per_shard": "16"},
            {"n_features": 0},
            {"shards": None},
            {"shards": [{}]},
            {"encoder": None},
            {"source": []},
            {"source": "photos"},
            {"dtype": "x"},
            {"n_features": "3"},
            {"n_features": True},
            {"n_features": -3},
            {"complete": 1},
            {"encoder_details": []},
        ],
    )
    def test_a_manifest_that_contradicts_itself(self, path, changes):
        """Without a checksum, which finds any change (below)."""
        self.rewrite(path, sha256=None, **changes)
        self.fails(path, "manifest.json is not a manifest")

    def test_a_manifest_cannot_point_elsewhere(self, path):
        manifest = json.loads((path / "manifest.json").read_text())
        manifest["shards"][0]["file"] = "../../secret.arrow"
        self.rewrite(path, shards=manifest["shards"])
        self.fails(path, "its checksum is wrong")
        self.rewrite(
            path, shards=manifest["shards"], sha256=None
        )  # as if by somebody who knows how it is made
        assert open_store(path, verify=True).ids.tolist() == list(range(50))

    def test_a_missing_or_cut_file_is_named(self, path):
        for name in ("shard-000001-000016.arrow", "shard-000003-000002.arrow"):
            data = (path / name).read_bytes()
            (path / name).write_bytes(data[:-1])
            self.fails(path, f"{name} is damaged .it has {len(data) - 1:,} bytes instead of {len(data):,}")
            (path / name).unlink()
            self.fails(path, f"{name} is missing", DataFileNotFoundError)
            (path / name).write_bytes(data)
        open_store(path, verify=True)

    def test_a_changed_byte_is_found_by_verifying_and_by_reading(self, path):
        name = "shard-000001-000016.arrow"
        whole = (path / name).read_bytes()
        first = whole.index(X[16:32].astype(np.float16).tobytes())

        def easy(store):
            return gm.select(store, k=3, method="easy")

        def labels_of(store):
            return store.labels

        for place in (0, 200, first - 30, first, len(whole) - 20, len(whole) - 1):
            data = bytearray(whole)
            data[place] ^= 1
            (path / name).write_bytes(data)
            self.fails(path, f"{name} is damaged .its checksum is wrong", verify=True)
            store = open_store(path)
            for read in [Store.to_numpy, easy, *([labels_of] if place < first else [])]:
                with pytest.raises(InvalidInputError, match=f"{name} is damaged .its checksum is wrong"):
                    read(store)
            assert len(store.to_numpy(np.arange(16))) == 16  # of the shards, each answers for itself
            (path / name).write_bytes(whole)

    @pytest.mark.parametrize("name", ["state.json", "dataset_info.json"])
    def test_a_file_for_other_libraries_is_verified_and_made_again(self, path, name):
        whole = (path / name).read_bytes()
        for contents in (whole.replace(b":", b" :", 1), None):
            (path / name).unlink()
            if contents is not None:
                (path / name).write_bytes(contents)
            self.fails(path, f"{name} is missing or damaged: run the command", verify=True)
            assert open_store(path).ids_of(np.array([3])).tolist() == [3]
            make(path, X[:0])  # nothing is added
            assert (path / name).read_bytes() == whole

    def test_an_incomplete_store_must_be_asked_for(self, tmp_path):
        path = make(tmp_path / "y.emb", finish=False)
        self.fails(path, "is not complete .50 rows so far.")
        store = open_store(path, allow_incomplete=True)
        assert (len(store), store.complete) == (50, False)
        assert "incomplete" in repr(store)


@pytest.mark.parametrize("method", ["gm-matching", "herding", "moderate"])
def test_selecting_from_a_store_is_selecting_from_its_rows(tmp_path, method):
    rows = np.random.default_rng(1).standard_normal((300, 5)).astype(np.float32)
    labels = [i % 3 for i in range(300)]
    store = open_store(make(tmp_path / "x.emb", rows, labels=labels, rows_per_shard=64))
    from_store = gm.select(store, k=40, method=method, random_state=0)
    in_memory = gm.select(rows.astype(np.float16), y=labels, k=40, method=method, random_state=0)
    assert from_store.order.tolist() == in_memory.order.tolist()
    assert from_store.ids.tolist() == store.ids_of(from_store.indices).tolist()
    assert from_store.counts == in_memory.counts


def test_deleting_takes_the_store_and_nothing_else(tmp_path):
    path = make(tmp_path / "x.emb")
    (path / "notes.txt").touch()
    (path / ".gmmatch-manifest.json.tmp").touch()
    delete_store(path)
    assert contents(path).keys() == {"notes.txt"}
    with pytest.raises(InvalidInputError, match="not an embedding store"):
        delete_store(path)
    delete_store(make(tmp_path / "y.emb"))
    assert not (tmp_path / "y.emb").exists()
