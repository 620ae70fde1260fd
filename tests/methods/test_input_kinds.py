"""Whatever type the rows come in, the picks are those of the same numbers in float64."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gmmatch as gm
from tests.methods.conftest import ROW_BASED, RUNNABLE

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
# Numbers that float16 and bfloat16 can hold, so that every kind below holds the same ones.
COARSE = np.round(4.0 * RNG.normal(size=(150, 7))) / 4.0
COARSE = COARSE.astype(np.float16).astype(np.float64)
Y = RNG.integers(0, 3, 150)
COARSE[:, :3] += 4.0 * np.eye(3)[Y]  # labels that the rows explain
COARSE = COARSE.astype(np.float16).astype(np.float64)

every_method = pytest.mark.parametrize("method", RUNNABLE)


def strided(array):
    wide = np.full((300, 21), 999.0, dtype=array.dtype)
    wide[1::2, 2::3] = array
    return wide[1::2, 2::3]


def locked(array):
    array.flags.writeable = False
    return array


KINDS = {
    "float32": lambda: COARSE.astype(np.float32),
    "float16": lambda: COARSE.astype(np.float16),
    "long double": lambda: COARSE.astype(np.longdouble),
    "big-endian": lambda: COARSE.astype(">f8"),
    "big-endian float32": lambda: COARSE.astype(">f4"),
    "Fortran order": lambda: np.asfortranarray(COARSE),
    "Fortran float32": lambda: np.asfortranarray(COARSE.astype(np.float32)),
    "strided": lambda: strided(COARSE),
    "strided float16": lambda: strided(COARSE.astype(np.float16)),
    "backwards": lambda: COARSE[::-1].copy()[::-1],
    "read-only": lambda: locked(COARSE.copy()),
    "list": lambda: COARSE.tolist(),
    "data frame": lambda: pd.DataFrame(COARSE),
    "float32 data frame": lambda: pd.DataFrame(COARSE.astype(np.float32), columns=list("abcdefg")),
    "torch float64": lambda: torch.from_numpy(COARSE.copy()),
    "torch float32": lambda: torch.tensor(COARSE, dtype=torch.float32),
    "torch float16": lambda: torch.tensor(COARSE, dtype=torch.float16),
    "torch bfloat16": lambda: torch.tensor(COARSE, dtype=torch.bfloat16, requires_grad=True),
    "torch transposed": lambda: torch.tensor(COARSE, dtype=torch.bfloat16).t().contiguous().t(),
}


def as_bytes(X):
    if isinstance(X, torch.Tensor):
        return X.detach().double().numpy().tobytes()
    return np.asarray(X).tobytes()


def select(method, X, **options):
    return gm.select(X, y=Y, method=method, k=45, random_state=0, **options)


@pytest.mark.grid
@every_method
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_picks_of_float64_and_is_not_modified(method, kind):
    X = KINDS[kind]()
    before = as_bytes(X)
    ours = select(method, X)
    assert as_bytes(X) == before
    theirs = select(method, COARSE)
    assert np.array_equal(ours.order, theirs.order)
    for label, residual in theirs.residual.items():
        assert ours.residual[label] == pytest.approx(residual, abs=1e-6)


@pytest.mark.grid
@pytest.mark.parametrize("method", ROW_BASED)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.bool_])
def test_integers(method, dtype):
    whole = RNG.integers(0, 2 if dtype is np.bool_ else 100, size=(150, 7)).astype(dtype)
    before = whole.tobytes()
    ours = select(method, whole)
    assert whole.tobytes() == before
    assert np.array_equal(ours.order, select(method, whole.astype(np.float64)).order)


@every_method
def test_labels_weights_and_ids_are_not_modified(method):
    weights, ids, include, y = np.ones(150), np.arange(150), np.array([9, 3]), Y.copy()
    before = [array.tobytes() for array in (weights, ids, include, y)]
    gm.select(
        COARSE, y=y, method=method, k=45, sample_weight=weights, ids=ids, include=include, exclude=[1, 2]
    )
    assert [array.tobytes() for array in (weights, ids, include, y)] == before
