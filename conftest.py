"""What pytest must not import on this machine, how hypothesis draws its cases, and which of a grid's are quick."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

# The kernels' modules need Triton, which comes with torch for CUDA.
collect_ignore_glob = (
    []
    if find_spec("triton")
    else [
        "src/gmmatch/backends/cuda/*_triton.py",
        "paper/src/gmmatch_paper/training/networks/norm_kernels.py",
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
