"""What the parameters of the methods may be, and what they may not be; every parameter has a line."""

from __future__ import annotations

from typing import Any

import numpy as np

import gmmatch as gm


def _reference(random: np.random.Generator, n: int, s: int, y: Any) -> list[Any]:
    rows = random.standard_normal((4, s))
    return [rows, rows.astype(np.float32), rows * 1e-200, np.zeros((1, s))]


PARAMETERS: dict[str, Any] = {
    "unlabeled": ["drop", "group"],
    "preprocess": [None, "center", ["scale"], ["center", "pca:2"], "unit", ("center", "scale", "unit"), []],
    "duplicates": ["one"],
    "target": ["mean", "geometric-median", "coordinate-median"],
    "kernel": [
        "linear", "rbf", "laplacian", "polynomial", ("rbf", {"bandwidth": 0.5}), ("polynomial", {"degree": 2}),
        gm.RBF(1e-3), gm.Laplacian(1e3), gm.Polynomial(degree=5, c=0.0), gm.Linear(),
    ],
    "normalize": [True, False, 1],
    "unit_target": [True],
    "start": ["zero", "target"],
    "replacement": [True],
    "batches": [1, 2, 3, np.int64(7), 1000],
    "carry": [False, True],
    "median_fraction": [0.5, 0.01, 1, 1.0],
    "eps": [0.0, 1e-12, 1e-3, 1, 5e-324, 1e300],
    "max_iter": [1, 2, 5, 10_000],
    "delta": [0.0, 1e-9, 0.5, 1e300],
    "strategy": ["direct", "coded", "auto"],
    "approximation": ["nystroem", "fourier", None],
    "n_components": [1, 2, 16, 33],
    "memory_limit": [0, 1, 1000, 10**6, 10**12],
    "weights": [True],
    "refine": [1, 3],
    "reference": _reference,
    "reference_weight": [1.0, 0.5, 1e-9],
    "updatable": [True],
    "center": ["mean", "coordinate-median", "geometric-median"],
    "scores": lambda random, n, s, y: [
        random.integers(0, 3, size=n), random.standard_normal(n), np.full(n, 1e308), [float("inf")] * n,
    ],
    "epochs": [1, 2],
    "runs": [1, 2],
    "hidden": [0, 3],
    "parameters": ["all", "last-layer"],
    "vectors": lambda random, n, s, y: [random.standard_normal((n, 3)), np.zeros((n, 1))],
    "strength": [0.01, 1e-9, 1e9],
    "sweeps": [0, 1, 5],
    "n_clusters": [1, 2, 5, 1000],
    "screen": ["auto", "labels", "rows", "none"],
    "tolerance": [0.02, 1e-9, 0.5],
}  # fmt: skip

_NOT_COUNTS = [-1, 0, 1.5, "2", None, True, [3], float("nan")]
_NOT_SWITCHES = ["yes", "False", 2, None, -1]
_NOT_SHARES = [0.0, -0.5, 1.5, float("nan"), "half", None, [0.5]]
_NOT_NUMBERS = [-1.0, float("nan"), float("inf"), "small", None, [1.0]]
_NOT_NAMES = ["no such", "", None, 3, ["mean"]]

WRONG: dict[str, list[Any]] = {
    "unlabeled": _NOT_NAMES,
    "preprocess": ["no such", ["center", "pca"], "pca:0", "pca:-2", "unit:3", 3, {"center": True}, [None]],
    "duplicates": _NOT_NAMES,
    "random_state": [-1, 1.5, "seed", [1]],
    "n_jobs": [0, 1.5, "two", True],
    "target": _NOT_NAMES,
    "kernel": [*_NOT_NAMES, gm.RBF, ("rbf", 3), ("rbf", {"width": 1.0})],
    "normalize": _NOT_SWITCHES,
    "unit_target": _NOT_SWITCHES,
    "start": _NOT_NAMES,
    "replacement": _NOT_SWITCHES,
    "batches": [value for value in _NOT_COUNTS if value is not None],
    "carry": _NOT_SWITCHES,
    "median_fraction": _NOT_SHARES,
    "eps": _NOT_NUMBERS,
    "max_iter": _NOT_COUNTS,
    "delta": _NOT_NUMBERS,
    "strategy": _NOT_NAMES,
    "approximation": [value for value in _NOT_NAMES if value is not None],
    "n_components": [value for value in _NOT_COUNTS if value is not None],
    "memory_limit": [-1, 1.5, "1GB", True],
    "weights": _NOT_SWITCHES,
    "refine": [value for value in _NOT_COUNTS if value != 0],
    "reference": [np.zeros(3), np.zeros((2, 1000)), np.full((2, 2), np.nan), "rows", [], 3],
    "reference_weight": _NOT_SHARES,
    "updatable": _NOT_SWITCHES,
    "center": _NOT_NAMES,
    "scores": ["no-such-file.npy", [1.0] * 999, np.zeros((3, 3)), 3, "x"],
    "dynamics": ["no-such-folder", 3, [], [3]],
    "epochs": _NOT_COUNTS,
    "runs": _NOT_COUNTS,
    "hidden": [value for value in _NOT_COUNTS if value != 0],
    "parameters": _NOT_NAMES,
    "vectors": [np.zeros(3), [[1.0]] * 999, "vectors", 3, [[None]]],
    "strength": [*_NOT_NUMBERS, 0.0],
    "sweeps": [value for value in _NOT_COUNTS if value != 0],
    "n_clusters": [value for value in _NOT_COUNTS if value is not None],
    "screen": _NOT_NAMES,
    "tolerance": [-0.1, 1.5, "small", None, float("nan")],
}

# Arguments that every method takes; of n rows.
WRONG_ARGUMENTS: dict[str, Any] = {
    "k": lambda n: [0, -1, 1.5, float("nan"), "many", True, [3], "200%", float("inf"), "", 10**30, 0.0, -0.5, 1j],
    "y": lambda n: ["label", 3, [0] * (n + 1), np.zeros((n, 2)), {"a": 1}, [[1, 2]] * n, [object()] * n, []],
    "per_class": lambda n: ["equal", 3, {"no such class": 1}, ["a"], {}],
    "sample_weight": lambda n: [
        np.zeros(n), -np.ones(n), np.ones(n + 1), "heavy", [float("nan")] * n, np.full(n, np.inf), np.ones((n, 2)),
    ],
    "include": lambda n: [[n], [-1], 3, "all", [0.5], [[0]], [True] * (n + 1), [None]],
    "exclude": lambda n: [[n], [-1], 3, "all", [0.5], [[0]], list(range(n)), [None]],
    "ids": lambda n: [["a"] * (n + 1), 3, [None] * n, [1.5] * n, "names"],
    "engine": lambda n: ["no such", 3, object()],
    "method": lambda n: ["no such", "", "gm matching!", 3],
}  # fmt: skip


def wrong_rows(random: np.random.Generator, n: int, s: int) -> Any:
    """Return rows that cannot be used."""
    import scipy.sparse

    X = random.standard_normal((n, s))
    bad = X.copy()
    bad[random.integers(n), random.integers(s)] = random.choice([np.nan, np.inf, -np.inf, 1e151, -1.7e308])
    values = [
        bad, bad, bad.tolist(), np.asfortranarray(bad), X[:, 0], X[None], X[:0], X[:, :0], X.astype(str), X + 1j,
        scipy.sparse.csr_array(X), [[1.0], [1.0, 2.0]], None, "rows", 3.0, [], [[]], {"a": 1}, X.astype("M8[s]"),
        [[None] * s] * n, np.ma.masked_array(X, mask=True), [["a"] * s] * n, b"rows", object(),
    ]  # fmt: skip
    return values[random.integers(len(values))]
