"""Datasets of Ray Data: the picks of the same rows in memory, labels and ids by column, and datasets of the picks."""

from __future__ import annotations

import time

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.errors import InvalidInputError

pytestmark = pytest.mark.slow
ENGINE = gm.RayEngine(2, num_cpus=0.5)
N = 600


@pytest.fixture(scope="module")
def table():
    """Rows around two centers, sorted by class."""
    pa = pytest.importorskip("pyarrow")
    X = np.random.default_rng(5).normal(size=(N, 6)).astype(np.float32)
    X[: N // 3, 0] += 6.0
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 6)
    return X, pa.table({
        "name": [f"row {row}" for row in range(N)],
        "kind": ["rare"] * (N // 3) + ["common"] * (N - N // 3),
        "vector": vectors,
        "height": np.arange(N),
    })  # fmt: skip


@pytest.fixture(scope="module")
def dataset(ray_cluster, table):
    """The table as a dataset of eight blocks, the first of which takes longest."""
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False

    def delay(batch):
        time.sleep(1.0 if batch["height"][0] < 75 else 0.0)
        return batch

    parts = [table[1].slice(first, 75) for first in range(0, N, 75)]
    return ray.data.from_arrow(parts).map_batches(delay, batch_size=None)


def test_picks_labels_and_ids_of_a_dataset(dataset, table):
    X, columns = table
    y, ids = np.array(columns["kind"].to_pylist()), np.array(columns["name"].to_pylist())
    for method in ("robust", "herding"):
        expected = gm.select(X, y, k=40, method=method, ids=ids, random_state=1)
        picks = gm.select(dataset, "kind", k=40, method=method, ids="name", random_state=1, engine=ENGINE)
        assert picks.order.tolist() == expected.order.tolist() and picks.counts == expected.counts
        assert picks.ids.tolist() == expected.ids.tolist()


def test_the_picks_of_a_dataset_are_a_dataset(dataset, table):
    """Rows are numbered in the order of the dataset, although its first blocks come last."""
    selection = gm.select(dataset, k=50, method="gm-matching", random_state=0, engine=ENGINE)
    kept = selection.apply(dataset)
    assert [row["height"] for row in kept.take_all()] == selection.indices.tolist()
    assert kept.schema().names == dataset.schema().names
    ranked = selection.apply(dataset, order=True)
    assert [row["height"] for row in ranked.take_all()] == selection.order.tolist()
    assert not dataset.context.execution_options.preserve_order
    with pytest.raises(InvalidInputError, match="dataset has 10 rows, but the selection was made from 600"):
        selection.apply(dataset.limit(10))


def test_every_form_of_a_column_of_vectors(ray_cluster, table):
    import pandas as pd
    import ray.data

    X = table[0]
    expected = gm.select(X, k=20, method="herding").order.tolist()
    lists = ray.data.from_items([{"v": row.tolist(), "picture": np.zeros((2, 2, 3))} for row in X])
    frame = ray.data.from_pandas(pd.DataFrame({"v": list(X), "text": "a"}))
    for form in (lists, frame, ray.data.from_numpy(X)):
        assert gm.select(form, k=20, method="herding", engine=ENGINE).order.tolist() == expected


def test_what_is_wrong_with_a_dataset_is_said(ray_cluster, table):
    import ray.data

    X = table[0]
    two = ray.data.from_items([{"a": [1.0], "b": [2.0]}])
    with pytest.raises(
        InvalidInputError, match=r"several columns of vectors \('a', 'b'\).*drop_columns\(\['b'\]\)"
    ):
        gm.select(two, k=1)
    with pytest.raises(InvalidInputError, match=r"no column of vectors.*'text'"):
        gm.select(ray.data.from_items([{"text": "a"}]), k=1)
    vectors = [*X[:99].tolist(), [1.0], *X[100:].tolist()]
    ragged = ray.data.from_items([{"v": row} for row in vectors], override_num_blocks=4)
    with pytest.raises(
        InvalidInputError, match=r"row 99 of the dataset has no vector of 6 numbers in column 'v'"
    ):
        gm.select(ragged, k=1)
    holes = ray.data.from_items([{"v": [1.0, None if row == 70 else 2.0]} for row in range(100)])
    with pytest.raises(InvalidInputError, match=r"row 70 of the dataset has no vector of 2 numbers"):
        gm.select(holes, k=1)
    with pytest.raises(InvalidInputError, match=r"column='kinds'.*Did you mean 'kind'"):
        gm.select(ray.data.from_arrow(table[1]), "kinds", k=1)
    with pytest.raises(InvalidInputError, match=r"n_jobs.*no meaning"):
        gm.select(ray.data.from_numpy(X), k=1, n_jobs=2)


def test_screen_duplicates_and_curve_of_a_dataset(dataset, table):
    X, columns = table
    y = np.array(columns["kind"].to_pylist())
    expected = gm.screen(X, y, random_state=0)
    found = gm.screen(dataset, "kind", random_state=0, engine=ENGINE)
    assert found.verdict.tolist() == expected.verdict.tolist()
    assert (
        gm.duplicates(dataset, 0.99, engine=ENGINE).rows.tolist()
        == gm.duplicates(X, 0.99).rows.tolist()
        != []
    )
    selection = gm.select(X, y, k=100, method="herding")
    here, there = (gm.budget_curve(selection, data, labels, sizes=[20, 100], repeats=2, engine=engine).as_json()
                   for data, labels, engine in ((X, y, None), (dataset, "kind", ENGINE)))  # fmt: skip
    assert here == there
