"""Arrays in memory and in files: exact values, types kept, files mapped instead of loaded."""

from __future__ import annotations

import numpy as np
import pytest

from gmmatch.data import open_source
from gmmatch.data.arrays import ArraySource
from gmmatch.data.files import fingerprint_of
from gmmatch.errors import InvalidInputError, InvalidTypeError

from .helpers import check_protocol

safetensors = pytest.importorskip("safetensors.numpy")

X = np.random.default_rng(0).standard_normal((7, 3))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u2", "i8", "?"])
def test_memory_and_every_file_give_the_same_rows_of_the_same_type(tmp_path, dtype):
    array = (X * 10).astype(dtype)
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "x.npz", x=array)
    np.savez_compressed(tmp_path / "c.npz", x=array)
    safetensors.save_file({"x": array}, tmp_path / "x.safetensors")
    specs = [array, tmp_path / "x.npy", tmp_path / "x.npz", tmp_path / "c.npz", tmp_path / "x.safetensors"]
    for spec in specs:
        source = open_source(spec)
        rows, ids, labels = check_protocol(source)
        assert source.kind == "embedding"
        np.testing.assert_array_equal(np.stack(rows), array)
        assert rows[0].dtype == array.dtype
        assert (ids, labels) == (list(range(7)), None)
        assert source.n_features == 3


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16", "int32"])
def test_tensors(torch, dtype):
    tensor = (torch.from_numpy(X) * 10).to(getattr(torch, dtype)).requires_grad_("float" in dtype)
    rows, _, _ = check_protocol(open_source(tensor))
    np.testing.assert_array_equal(np.stack(rows), tensor.detach().double().numpy())


def test_bfloat16_in_a_safetensors_file(torch, tmp_path):
    from safetensors.torch import save_file

    tensor = torch.from_numpy(X).to(torch.bfloat16)
    save_file({"x": tensor}, tmp_path / "x.safetensors")
    source = open_source(tmp_path / "x.safetensors")
    rows, _, _ = check_protocol(source)
    assert (source.is_bfloat16, source.array.dtype, rows[0].dtype) == (True, np.uint16, np.float32)
    np.testing.assert_array_equal(np.stack(rows), tensor.float().numpy())


def test_fortran_order(tmp_path):
    array = np.asfortranarray(X)
    np.save(tmp_path / "x.npy", array)
    np.testing.assert_array_equal(np.stack(check_protocol(open_source(tmp_path / "x.npy"))[0]), X)
    np.savez(tmp_path / "x.npz", x=array)
    np.testing.assert_array_equal(np.stack(check_protocol(open_source(tmp_path / "x.npz"))[0]), X)


def test_one_row_and_no_rows(tmp_path):
    for n in (0, 1):
        array = X[:n]
        np.save(tmp_path / "x.npy", array)
        np.savez(tmp_path / "x.npz", array)
        safetensors.save_file({"x": array}, tmp_path / "x.safetensors")
        for spec in (array, tmp_path / "x.npy", tmp_path / "x.npz", tmp_path / "x.safetensors"):
            assert len(check_protocol(open_source(spec))[0]) == n


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
class TestMembers:
    @pytest.fixture
    def path(self, tmp_path, suffix):
        arrays = {
            "train": X,
            "test": X[:4] * 2,
            "label": np.array([3, 1, 2, 1, 0, 5, 6]),
            "label4": np.array([9, 8, 7, 6]),
            "deep": np.zeros((2, 2, 2)),
        }
        path = tmp_path / f"my arrays.{suffix}"
        if suffix == "npz":
            np.savez(path, **arrays)
        else:
            safetensors.save_file(arrays, path)
        return path

    def test_an_array_is_named_like_a_column(self, path):
        rows, _, labels = check_protocol(open_source(path, embedding_column="train"))
        np.testing.assert_array_equal(np.stack(rows), X)
        assert labels == [3, 1, 2, 1, 0, 5, 6]
        source = open_source(path, embedding_column="test", label_column="label4", id_column="label4")
        rows, ids, labels = check_protocol(source)
        np.testing.assert_array_equal(np.stack(rows), X[:4] * 2)
        assert ids == labels == [9, 8, 7, 6]
        assert source.location == str(path)

    def test_labels_of_another_length_are_not_taken_by_themselves(self, path):
        assert open_source(path, embedding_column="test").labels is None
        with pytest.raises(InvalidInputError, match="label_column='label'"):
            open_source(path, embedding_column="test", label_column="label")

    def test_a_member_that_is_not_there(self, path):
        with pytest.raises(InvalidInputError, match=r"'trian'.*Did you mean 'train'\?"):
            open_source(path, embedding_column="trian")
        with pytest.raises(InvalidInputError, match="'deep'"):
            open_source(path, embedding_column="deep")


def test_text_labels_in_an_npz(tmp_path):
    np.savez(tmp_path / "x.npz", x=X[:2], label=np.array(["cat", "dög"]))
    assert open_source(tmp_path / "x.npz").labels == ["cat", "dög"]


def test_objects_in_an_npz_are_refused_by_name(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.eye(2), label=np.array(["a", "b"], dtype=object), other=[None, 1])
    with pytest.raises(
        InvalidInputError, match=r"array 'label' holds Python objects.*np\.asarray\(label, dtype=str"
    ):
        open_source(tmp_path / "x.npz")
    assert open_source(tmp_path / "x.npz", label_column="").n_rows == 2


def test_labels_and_ids_in_memory():
    source = ArraySource(X[:3], labels=np.array([1, 0, 1]), ids=["a", "b", "c"])
    assert check_protocol(source)[1:] == (["a", "b", "c"], [1, 0, 1])
    with pytest.raises(InvalidInputError, match="labels has 2 entries for 3 rows"):
        ArraySource(X[:3], labels=[1, 2])
    with pytest.raises(InvalidInputError, match="ids has 4 entries"):
        ArraySource(X[:3], ids=range(4))


class TestErrors:
    @pytest.mark.parametrize("shape", [(3,), (), (2, 2, 2), (3, 0)])
    def test_wrong_shapes(self, torch, tmp_path, shape):
        np.save(tmp_path / "x.npy", np.zeros(shape))
        with pytest.raises(InvalidInputError, match=r"x\.npy has shape"):
            open_source(tmp_path / "x.npy")
        with pytest.raises(InvalidInputError, match="has shape"):
            open_source(torch.zeros(shape))

    @pytest.mark.parametrize("array", [np.array([["a"]]), np.array([[1j]]), np.array([[None]])])
    def test_wrong_types(self, array):
        with pytest.raises(InvalidInputError, match="has dtype"):
            open_source(array)

    def test_other_objects(self):
        with pytest.raises(InvalidTypeError, match="spec has type dict"):
            open_source({})


def test_fingerprint_knows_values_types_labels_and_ids():
    variants = [
        ArraySource(X),
        ArraySource(X.astype(np.float32)),
        ArraySource(X[:6]),
        ArraySource(np.where(np.arange(7)[:, None] == 6, 0, X)),
        ArraySource(X, labels=range(7)),
        ArraySource(X, labels=[str(i) for i in range(7)]),
        ArraySource(X, ids=range(1, 8)),
    ]
    assert len({source.fingerprint() for source in variants}) == len(variants)
    assert ArraySource(X.copy()).fingerprint() == ArraySource(X).fingerprint()


def test_fingerprints_are_the_same_in_every_process():
    # Written down once: a change here makes every store made before look as if its source had changed.
    assert fingerprint_of(["a", 1, b"x", None]) == "e1cc349e7bce9892ed580f1fd6bbd2dc"
