"""Rows: every kind of input is read as the same numbers, in place where possible, and never written to."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.rows.rows import CHUNK_ELEMENTS, Rows, as_rows

VALUES = np.arange(24.0).reshape(6, 4) - 7.5


def read_only(array):
    array.flags.writeable = False
    return array


def strided(array):
    wide = np.full((12, 12), 99.0, dtype=array.dtype)
    wide[::2, 1::3] = array
    return wide[::2, 1::3]


KINDS = {
    "float64": VALUES,
    "float32": VALUES.astype(np.float32),
    "float16": VALUES.astype(np.float16),
    "long double": VALUES.astype(np.longdouble),
    "big-endian float64": VALUES.astype(">f8"),
    "big-endian float32": VALUES.astype(">f4"),
    "Fortran order": np.asfortranarray(VALUES),
    "strided": strided(VALUES),
    "reversed": VALUES[::-1].copy()[::-1],
    "read-only": read_only(VALUES.copy()),
    "unaligned": np.frombuffer(b"x" + VALUES.tobytes(), dtype=np.uint8)[1:].view(np.float64).reshape(6, 4),
    "objects": VALUES.astype(object),
    "list": VALUES.tolist(),
    "tuples": tuple(map(tuple, VALUES)),
    "data frame": pd.DataFrame(VALUES),
    "data frame of several types": pd.DataFrame(VALUES).astype({0: np.float32, 1: "Float64"}),
    "masked without a mask": np.ma.masked_array(VALUES),
}
IN_PLACE = {"float64", "float32", "read-only"}


def all_views(rows):
    """The same rows through every way of reading them, as float64."""
    blocks = np.concatenate([rows.block(number) for number in range(rows.n_chunks)])
    chunks = np.concatenate([block[index] for block, index in map(rows.chunk, range(rows.n_chunks))])
    one_by_one = np.array([rows.row(position) for position in range(len(rows))])
    return blocks, chunks, one_by_one, rows.copied(), rows.gather(np.arange(len(rows)))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_input_is_read_as_the_same_numbers(kind):
    rows = as_rows(KINDS[kind])
    assert (len(rows), rows.n_features) == (6, 4)
    for view in all_views(rows):
        assert np.array_equal(view, VALUES)
    assert np.array_equal(rows.gather(np.array([5, 0, 5])), VALUES[[5, 0, 5]])


@pytest.mark.parametrize("kind", KINDS)
def test_only_plain_arrays_are_read_in_place(kind):
    rows = as_rows(KINDS[kind])
    if kind in IN_PLACE:
        assert rows.in_place and np.shares_memory(rows.chunk(0)[0], KINDS[kind])
    if rows.in_place:
        assert rows.source.flags.c_contiguous and rows.source.flags.aligned and rows.source.dtype.isnative


@pytest.mark.parametrize(
    ("dtype", "working"),
    [
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.int8, np.float32),
        (np.uint16, np.float32),
        (np.int32, np.float64),  # float32 has 24 bits
        (np.int64, np.float64),
        (np.bool_, np.float32),
    ],
)
def test_the_working_type_holds_every_value(dtype, working):
    top = True if dtype is np.bool_ else np.iinfo(dtype).max if np.dtype(dtype).kind in "iu" else 1
    X = np.full((2, 2), top, dtype=dtype)
    rows = as_rows(X)
    assert rows.dtype == working
    if dtype is not np.int64:
        assert rows.block(0).astype(np.float64).tolist() == X.astype(object).astype(float).tolist()


def test_bfloat16_of_torch_and_of_ml_dtypes():
    torch = pytest.importorskip("torch")
    X = torch.tensor(VALUES, dtype=torch.bfloat16, requires_grad=True)
    for tensor in (X, X.t().contiguous().t(), X.repeat(2, 1)[::2].repeat(1, 1)[:6]):
        expected = tensor.detach().double().numpy()
        for view in all_views(as_rows(tensor)):
            assert np.array_equal(view, expected)
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for view in all_views(as_rows(VALUES.astype(ml_dtypes.bfloat16))):
        assert np.array_equal(view, X.detach().double().numpy())


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_torch_tensors_are_read_where_they_lie(dtype):
    torch = pytest.importorskip("torch")
    X = torch.tensor(VALUES).to(getattr(torch, dtype))
    rows = as_rows(X)
    assert np.shares_memory(rows.source, X.numpy())
    assert np.array_equal(rows.copied(), X.double().numpy())


def test_memory_maps_are_not_read_into_memory(tmp_path):
    np.save(tmp_path / "X.npy", VALUES)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    rows = as_rows(mapped)
    assert rows.in_place and np.shares_memory(rows.source, mapped)


# ------------------------------------------------------------------------------- subsets and chunks


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=9),
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.data(),
)
def test_subsets_of_subsets(index, dtype, data):
    rows = Rows(VALUES.astype(dtype), np.array(index))
    again = data.draw(st.lists(st.integers(0, len(index) - 1), min_size=1, max_size=9))
    expected = VALUES[index][again]
    for view in all_views(rows.subset(np.array(again))):
        assert np.array_equal(view, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_chunks_cover_the_rows_once_and_in_order(dtype):
    n, s = 2_500, 1_000
    X = np.repeat(np.arange(n, dtype=dtype)[:, None], s, axis=1)
    rows = as_rows(X)
    assert rows.n_chunks == 2 and rows.rows_per_chunk * s <= CHUNK_ELEMENTS
    bounds = [rows.bounds(number) for number in range(rows.n_chunks)]
    assert bounds[0][0] == 0 and bounds[-1][1] == n
    assert all(first[1] == second[0] for first, second in pairwise(bounds))
    assert np.array_equal(rows.copied()[:, 0], X[:, 0])


def test_a_copy_is_the_callers_own():
    X = VALUES.copy()
    rows = as_rows(X)
    row, everything = rows.row(2), rows.copied()
    row += 1.0
    everything += 1.0
    assert np.array_equal(X, VALUES)


def test_the_input_cannot_be_written_to_through_rows():
    X = VALUES.copy()
    rows = as_rows(X)
    for view in (rows.source, rows.index, rows.chunk(0)[0], rows.block(0)):
        with pytest.raises(ValueError, match="read-only"):
            view[...] = 0
    X[0, 0] = 3.0  # the caller's own array stays writable


def test_rows_are_rows_already():
    rows = as_rows(VALUES)
    assert as_rows(rows) is rows


# ---------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([1.0, 2.0], InvalidInputError, r"A must be two-dimensional.*shape \(2,\).*A.reshape\(-1, 1\)"),
        (5, InvalidInputError, "A must be two-dimensional.*a single value"),
        (None, InvalidTypeError, "A has type NoneType: expected rows by features"),
        ("rows.npy", InvalidTypeError, "A has type str: expected rows by features"),
        ({"x": VALUES}, InvalidTypeError, "A has type dict: expected rows by features"),
        (np.zeros((2, 3, 4)), InvalidInputError, r"shape \(2, 3, 4\).*A.reshape\(len\(A\), -1\)"),
        (np.empty((0, 3)), InvalidInputError, "A has no rows"),
        (np.empty((3, 0)), InvalidInputError, "A has no columns"),
        ([[1, 2], [3]], InvalidInputError, "A is not a matrix of numbers"),
        ([["a", "b"]], InvalidInputError, "A has dtype <U1; expected floats or integers"),
        ([[1.0, "b"]], InvalidInputError, "A has dtype"),
        (np.array([["a", 1.0]], dtype=object), InvalidInputError, "A has entries that are not numbers .*'a'"),
        ([[{}, 1.0]], InvalidTypeError, "A has entries that are not numbers .*'dict'"),
        ([[1j]], InvalidInputError, "Complex data not supported: A has dtype complex128. Pass real"),
        (np.zeros((2, 2), dtype="M8[s]"), InvalidInputError, "A has dtype datetime64"),
        (scipy.sparse.eye(3, format="csr"), InvalidTypeError, "dense data is required. Use A.toarray()"),
        (np.ma.masked_equal(VALUES, 0.5), InvalidInputError, "A has masked entries; drop these rows or fill"),
    ],
)
def test_what_is_no_matrix_of_numbers(X, error, message):
    with pytest.raises(error, match=message):
        as_rows(X, name="A")


def test_tensors_that_numpy_cannot_read():
    torch = pytest.importorskip("torch")
    with pytest.raises(InvalidTypeError, match=r"X is a tensor that NumPy cannot read: .*to_dense"):
        as_rows(torch.eye(3).to_sparse())
    with pytest.raises(InvalidTypeError, match="X is a tensor that NumPy cannot read"):
        as_rows(torch.eye(3).to(torch.float8_e4m3fn))
