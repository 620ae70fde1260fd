"""Results as tables, and tables as rows: pandas, polars and Arrow."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gmmatch as gm
from gmmatch.curve import CurvePoint
from gmmatch.errors import InvalidInputError, InvalidTypeError, MissingDependencyError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)).astype(np.float32)
Y = np.array(["cat", "dog", "owl"])[np.arange(60) % 3]
PACKAGES = ["pandas", "polars", "pyarrow"]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_picks_are_a_table_of_each_package(package):
    pytest.importorskip(package)
    selection = gm.select(X, Y, k=6, method="gm-matching", ids=[f"row {i}" for i in range(60)])
    selection = gm.weigh(selection, X, Y)
    frame = selection.to_frame(package)
    assert type(frame).__module__.partition(".")[0] == package
    table = frame if package == "pyarrow" else pa.table(frame)
    assert table.column_names == ["row", "group", "id", "residual", "weight"]
    assert table["row"].to_pylist() == selection.order.tolist()
    assert table["id"].to_pylist() == selection.order_ids.tolist()
    assert table["group"].to_pylist() == Y[selection.order].tolist()


def test_a_screening_is_a_table():
    truth = np.arange(300) % 3
    rows = RNG.normal(size=(300, 8)) + 6.0 * np.eye(3, 8)[truth]
    given = np.array(["cat", "dog", "owl"])[np.where(np.arange(300) < 60, (truth + 1) % 3, truth)]
    result = gm.screen(rows, given, random_state=0)
    frame = result.to_frame()
    assert frame["verdict"].tolist() == result.verdict.tolist()
    assert frame["suggested"][:3].tolist() == ["cat", "dog", "owl"]


def test_an_unknown_and_a_missing_package_are_named(monkeypatch):
    selection = gm.Selection([0], n_rows=1)
    with pytest.raises(InvalidInputError, match="package='csv'"):
        selection.to_frame("csv")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingDependencyError, match="pip install polars"):
        selection.to_frame("polars")


def test_a_notebook_shows_classes_escaped():
    labels = np.array([f"<b>{i % 12}</b>" for i in range(60)])
    page = gm.select(X, labels, k=12, method="herding")._repr_html_()
    assert "<b>" not in page and page.count("<tr>") == 11 and "and 2 more" in page
    assert "<td>&lt;b&gt;0&lt;/b&gt;</td><td>1</td><td>5</td>" in page


VECTORS = {
    "Series of arrays": lambda: pd.Series(list(X)),
    "Series of lists": lambda: pd.Series(X.tolist(), index=range(60, 0, -1)),
    "DataFrame of one column": lambda: pd.DataFrame({"embedding": list(X)}),
    "Arrow lists": lambda: pa.chunked_array([X[:20].tolist(), X[20:].tolist()]),
    "Arrow table": lambda: pa.table({"embedding": X.tolist()}),
    "Arrow-backed Series": lambda: pd.Series(X.tolist(), dtype=pd.ArrowDtype(pa.list_(pa.float32()))),
    "polars lists": lambda: pytest.importorskip("polars").Series("embedding", X.tolist()),
    "polars frame": lambda: pytest.importorskip("polars").DataFrame({"embedding": X.tolist()}),
    "polars arrays": lambda: pytest.importorskip("polars").Series("embedding", X),
}


@pytest.mark.parametrize("kind", VECTORS)
def test_a_column_of_vectors_is_stacked_and_comes_back_as_it_was(kind):
    column = VECTORS[kind]()
    selection = gm.select(column, Y, k=6, method="gm-matching", random_state=0)
    expected = gm.select(X, Y, k=6, method="gm-matching", random_state=0)
    assert selection.order.tolist() == expected.order.tolist()
    small, labels = gm.GMMatching(k=6, random_state=0).fit_resample(column, Y)
    assert type(small) is type(column) is type(selection.apply(column))
    assert len(small) == len(labels) == 6


def test_polars_frames_and_labels_go_in_and_come_out():
    pl = pytest.importorskip("polars")
    frame, labels = pl.DataFrame(X, schema=list("abc")), pl.Series("label", Y)
    estimator = gm.GMMatching(k=6, random_state=0)
    small, few = estimator.fit_resample(frame, labels.cast(pl.Categorical))
    assert small.columns == ["a", "b", "c"] == estimator.feature_names_in_.tolist()
    assert isinstance(few, pl.Series) and few.to_list() == Y[estimator.sample_indices_].tolist()
    with pytest.raises(InvalidTypeError, match=r"LazyFrame.*X\.collect\(\)"):
        gm.select(frame.lazy(), k=6)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([[1.0, 2.0], [1.0]], r"different lengths: shape \(1,\) in row 1, \(2,\) in row 0"),
        ([[1.0, 2.0], None], r"different lengths: shape \(\) in row 1"),
        ([["a"], ["b"]], "2d array of numbers"),
        ([np.zeros((2, 2))] * 3, "rows by features"),
    ],
)
def test_what_is_no_column_of_vectors_says_so(column, words):
    with pytest.raises(InvalidInputError, match=words):
        gm.select(pd.Series(column), k=1)


def test_a_notebook_shows_copies_and_sizes():
    rows = np.concatenate([np.eye(20), np.eye(20)[:12]])
    page = gm.duplicates(rows, threshold=0.99)._repr_html_()
    assert page.count("<tr>") == 11 and "<td>20</td><td>0</td><td>1.0</td>" in page and "and 2 more" in page
    point = CurvePoint("easy", 1200, 0.1, 0.1, 1.0, 3.0, accuracy=0.9)
    page = gm.BudgetCurve((point,), 5000, "20 test rows")._repr_html_()
    assert "<td>easy</td><td>1,200</td><td>90.0%</td>" in page
