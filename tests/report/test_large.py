"""Fifty thousand rows are a page of a few megabytes that a browser opens without a word."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm

from .looking import needs_browser
from .reading import Page, unpacked

N = 50_000


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    random = np.random.default_rng(0)
    y = random.integers(0, 100, N)
    X = (random.normal(size=(N, 8)) + 4.0 * random.normal(size=(100, 8))[y]).astype(np.float32)
    ids = [
        f"a/folder/with/a/long/name/class-{label:03d}/photograph-{i:08d}.jpeg" for i, label in enumerate(y)
    ]
    path = tmp_path_factory.mktemp("large") / "page.html"
    selection = gm.Random(k="10%", random_state=0).select(X, y, ids=ids)
    selection.report(path, X, y, ids=ids)
    return path, selection


@pytest.mark.slow
def test_it_holds_every_row_in_less_than_ten_megabytes(large):
    path, selection = large
    assert path.stat().st_size < 10_000_000
    page = Page(path)
    data = page.data()
    assert len(page.map()) == N and "thinned" not in page.words()
    assert len(unpacked(data["panels"][0]["picks"])) == selection.k == 5_000


@pytest.mark.slow
@needs_browser
def test_it_opens_and_is_drawn(large, browser):
    browser.open(large[0])
    assert browser.complaints == []
    assert browser.run("document.querySelector('#upto-said').textContent") == "all 5,000 picks"
