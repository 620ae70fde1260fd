"""Odd arguments of a selection, for :mod:`tests.reliability.fuzz`: labels, budgets, masks, weights, ids, rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import gmmatch as gm
from gmmatch.problem import Problem

N = 12
X = np.random.default_rng(0).normal(size=(N, 3))
Draw = random.Random


class Unwilling:
    """Raises when it is asked for numbers."""

    def __array__(self, *_: object, **__: object) -> Any:
        raise RuntimeError("no")

    def __len__(self) -> int:
        return N


SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 3, N, N + 1, 10**30, -(10**30), 0.0, 0.25, 1.0, 1.5, -0.5, 1e308, float("nan"),
    float("inf"), "", "3", "25%", "-5%", "1e400", "nan", "trusted", "x", "\x00", b"x", 1j, Fraction(1, 3),
    Decimal("0.1"), np.float16(0.5), np.int8(3), np.uint64(2**63), np.datetime64("2020"), np.datetime64("NaT"),
    object(), Unwilling(), ..., int, [], {}, (), set(), {0: 3}, {"a": "50%"}, [[0, 2]], range(N), lambda rows: rows,
)  # fmt: skip
TYPES = ("f2", "f4", "f8", "g", "i1", "u8", "?", "c8", "M8[s]", "m8[s]", "U3", "S3", "O", "V4", "i4,f4")


def some_values(draw: Draw, n: int) -> list[Any]:
    pool = [draw.choice(SCALARS) for _ in range(draw.choice((1, 2, 3, 5)))]
    if draw.random() < 0.5:
        pool = draw.choice(
            ([0, 1], ["a", "b"], [0.0, 1.0], [True, False], [None, "a"], [-1, 0, 1], [b"a", b"b"])
        )
    return [draw.choice(pool) for _ in range(n)]


def some_array(draw: Draw) -> Any:
    """An array of about as many rows as there should be."""
    shape = draw.choice(((N,), (N, 1), (N, 2), (N, 3), (N - 1,), (0,), (), (1, N), (N, 0), (2, 2, 2)))
    values = np.random.default_rng(draw.randrange(1000)).integers(-1, 3, shape)
    dtype = np.dtype(draw.choice(TYPES))
    try:
        array = values.astype(dtype)
    except (TypeError, ValueError):
        array = np.zeros(shape, dtype)
    if array.dtype.kind == "f" and array.size and draw.random() < 0.3:
        array.flat[draw.randrange(array.size)] = draw.choice((np.nan, np.inf, -np.inf, 1e300, -0.0))
    wrap = draw.randrange(8)
    if wrap == 0:
        return array.tolist()
    if wrap == 1:
        return np.ma.masked_array(array, mask=np.arange(array.size).reshape(array.shape) % 3 == 0)
    if wrap == 2 and array.dtype.kind in "fiub":
        import torch

        return torch.from_numpy(array.astype("f4").copy()).to(draw.choice(("cpu", "meta")))
    if wrap == 3 and array.ndim == 1:
        import pandas as pd

        if array.dtype.kind not in "V":
            return pd.Series(array.astype("f8") if array.dtype == np.longdouble else array)
    return array


def plausible(name: str, draw: Draw) -> Any:
    """A value that may well be right, at least by itself."""
    rows = np.random.default_rng(draw.randrange(1000))
    values: dict[str, Any] = {
        "y": draw.choices(draw.choice((["a", "b"], [0, 1, 2], [None, 1.0], [-1, 1], [True, False])), k=N),
        "k": draw.choice((1, 3, N, 0.25, "50%", 1.0, 2 * N)),
        "per_class": draw.choice(("proportional", "balanced", None, {"a": 2}, {0: "50%", 1: 1})),
        "include": draw.choice((rows.integers(0, N, 2), rows.random(N) < 0.2, [], {1})),
        "exclude": draw.choice((rows.integers(0, N, 3), rows.random(N) < 0.5, range(2))),
        "sample_weight": draw.choice((rows.random(N), rows.integers(0, 2, N), rows.random(N) * 1e300)),
        "scores": rows.choice([0.0, 1.0, -np.inf, np.inf], N),
        "pred_probs": rows.random((N, draw.choice((1, 2, 3)))),
        "answers": draw.choices([None, "a", 0, float("nan")], k=N),
        "random_state": draw.choice((0, None, np.random.RandomState(1), rows)),
        "unlabeled": draw.choice(("drop", "group")),
    }
    return values[name]


def some_argument(name: str, draw: Draw) -> Any:
    if name in NAMES and draw.random() < 0.6:
        return plausible(name, draw)
    kind = draw.randrange(4)
    if kind == 0:
        return draw.choice(SCALARS)
    return some_array(draw) if kind == 1 else some_values(draw, draw.choice((N, N, N, N, N - 1, 0, 1)))


NAMES = (
    "y", "k", "per_class", "include", "exclude", "sample_weight", "scores", "pred_probs", "answers", "random_state",
    "unlabeled",
)  # fmt: skip
MORE = (
    "X",
    "ids",
    "reference",
    "reference_weight",
    "preprocess",
    "memory_limit",
    "n_jobs",
    "method",
    "screening",
)


def check_problem(problem: Problem) -> None:
    """Quotas can be filled, and what is flat has a value for each row."""
    assert (problem.quotas >= 0).all(), "quotas below zero"
    room = problem.groups.count(problem.available)
    assert problem.request.replacement or (problem.quotas <= room).all(), "quotas that cannot be filled"
    for values in (problem.weights, problem.available, problem.included, problem.groups.codes):
        assert values.shape == (N,), "an array of another shape"
    assert np.isfinite(problem.weights).all() and (problem.weights >= 0.0).all(), "weights that are none"


def fuzz_arguments(_: Path) -> Callable[[Draw], object]:
    """Return what draws some arguments of ``Problem.of``, and now and then of ``select``, and calls it."""

    def attempt(draw: Draw) -> object:
        names = draw.sample(NAMES, draw.choice((1, 2, 3, 5)))
        arguments = {name: some_argument(name, draw) for name in names}
        if draw.random() < 0.7:
            arguments.setdefault("k", 3)
        if draw.random() < 0.5:
            arguments.setdefault("y", ["a", "b", "b"] * (N // 3))
        arguments.setdefault("replacement", draw.random() < 0.1)
        if draw.random() < 0.8:
            with gm.open_rows(X) as rows:
                return check_problem(Problem.of(rows, **arguments))
        arguments.pop("replacement")
        options = {name: some_argument(name, draw) for name in draw.sample(MORE, draw.choice((0, 1, 1, 2)))}
        arguments = {
            "X": X,
            "method": draw.choice(("easy", "random", "herding", "by-score")),
            **arguments,
            **options,
        }
        return gm.select(**arguments).order.tolist()

    return attempt
