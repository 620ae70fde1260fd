"""What a selection is applied to."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse

from gmmatch import Selection
from gmmatch.errors import InvalidInputError, InvalidTypeError


def in_both_orders(selection, dataset, to_list=list):
    return to_list(selection.apply(dataset)), to_list(selection.apply(dataset, order=True))


BOTH_ORDERS = ([10, 12, 13], [13, 10, 12])
PICKS = Selection([3, 0, 2], n_rows=4)
ROWS = [10, 11, 12, 13]


class Squares:
    """A sequence that is nothing but a sequence."""

    shape = (99, 99)  # of its images, not of the set

    def __len__(self):
        return 4

    def __getitem__(self, row):
        return ROWS[row]


@pytest.mark.parametrize("dataset", [ROWS, tuple(ROWS), range(10, 14), Squares()])
def test_sequences_give_lists(dataset):
    assert in_both_orders(PICKS, dataset, lambda rows: rows) == BOTH_ORDERS


def test_numpy(tmp_path):
    assert in_both_orders(PICKS, np.array(ROWS)) == BOTH_ORDERS
    np.save(tmp_path / "rows.npy", np.array(ROWS)[:, None])
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert in_both_orders(PICKS, mapped, lambda rows: rows[:, 0].tolist()) == BOTH_ORDERS


def test_pandas():
    frame = pd.DataFrame({"x": ROWS}, index=[3, 2, 1, 0])
    assert in_both_orders(PICKS, frame, lambda rows: rows["x"].tolist()) == BOTH_ORDERS
    assert PICKS.apply(frame).index.tolist() == [3, 1, 0]
    assert in_both_orders(PICKS, frame["x"], lambda rows: rows.tolist()) == BOTH_ORDERS
    assert in_both_orders(PICKS, pd.Index(ROWS), lambda rows: rows.tolist()) == BOTH_ORDERS


def test_polars():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"x": ROWS})
    assert isinstance(PICKS.apply(frame), pl.DataFrame) and isinstance(PICKS.apply(frame["x"]), pl.Series)
    assert in_both_orders(PICKS, frame, lambda rows: rows["x"].to_list()) == BOTH_ORDERS
    assert in_both_orders(PICKS, frame["x"], lambda rows: rows.to_list()) == BOTH_ORDERS


def test_pyarrow():
    table = pa.table({"x": ROWS})
    assert in_both_orders(PICKS, table, lambda rows: rows["x"].to_pylist()) == BOTH_ORDERS
    assert in_both_orders(PICKS, table["x"], lambda rows: rows.to_pylist()) == BOTH_ORDERS
    batch = table.to_batches()[0]
    assert in_both_orders(PICKS, batch, lambda rows: rows["x"].to_pylist()) == BOTH_ORDERS


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil"])
def test_scipy_sparse(kind):
    matrix = scipy.sparse.csr_array(np.array(ROWS)[:, None]).asformat(kind)
    assert PICKS.apply(matrix).format == kind
    assert in_both_orders(PICKS, matrix, lambda rows: rows.toarray()[:, 0].tolist()) == BOTH_ORDERS


def test_torch():
    torch = pytest.importorskip("torch")
    from torch.utils.data import IterableDataset, Subset, TensorDataset

    rows = torch.tensor(ROWS)
    assert in_both_orders(PICKS, rows, lambda picked: picked.tolist()) == BOTH_ORDERS
    subset = PICKS.apply(TensorDataset(rows), order=True)
    assert type(subset) is Subset
    assert [int(row) for (row,) in subset] == BOTH_ORDERS[1]

    class Stream(IterableDataset):
        def __len__(self):
            return 4

        def __iter__(self):
            return iter(ROWS)

    with pytest.raises(InvalidTypeError, match="Stream, whose rows cannot be looked up"):
        PICKS.apply(Stream())
    with pytest.raises(InvalidTypeError, match="list"):
        PICKS.apply(torch.utils.data.Dataset())


def test_hugging_face():
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_dict({"x": ROWS})
    assert in_both_orders(PICKS, dataset, lambda picked: list(picked["x"])) == BOTH_ORDERS
    with pytest.raises(InvalidTypeError, match="looked up"):
        PICKS.apply(dataset.to_iterable_dataset())


def test_hugging_face_is_told_by_name():
    """The same door without the package: what counts is the module's name and ``select``."""

    class Dataset(Squares):
        __module__ = "datasets.arrow_dataset"

        def select(self, rows):
            return ("selected", list(rows))

    assert PICKS.apply(Dataset()) == ("selected", [0, 2, 3])


@pytest.mark.parametrize(
    ("dataset", "error", "message"),
    [
        ([1, 2], InvalidInputError, "dataset has 2 rows, but the selection was made from 4"),
        (np.ones((5, 4)), InvalidInputError, "5 rows"),
        (iter(ROWS), InvalidTypeError, "looked up by number"),
        ({10, 11, 12, 13}, InvalidTypeError, "looked up by number"),
        ("abcd", InvalidTypeError, "type str"),
        (np.array(4), InvalidTypeError, "type ndarray"),
        (None, InvalidTypeError, "NoneType"),
        ({"train": ROWS}, InvalidTypeError, "mapping"),
    ],
)
def test_what_cannot_be_applied_to(dataset, error, message):
    with pytest.raises(error, match=message):
        PICKS.apply(dataset)
