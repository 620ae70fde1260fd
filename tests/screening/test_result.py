"""Screenings as objects and in files."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.errors import InvalidInputError
from gmmatch.screening import Screening


def example(labels=("a", "b", "a")):
    return Screening(
        np.array([True, False, False]),
        np.array([0.0, 0.1 + 0.2, 1.0]),
        np.array([0, 1, 4], dtype=np.int8),
        suggested_labels=None if labels is None else np.array(labels, dtype=object),
    )


def test_counts_say_why_rows_were_dropped():
    assert example().counts == {"likely mislabeled": 1, "far out": 1}


def test_arrays_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        example().kept[0] = False


def test_lengths_and_reasons_are_checked():
    with pytest.raises(InvalidInputError, match="probability"):
        Screening(np.ones(2, dtype=bool), np.zeros(3), np.zeros(2, dtype=np.int8))
    with pytest.raises(InvalidInputError, match="reason"):
        Screening(np.ones(1, dtype=bool), np.zeros(1), np.full(1, 9, dtype=np.int8))
    with pytest.raises(InvalidInputError, match="screening"):
        gm.Selection([0], n_rows=5, screening=example())


@pytest.mark.parametrize("suffix", ["parquet", "json", "npy"])
@pytest.mark.parametrize("labels", [None, ("a", "b", "a"), (3, 1, 3)])
def test_a_file_keeps_it_exactly(tmp_path, suffix, labels):
    selection = gm.Selection([2, 0], n_rows=3, screening=example(labels))
    path = tmp_path / f"picks.{suffix}"
    selection.save(path)
    loaded = gm.Selection.load(path)
    assert loaded == selection
    assert loaded.screening == selection.screening
    assert loaded.prefix(1).screening == selection.screening
    assert pickle.loads(pickle.dumps(selection)).screening == selection.screening


def test_selections_without_one_are_read_and_written_as_before(tmp_path):
    gm.Selection([2, 0], n_rows=3).save(tmp_path / "picks.json")
    assert "screening" not in (tmp_path / "picks.json").read_text()
    assert gm.Selection.load(tmp_path / "picks.json").screening is None
