"""Whatever is in a file or an argument, it is read or refused by one sentence: some inputs of the fuzzing command."""

from __future__ import annotations

import signal
import warnings

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.errors import GMMatchError, InvalidInputError
from tests.reliability import fuzz
from tests.reliability.counts import committed, counted

X = np.random.default_rng(0).normal(size=(12, 3))


@pytest.fixture
def outcome(tmp_path, monkeypatch, torch):
    """Try some inputs of a case in this process; return what became of them."""
    before = signal.signal(signal.SIGPROF, fuzz._stop)
    pytest.importorskip("pandas")

    def run(case, numbers):
        attempt = fuzz.CASES[case](tmp_path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {fuzz.outcome(attempt, case, number) for number in numbers}

    yield run
    signal.signal(signal.SIGPROF, before)


@pytest.mark.parametrize("case", fuzz.CASES)
def test_the_first_inputs_of_each_case(outcome, case):
    assert outcome(case, range(40)) <= {"read", "refused"}


def test_a_parquet_file_whose_rows_are_fewer_than_it_says(outcome):
    assert outcome("texts.parquet", [91]) == {"refused"}


@pytest.mark.parametrize(
    "arguments",
    [{"k": np.arange(12)}, {"screening": np.eye(3)}, {"n_jobs": np.arange(3)}, {"reference_weight": np.arange(3)},
     {"unlabeled": np.arange(3), "y": ["a", "b"] * 6}],
    ids=lambda arguments: next(iter(arguments)),
)  # fmt: skip
def test_an_array_where_another_value_belongs(arguments):
    with pytest.raises(GMMatchError, match=next(iter(arguments))):
        gm.select(X, **{"k": 3, "method": "easy", **arguments})


@pytest.mark.parametrize("n_rows", [None, "5", 2.5, [], {}, -1])
def test_picks_of_no_number_of_rows(n_rows):
    with pytest.raises(InvalidInputError, match=r"n_rows=.*: expected a whole number of at least 0"):
        gm.Selection([], n_rows=n_rows)


@pytest.mark.slow
def test_the_command_counts_what_became_of_its_inputs():
    found = counted("fuzz", "--inputs", 54, "--first", 1_000_000)
    assert (found["read"] + found["refused"], found["failed"]) == (54, 0)


def test_the_committed_counts_are_of_every_case():
    found = committed("fuzz")
    assert found["inputs"] >= 100_000
    assert set(found["cases"]) == set(fuzz.CASES) and found["failed"] == 0
    assert found["read"] + found["refused"] == found["inputs"]
