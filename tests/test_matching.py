"""Greedy matching: every way to the picks gives those of the textbook, and theory's promises hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import gmmatch as gm
from gmmatch.matching import scan as scan_module
from tests.textbook import textbook_picks

RANDOM = np.random.default_rng(0)


@pytest.fixture(params=["scan", "codes"])
def way(request, monkeypatch):
    """Force one way of making picks in memory."""
    monkeypatch.setattr(scan_module, "_codes_pay", lambda *_: request.param == "codes")
    return request.param


INPUTS = {
    "gaussian": RANDOM.standard_normal((300, 17)) + 0.5,
    "float32": (RANDOM.standard_normal((400, 40)) + 0.5).astype(np.float32),
    "whole numbers": RANDOM.integers(-2, 3, (300, 3)).astype(float),
    "equal rows": np.ones((50, 4)),
    "one row far out": np.vstack([RANDOM.standard_normal((200, 5)), np.full((1, 5), 1e8)]),
    "huge": RANDOM.standard_normal((100, 5)) * 1e120,
    "tiny": RANDOM.standard_normal((100, 5)) * 1e-120,
    "far from zero": RANDOM.standard_normal((200, 6)) + 1e6,
    "one column": RANDOM.standard_normal((150, 1)),
    "very wide": RANDOM.standard_normal((40, 700)).astype(np.float32),
    "with zeros": RANDOM.standard_normal((120, 6)) * (RANDOM.random((120, 6)) < 0.2),
    "one row": RANDOM.standard_normal((1, 5)),
}


@pytest.mark.filterwarnings("ignore::gmmatch.errors.FarRowWarning")
@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("start", ["target", "zero"])
@pytest.mark.parametrize("replacement", [False, True])
def test_picks_are_those_of_the_textbook(way, name, start, replacement):
    X = INPUTS[name]
    k = len(X)
    selection = gm.Herding(k=k, start=start, replacement=replacement).select(X)
    with gm.open_rows(X) as rows:
        mean = rows.group_means(np.zeros(k, dtype=np.int64), np.ones(k), 1)[0]
    theta = mean if start == "target" else np.zeros_like(mean)
    assert selection.order.tolist() == textbook_picks(X, mean, k, theta=theta, replacement=replacement)


@pytest.mark.filterwarnings("ignore::gmmatch.errors.FarRowWarning")
@settings(max_examples=60, deadline=None)
@given(
    arrays(np.int8, st.tuples(st.integers(1, 30), st.integers(1, 4)), elements=st.integers(-3, 3)),
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.booleans(),
    st.data(),
)
def test_ties_go_to_the_lowest_row(rows, dtype, codes, data):
    available = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    assume(available.any())
    k = data.draw(st.integers(1, int(available.sum())))
    X = rows.astype(dtype)
    original = scan_module._codes_pay
    scan_module._codes_pay = lambda *_: codes
    try:
        order = gm.Herding(k=k, start="zero").select(X, exclude=~available).order.tolist()
    finally:
        scan_module._codes_pay = original
    with gm.open_rows(X) as opened:
        mean = opened.group_means(np.zeros(len(X), dtype=np.int64), np.ones(len(X)), 1)[0]
    assert order == textbook_picks(X, mean, k, theta=np.zeros_like(mean), available=available)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_the_residual_falls_like_one_over_k(seed, s):
    """From θ = 0, ‖θ‖ stays below the diameter of the rows, so that the residual is at most that by k."""
    X = np.random.default_rng(seed).standard_normal((200, s))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    path = gm.Herding(k=150, start="zero", replacement=True).select(X).residual_path[None]
    assert (path * np.arange(1, 151)).max() <= 2.0 * np.sqrt(2.0) + 1e-9


def test_a_large_group_uses_codes_and_picks_the_same():
    X = np.random.default_rng(1).standard_normal((6000, 64)).astype(np.float32)
    assert scan_module._codes_pay(6000, 64, 300) and not scan_module._codes_pay(50, 4, 5)
    order = gm.Herding(k=300).select(X).order
    with gm.open_rows(X) as rows:
        mean = rows.group_means(np.zeros(6000, dtype=np.int64), np.ones(6000), 1)[0]
    assert order.tolist() == textbook_picks(X, mean, 300)
