"""Several methods on one map."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gmmatch as gm
from gmmatch import metrics
from gmmatch.errors import InvalidInputError
from gmmatch.report import write_comparison
from gmmatch.report.charts import Series, line_chart

from .conftest import blobs
from .reading import Page, unpacked

METHODS = ("random", "easy", "herding", "kernel-herding", "gm-matching")


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    X, y = blobs()
    found = {name: gm.select(X, y=y, k=30, method=name, random_state=0) for name in METHODS}
    path = tmp_path_factory.mktemp("compared") / "page.html"
    command = "gmmatch compare rows.emb -k 30 --report page.html"
    write_comparison(found, path, X, y, projection="pca", command=command)
    return X, y, found, Page(path)


def cells(page: Page, heading: str) -> dict[str, list[float]]:
    """The exact figures of a table, by the first cell of each line."""
    table = page.source.partition(f'aria-label="{heading}"')[2].partition("</table>")[0]
    lines = re.findall(r"<tr><th scope=\"row\">.*?<bdi>(.*?)</bdi></th>(.*?)</tr>", table, flags=re.DOTALL)
    return {name: [float(value) for value in re.findall(r'value="([^"]*)"', rest)] for name, rest in lines}


def test_every_method_has_a_panel_on_the_same_map(compared):
    _, _, found, page = compared
    panels = page.data()["panels"]
    assert [panel["title"] for panel in panels] == list(METHODS)
    for panel in panels:
        assert unpacked(panel["picks"]).tolist() == found[panel["title"]].order.tolist()
    assert len(page.all("canvas")) == len(METHODS)
    assert page.badly_nested == []


def test_the_figures_are_those_of_the_metrics(compared):
    X, y, found, page = compared
    labels = np.array(y)
    figures = cells(page, "Figures of the methods")
    assert list(figures) == list(METHODS)
    for name, selection in found.items():
        picks = selection.indices
        errors, distances = [], []
        for label in sorted(set(y)):
            mine, all_rows = picks[labels[picks] == label], np.flatnonzero(labels == label)
            errors.append(metrics.moment_error(X[mine], X[all_rows]))
            distances.append(metrics.mmd(X[mine], X[all_rows]))
        covered = metrics.coverage(X, selection)
        shares = metrics.imbalance(y, selection)
        expected = [np.mean(errors), np.mean(distances), covered.mean, covered.largest, shares]
        assert figures[name] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_best_of_each_figure_is_marked_unless_all_are_alike(compared):
    *_, page = compared
    figures = cells(page, "Figures of the methods")
    best = [min(column) for column in zip(*figures.values(), strict=True)][:4]
    marked = [text for attrs, text in page.all("td") if attrs.get("class") == "n best"]
    assert len(marked) == 4 and all("(best)" in text for text in marked)
    assert sorted(f"{value:.3g}" for value in best) == sorted(text.partition(" (")[0] for text in marked)


def test_the_shared_picks_are_counted(compared):
    _, _, found, page = compared
    expected = 100 * len(np.intersect1d(found["easy"].order, found["gm-matching"].order)) / 30
    table = page.source.partition('aria-label="Shared picks"')[2]
    line = table.partition('<th scope="row"><bdi>easy</bdi>')[2].partition("</tr>")[0]
    assert f">{expected:.1f}%<" in line and ">100.0%<" in line


def test_methods_of_one_color_differ_by_their_line(compared):
    *_, page = compared
    lines = [attrs["class"] for attrs, _ in page.all("polyline")]
    assert len(lines) == len(set(lines)) == len(METHODS)
    assert "line c1" in lines and "line c1 dashed" in lines  # the two herdings, as in the project's figures


def test_figures_that_were_measured_before_are_shown_as_they_are(tmp_path):
    X, y = blobs(40)
    found = {name: gm.select(X, y=y, k=4, method=name, random_state=0) for name in ("random", "easy")}
    measured = [
        {"method": "random", "contamination": 0.5, "moment_error": 1.25, "mmd": None, "seconds": 0.5},
        {"method": "easy", "contamination": 0.25, "moment_error": 2.5, "mmd": None, "seconds": 0.25},
    ]
    write_comparison(found, tmp_path / "page.html", X, y, measured=measured, caption="Measured elsewhere.")
    page = Page(tmp_path / "page.html")
    assert cells(page, "Figures of the methods") == {"random": [0.5, 1.25, 0.5], "easy": [0.25, 2.5, 0.25]}
    assert "Measured elsewhere." in page.words() and "MMD" not in page.words()


def test_shares_are_written_as_percentages(compared, tmp_path):
    X, y, found, page = compared
    measured = [{"estimated_mislabeled": 0.0123 * number} for number in range(len(found))]
    write_comparison(found, tmp_path / "page.html", X, y, projection="pca", measured=measured)
    words = Page(tmp_path / "page.html").words()
    assert "Estimated mislabeled" in words and "1.2%" in words and "4.9%" in words
    table = page.source.partition('aria-label="Figures of the methods"')[2].partition("</table>")[0]
    exact, written = zip(*re.findall(r'<data value="([^"]*)">([^<]*)</data></td></tr>', table), strict=True)
    assert list(written) == [f"{float(value):.1%}" for value in exact]  # the last column: imbalance


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A comparison where the truth is known: every seventh label is that of the next class."""
    X, y = blobs()
    true = np.array([f"class {i % 3}" for i in range(len(X))])
    found = {
        "all wrong": gm.Selection(np.flatnonzero(true != np.array(y))[::-1], n_rows=len(X)),
        "some": gm.select(X, y=y, k=30, method="random", random_state=0),
        "none": gm.Selection(np.flatnonzero(true == np.array(y))[:30], n_rows=len(X)),
    }
    path = tmp_path_factory.mktemp("judged") / "page.html"
    write_comparison(
        found, path, X, y, truth=true, projection="pca", source=[f"text {i}" for i in range(len(X))]
    )
    return y, true, found, Page(path)


def test_where_the_truth_is_known_each_method_shows_its_mislabeled_picks(judged):
    y, true, found, page = judged
    section = page.source.partition('<section id="mislabeled"')[2].partition("</section>")[0]
    galleries = re.split("<h3>", section)[1:]
    for (name, selection), gallery in zip(found.items(), galleries, strict=True):
        wrong = [row for row in selection.order.tolist() if y[row] != true[row]]
        assert gallery.startswith(f"<bdi>{name}</bdi>")
        assert f"{len(wrong) or 'none'} of {selection.k} picks, {len(wrong) / selection.k:.1%}" in gallery
        shown = [int(row) for row in re.findall(r"<blockquote[^>]*>text (\d+)<", gallery)]
        assert shown == wrong[:30]
        assert ("Show more" in gallery) == (len(wrong) > 6)
        for row, card in zip(shown, gallery.split('<li class="card"')[1:], strict=True):
            assert f'labeled <b><bdi>{y[row]}</bdi></b><br>is <b class="warm"><bdi>{true[row]}</bdi>' in card


def test_where_the_truth_is_known_it_is_the_headline_and_what_picks_are_compared_with(judged):
    y, true, found, page = judged
    words = page.words()
    assert "none picked the fewest wrong labels: 0.0%" in words
    right = int((true == np.array(y)).sum())
    assert f"Compared with the {right} correctly labeled rows." in words
    wrong = (true != np.array(y))[found["some"].indices].mean()
    assert cells(page, "Figures of the methods")["some"][0] == pytest.approx(wrong)


def test_where_no_truth_is_known_there_are_no_such_galleries(compared):
    *_, page = compared
    assert 'id="mislabeled"' not in page.source and "5 methods side by side" in page.words()


def test_nothing_to_compare_is_an_error(tmp_path):
    with pytest.raises(InvalidInputError, match="selections is empty"):
        write_comparison({}, tmp_path / "page.html", np.eye(3))


def test_a_chart_places_its_points_between_its_axes():
    x = np.array([1.0, 10.0, 100.0])
    chart = line_chart("title", "k", "error", [Series("a", "kept", x, np.array([100.0, 1.0, 0.0]))])
    places = [tuple(map(float, point.split(","))) for point in chart.curves[0].line.split()]
    assert places[0] == (chart.left, chart.top) and places[-1] == (chart.right, chart.bottom)
    # Both axes are logarithmic: the middle value lies in the middle, and 0 at the bottom beside the least.
    assert places[1][0] == pytest.approx((chart.left + chart.right) / 2, abs=0.06)
    assert places[1][1] == chart.bottom
    assert all(chart.left <= place <= chart.right for place, _ in chart.x_ticks)
    assert [text for _, text in chart.x_ticks] == ["1", "2", "5", "10", "20", "50", "100"]


def test_shares_in_a_chart_are_written_as_percentages():
    accuracy = Series("a", "kept", np.array([1.0, 2.0]), np.array([0.5, 0.8]))
    chart = line_chart("title", "k", "accuracy", [accuracy], percent=True)
    assert [text for _, text in chart.y_ticks] == ["0%", "20%", "40%", "60%", "80%"]
    assert chart.table == [["1", "50.0%"], ["2", "80.0%"]]


def test_a_chart_of_nothing_is_none_and_gaps_are_left_away():
    nothing = Series("a", "kept", np.array([1.0]), np.array([np.nan]))
    assert line_chart("title", "k", "error", [nothing]) is None
    some = Series("a", "kept", np.array([1.0, 2.0]), np.array([np.nan, 3.0]))
    assert line_chart("title", "k", "error", [some]).table == [["2", "3"]]
