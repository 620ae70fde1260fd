"""The picks are those that are recorded; ``python -m tests.recorded.record`` records others on purpose."""

from __future__ import annotations

import pytest

from tests.recorded.cases import CASES, METHODS
from tests.recorded.record import read

RECORDED = read()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if "ray" in CASES[name].needs else [])
        for name in RECORDED
        if "cuda" not in CASES[name].needs
    ],
)
def test_picks_are_those_that_are_recorded(name, tmp_path, request):
    case = CASES[name]
    if lacking := case.lacks():
        pytest.skip(f"needs {lacking}")
    if "ray" in case.needs:
        request.getfixturevalue("ray_cluster")
    assert case.record(tmp_path) == RECORDED[name]


def test_picks_on_cuda_are_those_that_are_recorded(tmp_path):
    cases = [case for case in CASES.values() if "cuda" in case.needs]
    if lacking := cases[0].lacks():
        pytest.skip(f"needs {lacking}")
    for case in cases:
        assert case.record(tmp_path) == RECORDED[case.name], case.name


def test_every_case_is_recorded_and_every_method_is_a_case():
    assert list(RECORDED) == list(CASES)
    for method in METHODS:
        assert {f"{method}/dense", f"{method}/labelled", f"store/{method}", f"cuda/{method} dense"} <= set(
            CASES
        )
