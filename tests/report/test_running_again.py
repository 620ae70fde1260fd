"""The page's lines of Python make the selection again."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.report.rerun import python_to_run_again

from .conftest import blobs

X, Y = blobs(60)
WEIGHTS = np.linspace(1.0, 2.0, 60)


@pytest.mark.parametrize(
    ("selector", "called_with"),
    [
        (gm.GMMatching(k=6), {}),
        (gm.GMMatching(k="10%", normalize=True, unit_target=True), {"y": Y}),
        (gm.GMMatching(k=0.2, per_class="balanced", preprocess=["center", "pca:3"]), {"y": Y}),
        (gm.Easy(center="geometric-median", per_class={"class 0": 3, "class 1": 2, "class 2": 1}), {"y": Y}),
        (gm.Easy(per_class={0: 3, 1: 2, 2: 1}), {"y": [int(label[-1]) for label in Y]}),
        (gm.Random(k=7), {"y": Y, "sample_weight": WEIGHTS, "include": [3], "exclude": [5, 6]}),
        (gm.KernelHerding(k=5, kernel=gm.RBF(bandwidth=2.0)), {}),
        (gm.KernelHerding(k=5, kernel=("rbf", {"bandwidth": 3.0})), {"y": Y}),
        (gm.Herding(k=4, per_class=None), {"y": Y}),
        (gm.Moderate(k=6, random_state=11), {"y": Y}),
    ],
)
def test_running_it_gives_the_same_picks(selector, called_with):
    selection = selector.select(X, **called_with)
    names = {"X": X, **called_with}
    exec(compile(python_to_run_again(selection), "page", "exec"), names)
    assert names["selection"].order.tolist() == selection.order.tolist()


def test_a_prefix_is_taken_again():
    selection = gm.Easy(k=10, random_state=0).select(X).prefix(4)
    names = {"X": X}
    exec(compile(python_to_run_again(selection), "page", "exec"), names)
    assert names["selection"].order.tolist() == selection.order.tolist()


def test_what_is_not_recorded_is_not_made_up(page_of):
    for provenance in ({}, {"method": "mine", "parameters": {}, "seed": 0}, {"method": "easy"}):
        assert python_to_run_again(gm.Selection([0], n_rows=60, provenance=provenance)) is None
    page = page_of(gm.Selection([0], n_rows=60), X)
    assert "How this selection was made is not recorded" in page.words()


def test_the_page_shows_the_lines_and_the_command(made):
    code = [text for _, text in made.page.all("code")]
    assert code[0] == "gmmatch select rows.emb -k 24 -o picks.parquet --report picks.html"
    assert "gm.GMMatching(k=24, random_state=3).select(X, y, exclude=exclude)" in code[1]
