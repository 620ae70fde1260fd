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


def test_figures_are_those_of_the_metrics(page_of, selections):
    X, y, made = selections
    page = page_of(made, X, y, quality=True)
    values = [float(attrs["value"]) for attrs, _ in page.all("data")]
    names = [text for _, text in page.all("bdi")]
    assert "random subsets" in names and len(values) == 3 * 5  # three lines of five figures
    labels, trusted = np.array(y), made["easy"].screening.trusted
    errors = [
        np.linalg.norm(X[one][labels[one] == name].mean(axis=0) - X[trusted & (labels == name)].mean(axis=0))
        for one in [made["easy"].indices]
        for name in sorted(set(y))
    ]
    assert values[0] == pytest.approx(np.mean(errors))
    gaps = np.linalg.norm(X[trusted][:, None] - X[made["easy"].indices], axis=2).min(axis=1)
    assert values[2:4] == pytest.approx([gaps.mean(), gaps.max()])
    assert values[4] == pytest.approx(gm.metrics.imbalance(y, made["easy"]))


def test_figures_are_measured_only_on_request(page_of, selections):
    X, y, made = selections
    assert "random subsets" not in page_of(made["easy"], X, y).words()
    page = page_of(made["easy"], X, y, quality=True)
    assert "How well the picks stand for the rows" in page.words()
    drawn = [attrs["class"] for name, attrs, _ in page.elements if name in ("polyline", "polygon")]
    legend = page.source.partition('<ul class="legend">')[2].partition("</ul>")[0]
    assert sorted(drawn) == sorted(re.findall(r'<(?:line|rect) class="([^"]*)"', legend))
    table = page.table("Moment error against k as a table")
    assert list(table)[-1] == "24" and all(len(line) == 2 for line in table.values())
