"""The picks are those that are recorded; ``python -m tests.recorded.record`` records others on purpose."""

from __future__ import annotations

import pytest
from cases import CASES, METHODS
from one_case import Place, missing, ray_cluster
from record import read

RECORDED = read()


@pytest.fixture(scope="module")
def cluster():
    with ray_cluster():
        yield


def check(name, tmp_path):
    case = CASES[name]
    if missing(case):
        pytest.skip(f"needs {missing(case)}")
    found, then = case.record(Place(tmp_path)), RECORDED[name]
    assert found["first"] == then["first"]
    assert (found["hash"], found["k"]) == (then["hash"], then["k"])


@pytest.mark.parametrize("name", [name for name in RECORDED if not {"ray", "cuda"} & set(CASES[name].needs)])
def test_picks_are_those_that_are_recorded(name, tmp_path):
    check(name, tmp_path)


def test_picks_on_cuda_are_those_that_are_recorded(tmp_path):
    for name in RECORDED:
        if "cuda" in CASES[name].needs:
            check(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in RECORDED if "ray" in CASES[name].needs])
def test_picks_on_ray_are_those_that_are_recorded(cluster, name, tmp_path):
    check(name, tmp_path)


def test_every_case_is_recorded_and_every_method_is_a_case():
    assert list(RECORDED) == list(CASES)
    for method in METHODS:
        assert {f"{method}/dense", f"{method}/labelled", f"store/{method}", f"cuda/{method} dense"} <= set(
            CASES
        )
