"""What was learnt: the headline, the matrix of labels, and the table to download."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.report import findings, page
from gmmatch.report.findings import headline, in_short, mixed_up, suspect_table
from gmmatch.report.names import RowNames, classes_of
from gmmatch.screening.result import FAR_OUT, IN_DOUBT, MISLABELED, REASONS, Screening


def selection_with(reasons: list[str], looks_like: list[str], **more) -> gm.Selection:
    """One pick, and a screen with these reasons (empty: trusted)."""
    reason = np.array([REASONS.index(one) for one in reasons], dtype=np.int8)
    chance = np.linspace(0.5, 0.9, len(reasons))
    labels = np.array(looks_like, dtype=object)
    screening = Screening(reason == 0, chance, reason, suggested_labels=labels, **more)
    return gm.Selection([reasons.index("")], n_rows=len(reasons), screening=screening)


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        (["", MISLABELED, MISLABELED, FAR_OUT], "2 labels look wrong"),
        (["", MISLABELED], "1 label looks wrong"),
        (["", FAR_OUT, IN_DOUBT], "2 rows are not trusted"),
        (["", FAR_OUT], "1 row is not trusted"),
        (["", ""], "2 rows, and nothing looks wrong"),
    ],
)
def test_the_headline_is_what_was_learnt(reasons, words):
    assert headline(selection_with(reasons, ["a"] * len(reasons))) == words


def test_the_sentences_below_count_every_row(made):
    reasons = ["", "", "", MISLABELED, IN_DOUBT, IN_DOUBT, FAR_OUT, FAR_OUT]
    said = in_short(selection_with(reasons, ["a"] * 8, noise_rate=0.25))
    assert said == (
        "That is 12.5% of 8 rows; the label noise is estimated at 25.0%. Also not trusted: label in doubt (2), "
        "far out (2). 1 row was picked from the 3 that are trusted."
    )
    ((_, title),) = made.page.all("h1")
    assert title == f"{made.selection.screening.counts[MISLABELED]} labels look wrong"


def test_six_examples_stand_right_below_the_headline_and_the_rest_is_one_step_away(made):
    first, _, rest = made.page.source.partition('<section id="findings"')[2].partition("<details")
    rest = rest.partition("</details>")[0]
    assert first.count('class="card"') == 6 and first.index("</h1>") < first.index('class="card"')
    shown = sum(min(30, count) for count in made.selection.screening.counts.values())
    assert rest.count('class="card"') == shown - 6


def test_the_matrix_counts_every_label_that_looks_wrong():
    y = ["cat", "cat", "dog", "dog", "owl", "owl"]
    reasons = ["", MISLABELED, MISLABELED, MISLABELED, MISLABELED, FAR_OUT]
    found = mixed_up(selection_with(reasons, ["cat", "dog", "cat", "cat", "owl", "cat"]), classes_of(y, 6))
    assert found.columns == ["cat", "dog", "owl", "unclear"]
    counts = {name: [cell.count for cell in cells] for name, _, cells in found.lines}
    # The owl whose label is doubted, without another being likelier, is unclear.
    assert counts == {"cat": [0, 1, 0, 0], "dog": [2, 0, 0, 0], "owl": [0, 0, 0, 1]}
    assert [total for _, total, _ in found.lines] == [1, 2, 1]
    assert [cell.shade for cell in found.lines[1][2]] == [5, 0, 0, 0]
    assert [cell.own for cell in found.lines[1][2]] == [False, True, False, False]


def test_of_many_classes_the_largest_pairs_are_listed(monkeypatch, page_of):
    monkeypatch.setattr(findings, "MOST_CLASSES", 4)
    monkeypatch.setattr(findings, "MOST_PAIRS", 3)
    y = ["a", "e", "a", "a", "b", "b", "c", "d"]
    looks = ["a", "a", "e", "e", "b", "c", "b", "b"]
    selection = selection_with(["", *[MISLABELED] * 7], looks)
    found = mixed_up(selection, classes_of(y, 8))
    assert found.lines == [] and found.pairs == [("a", "e", 2), ("b", "c", 1), ("b", "unclear", 1)]
    page = page_of(selection, np.arange(16.0).reshape(8, 2), y)
    table = page.source.partition('<table class="pairs">')[2].partition("</table>")[0]
    assert re.findall("<bdi>(.*?)</bdi>", table) == ["a", "e", "b", "c", "b", "unclear"]


def test_the_page_shows_the_matrix(made):
    table = made.page.source.partition('<table class="matrix">')[2].partition("</table>")[0]
    totals = [int(total) for total in re.findall(r'<td class="n strong">([^<]*)<', table)]
    wrong = made.selection.screening.reason == 1
    labels = np.array(made.y)
    assert totals == [int((wrong & (labels == label)).sum()) for label in sorted(set(made.y))]


def test_where_nothing_is_mislabeled_there_is_no_matrix():
    classes = classes_of(["a", "b"], 2)
    assert mixed_up(selection_with(["", FAR_OUT], ["a", "b"]), classes) is None
    assert mixed_up(gm.Selection([0], n_rows=2), classes) is None
    assert suspect_table(gm.Selection([0], n_rows=2), classes, RowNames(None, [], 2)) is None


def test_the_button_says_how_many_rows_it_saves_where_that_is_not_all(page_of, monkeypatch):
    X, y = np.arange(8.0).reshape(4, 2), ["a", "b", "b", "a"]
    selection = selection_with(["", MISLABELED, MISLABELED, MISLABELED], ["a"] * 4)
    ((_, words),) = page_of(selection, X, y).all("button", id="download")
    assert words == "Download as CSV"
    for module in (findings, page):
        monkeypatch.setattr(module, "MOST_LISTED", 2)
    written = page_of(selection, X, y)
    ((_, words),) = written.all("button", id="download")
    assert words == "Download the 2 most suspicious as CSV" and len(written.data()["suspects"]["row"]) == 2


def test_the_table_has_every_row_that_is_not_trusted_with_its_whole_id(monkeypatch):
    y, long = ["a", "b", "b", "a"], "x" * 500
    selection = selection_with(["", MISLABELED, FAR_OUT, ""], ["a", "a", "b", "a"])
    names = RowNames(["i", long, "k", "l"], [], 4)
    found = suspect_table(selection, classes_of(y, 4, {"a": "Name"}), names)
    assert found == {
        "row": [2, 1],
        "id": ["k", long],
        "label": ["b", "b"],
        "suggested_label": ["b", "a"],
        "probability": [0.7667, 0.6333],
        "reason": ["far out", "likely mislabeled"],
    }
    monkeypatch.setattr(findings, "MOST_LISTED", 1)
    assert suspect_table(selection, classes_of(y, 4), names)["row"] == [2]
    assert "id" not in suspect_table(selection, classes_of(y, 4), RowNames(None, [], 4))
