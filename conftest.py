"""What pytest must not import on this machine, how hypothesis draws its cases, and which of a grid's are quick."""

from __future__ import annotations

import os
import sys
import time
from importlib.util import find_spec
from typing import Any

import pytest

# Some virtual machines announce AMX and stop a process that uses it, as torch does for bfloat16.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# The kernels' modules need Triton, which comes with torch for CUDA.
collect_ignore_glob = (
    []
    if find_spec("triton")
    else [
        "src/gmmatch/_triton_trial.py",
        "src/gmmatch/median/triton.py",
        "src/gmmatch/rows/triton_*.py",
        "src/gmmatch/rows/tensor_picks.py",
    ]
)

# The same cases on every machine, so that a failure means a change; HYPOTHESIS_PROFILE=search draws new ones.
# A busy machine is slow, which is no failure.
if find_spec("hypothesis"):
    from hypothesis import settings

    settings.register_profile("same", derandomize=True, deadline=None)
    settings.register_profile("search", deadline=None, print_blob=True)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test marked ``grid``, all is slow but a diagonal that meets every value of every parameter."""
    grids: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("grid"):
            grids.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in grids.values():
        values = [{name: _value(value) for name, value in case.callspec.params.items()} for case in cases]
        axes = {name: list(dict.fromkeys(one[name] for one in values)) for name in values[0]}
        missing = {(name, value) for name, axis in axes.items() for value in axis}
        longest = max(axes, key=lambda name: len(axes[name]))

        def on_diagonal(one: dict[str, str]) -> bool:
            step = axes[longest].index(one[longest])  # noqa: B023
            return all(axis.index(one[name]) == step % len(axis) for name, axis in axes.items())  # noqa: B023

        for case, one in sorted(zip(cases, values, strict=True), key=lambda pair: not on_diagonal(pair[1])):
            if missing.isdisjoint(one.items()):
                case.add_marker("slow")
            missing.difference_update(one.items())


def _value(value: object) -> str:
    """What tells a parameter's value from others: the name of a function, or its text."""
    return getattr(getattr(value, "func", value), "__name__", None) or repr(value)


# A quick test takes at most this many seconds of processor time; compiled code is warm by then.
_QUICK_SECONDS = float(os.environ.get("GMMATCH_QUICK_SECONDS", "2"))


@pytest.fixture(scope="session", autouse=True)
def _compile_loops() -> None:
    """Compile what most tests call, so that no single test has to pay for it."""
    import numpy as np

    import gmmatch as gm

    rows = np.random.default_rng(0).standard_normal((40, 3))
    for dtype in (np.float32, np.float64):
        gm.GMMatching(k=4).select(rows.astype(dtype), np.arange(40) % 2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """Fail a quick test that takes too much processor time: it is a slow one, and should say so.

    What Numba compiles on the way, once on every machine, does not count, nor does the first import of torch.
    """
    from numba.core import event

    compiling = event.TimingListener()
    start, had_torch = time.process_time(), "torch" in sys.modules
    with event.install_listener("numba:compile", compiling):
        result = yield
    spent = time.process_time() - start - getattr(compiling, "_duration", 0.0)
    slow = item.get_closest_marker("slow") is not None or (not had_torch and "torch" in sys.modules)
    if spent > _QUICK_SECONDS and not slow:
        pytest.fail(
            f"took {spent:.1f} s of processor time, more than {_QUICK_SECONDS:g}: make it smaller, or mark it slow"
        )
    return result
