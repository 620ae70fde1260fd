"""Data, and the backends that every test of this folder runs on."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from gmmatch.rows.array import ArrayRows
from gmmatch.rows.files import FileRows
from tests.conformance import toy
from tests.fake_ray import FakeRay


@pytest.fixture(scope="session")
def data():
    """420 rows in three classes, and weights."""
    random = np.random.default_rng(0)
    X, y = random.standard_normal((420, 5)), random.integers(0, 3, 420)
    return X + 4.0 * np.eye(3, 5)[y], y, random.random(420)


@pytest.fixture(params=["array", "files", "tensor", "list", "ray"])
def backend(request):
    if request.param == "tensor":
        pytest.importorskip("torch")
    return request.param


@pytest.fixture
def open_backend(data, tmp_path, monkeypatch):
    """Return a function that opens rows on a backend, by default those of the data."""
    return lambda backend, X=data[0]: open_rows_on(backend, X, tmp_path, monkeypatch)


def open_rows_on(backend, X, folder, monkeypatch):
    if backend == "files":
        paths = [folder / f"{len(list(folder.iterdir()))}-{number}.npy" for number in range(3)]
        for path, shard in zip(paths, np.array_split(X, [50, 333]), strict=True):
            np.save(path, shard)
        return FileRows(paths)
    if backend == "tensor":
        torch = pytest.importorskip("torch")
        from gmmatch.rows.tensor import TensorRows

        return TensorRows(torch.as_tensor(np.require(X, requirements="W")))
    if backend == "ray":
        monkeypatch.setitem(sys.modules, "ray", FakeRay())
        from gmmatch.rows.engine import RayEngine
        from gmmatch.rows.ray import RayRows

        return RayRows(X, RayEngine(2))
    return toy.ListRows(X.tolist()) if backend == "list" else ArrayRows(X, n_jobs=2)
