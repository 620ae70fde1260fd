"""Several selections of the same rows on one page, and figures against random subsets."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gmmatch as gm

from .conftest import blobs, screening_of
from .reading import unpacked


@pytest.fixture
def selections():
    X, y = blobs()
    screening = screening_of(y)
    easy = gm.Easy(k=24, random_state=0).select(X, y, exclude=~screening.trusted)
    return X, y, {
        "easy": easy.change(slice(None), screening=screening),
        "random": gm.Random(k=24, random_state=0).select(X, y),
    }  # fmt: skip


def test_each_selection_has_a_map_and_a_line(page_of, selections):
    X, y, made = selections
    page = page_of(made, X, y)
    assert page.all("h1")[0][1] == "2 selections side by side"
    panels = page.data()["panels"]
    assert [panel["title"] for panel in panels] == ["easy", "random"]
    assert [unpacked(panel["picks"]).tolist() for panel in panels] == [
        one.order.tolist() for one in made.values()
    ]
    assert len(page.all("canvas")) == 2
    lines = page.table("The selections")
    screening = made["easy"].screening
    n_wrong = int((screening.verdict[made["random"].indices] == "wrong").sum())
    shared = np.isin(made["random"].indices, made["easy"].indices).mean()
    assert lines["easy"][:3] == ["24", "0", "0"]
    assert lines["random"][:2] == ["24", str(n_wrong)]
    assert lines["random"][3] == f"{100 * shared:.1f}%"


def test_the_wrong_picks_of_each_are_shown(page_of, selections):
    X, y, made = selections
    page = page_of(made, X, y)
    verdict = made["easy"].screening.verdict
    at = re.findall(
        r'data-verdict="wrong" data-reason="random".*?data-at="(\d+)"', page.source, flags=re.DOTALL
    )
    wrong = made["random"].indices[verdict[made["random"].indices] == "wrong"]
    assert sorted(map(int, at)) == wrong.tolist()
