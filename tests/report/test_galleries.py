"""The galleries: the most suspicious rows first, and the picks that are typical of their class."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.report import galleries
from gmmatch.report.galleries import screened_out, standing_apart, typical_picks
from gmmatch.report.names import classes_of
from gmmatch.rows.rows import Rows
from gmmatch.screening.result import Screening
from gmmatch.yardsticks import class_means

from .conftest import blobs


def test_what_is_not_trusted_comes_in_turns_the_most_suspicious_of_each_class_first(made):
    classes = classes_of(made.y, len(made.X))
    found = screened_out(made.selection, classes)
    screening = made.selection.screening
    assert [(one.reason, one.total) for one in found] == list(screening.counts.items())
    for one in found:
        of_class = classes.of_row[one.rows]
        turns = [int((of_class[:i] == of_class[i]).sum()) for i in range(len(one.rows))]
        assert turns == sorted(turns)
        for turn in set(turns):
            assert (np.diff(screening.probability[one.rows[np.array(turns) == turn]]) <= 0).all()
        assert (one.suspicion == screening.probability[one.rows]).all()
        assert not screening.kept[one.rows].any()
        assert len(one.rows) == min(one.total, galleries.SUSPICIOUS_PER_REASON)
        assert [classes.names[i] for i in one.looks_like] == screening.suggested_labels[one.rows].tolist()


def test_cards_say_which_label_a_row_has_and_which_it_looks_like(made):
    page, screening = made.page, made.selection.screening
    wrong = np.flatnonzero(screening.reason == 1)
    first = wrong[np.argsort(-screening.probability[wrong], kind="stable")][0]
    cards = [" ".join(text.split()) for attrs, text in page.all("li") if attrs.get("class") == "card"]
    assert f"labeled {made.y[first]}looks like {screening.suggested_labels[first]}" in cards[0]
    chance = screening.probability[first]
    assert (">99%" if chance >= 0.995 else f"{chance:.0%}") in cards[0]
    (titles,) = {
        attrs["title"] for attrs, _ in page.all("p", class_="id") if made.ids[first] == attrs["title"]
    }
    assert titles == made.ids[first] and "photos/cl…" in cards[0]
    reasons = [attrs.get("data-reason") for attrs, _ in page.all("li") if attrs.get("class") == "card"]
    assert reasons[0] == "likely mislabeled" and "far out" in reasons


def test_a_picture_that_cannot_be_read_has_a_placeholder_with_a_name(made):
    last = len(made.X) - 1
    selection = gm.Selection([last], n_rows=len(made.X), ids=[made.ids[last]])
    from gmmatch.report import write_report

    from .conftest import pictures
    from .reading import Page

    target = made.path.with_name("broken.html")
    write_report(selection, target, made.X, source=pictures(len(made.X)))
    holders = [attrs for attrs, _ in Page(target).all("p") if attrs.get("class") == "broken"]
    assert [attrs["aria-label"] for attrs in holders] == [f"{made.ids[last]}: cannot be shown"]


def test_a_screen_without_labels_to_compare_leaves_that_open(page_of):
    X, _ = blobs(20)
    kept = np.arange(20) != 4
    screening = Screening(kept, np.where(kept, 0.0, 1.0), np.where(kept, 0, 4).astype(np.int8))
    page = page_of(gm.Selection([1, 2], n_rows=20, screening=screening), X)
    words = page.words()
    assert "Not trusted: far out (1). 2 rows were picked" in words and "looks like" not in words


def test_a_screen_that_ruled_out_nothing_says_so(page_of):
    X, _ = blobs(20)
    screening = Screening(np.ones(20, dtype=bool), np.full(20, -1.0), np.zeros(20, dtype=np.int8))
    page = page_of(gm.Selection([1, 2], n_rows=20, screening=screening), X)
    assert "20 rows, and nothing looks wrong" in page.words()


def test_without_a_screen_rows_nearer_to_another_class_stand_apart():
    X, y = blobs(90)
    selection = gm.GMMatching(k=30, random_state=0).select(X, y)
    classes = classes_of(y, 90)
    centres = class_means(Rows(X), selection.order, classes.of_row, len(classes))
    (found,) = standing_apart(Rows(X), np.arange(90), classes, centres)
    gaps = np.linalg.norm(X[:, None] - centres, axis=2)
    own = gaps[np.arange(90), classes.of_row]
    gaps[np.arange(90), classes.of_row] = np.inf
    wrong = np.flatnonzero(own > gaps.min(axis=1))
    assert found.total == len(wrong) and set(found.rows) <= set(wrong)
    ratio = own[found.rows] / gaps.min(axis=1)[found.rows]
    assert (np.diff(ratio) <= 1e-12).all() and ratio[0] == pytest.approx((own / gaps.min(axis=1)).max())
    assert found.looks_like.tolist() == gaps.argmin(axis=1)[found.rows].tolist()
    # Most of them are the rows whose label was changed.
    assert (found.rows % 7 == 3).mean() > 0.8


def test_without_labels_the_rows_farthest_from_the_picks_stand_apart():
    X, _ = blobs(50)
    classes = classes_of(None, 50)
    centres = X[:10].mean(axis=0, keepdims=True)
    (found,) = standing_apart(Rows(X), np.arange(50), classes, centres)
    expected = np.argsort(-np.linalg.norm(X - centres, axis=1))[: galleries.SUSPICIOUS_PER_REASON]
    assert found.rows.tolist() == expected.tolist() and (found.looks_like == -1).all()


def test_rows_that_all_lie_with_their_class_are_not_suspected(page_of):
    X = np.repeat([[0.0], [10.0]], 10, axis=0) + np.arange(20)[:, None] * 0.01
    y = ["a"] * 10 + ["b"] * 10
    page = page_of(gm.Easy(k=4).select(X, y), X, y)
    assert "4 of 20 rows picked" in page.words() and "Worth a look" not in page.words()


def test_typical_picks_are_the_ones_nearest_to_the_mean_of_their_class(made):
    classes = classes_of(made.y, len(made.X))
    centres = class_means(Rows(made.X), made.selection.order, classes.of_row, len(classes))
    found = typical_picks(Rows(made.X), made.selection, classes, centres)
    for number, rows in found.items():
        mine = made.selection.indices[classes.of_row[made.selection.indices] == number]
        gaps = np.linalg.norm(made.X[mine] - made.X[mine].mean(axis=0), axis=1)
        assert rows.tolist() == mine[np.argsort(gaps)][: galleries.TYPICAL_PER_CLASS].tolist()


def test_of_very_many_classes_those_with_the_most_picks_are_shown(page_of, monkeypatch):
    monkeypatch.setattr(galleries, "MOST_TYPICAL", 12)
    X, y = blobs(120, classes=10)
    sizes = {f"class {i}": 1 + (i in (2, 7)) for i in range(10)}
    page = page_of(gm.Easy(per_class=sizes).select(X, y), X, y, source=["a text"] * 120)
    assert "Shown are 2 of 10 classes" in page.words()
    section = page.source.partition('class="typical"')[2].partition("</section>")[0]
    assert re.findall(r"<h4><bdi>([^<]*)</bdi>", section) == ["class 2", "class 7"]


def test_picks_without_a_picture_or_text_are_no_gallery(page_of):
    X, y = blobs(30)
    selection = gm.Easy(k=6).select(X, y)
    assert "Typical picks" in page_of(selection, X, y, source=["a text"] * 30).words()
    assert "Typical picks" not in page_of(selection, X, y).words()


def test_many_classes_fold_away(page_of):
    X, y = blobs(120, classes=40)
    page = page_of(gm.Easy(k=40).select(X, y), X, y)
    assert "16 more classes" in [text for _, text in page.all("summary")]


def test_class_names_replace_labels(page_of):
    X, y = blobs(30)
    numbers = [int(label[-1]) for label in y]
    selection = gm.Easy(k=6).select(X, numbers)
    assert page_of(selection, X, numbers, class_names=["cat", "dog", "owl"]).data()["classes"] == [
        "cat",
        "dog",
        "owl",
    ]
    named = page_of(selection, X, numbers, class_names={0: "cat"}).data()["classes"]
    assert named == ["cat", "1", "2"]


def test_rows_without_a_label_are_a_class_of_their_own_on_the_page(page_of):
    X, y = blobs(30)
    some = [None if i % 3 == 0 else label for i, label in enumerate(y)]
    with pytest.warns(gm.errors.UnlabeledRowsWarning):
        selection = gm.Easy(k=6).select(X, some)
    assert page_of(selection, X, some).data()["classes"][-1] == "(no label)"


def test_the_largest_groups_of_near_duplicates_are_shown(tmp_path):
    import gmmatch as gm

    X = np.random.default_rng(0).standard_normal((100, 8))
    X[60:90] = X[3]
    X[90:] = X[:10] + 1e-4
    page = tmp_path / "picks.html"
    gm.select(X, k=10, duplicates="one").report(page, X, source=[f"text {i}" for i in range(100)])
    text = page.read_text(encoding="utf-8")
    section = text[text.index('id="duplicates"') : text.index('<section id="quality"')]
    assert "40 rows were left out" in section and "32 rows, 8 shown" in section
    assert [name in section for name in ("text 3<", "text 60<", "text 91<", "text 40<")] == [
        True,
        True,
        True,
        False,
    ]
    gm.select(X, k=10).report(page, X)
    assert 'id="duplicates"' not in page.read_text(encoding="utf-8")
