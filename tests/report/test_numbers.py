"""The numbers on the page are those of gmmatch.metrics, and of the selection."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch import metrics
from gmmatch.report import quality as module
from gmmatch.report.names import classes_of
from gmmatch.report.quality import moment_errors, random_orders
from gmmatch.yardsticks import Yardsticks

from .conftest import blobs


def by_class(y: list[str], rows: np.ndarray) -> dict[str, np.ndarray]:
    labels = np.array(y)[rows]
    return {label: rows[labels == label] for label in sorted(set(y))}


def averages(X: np.ndarray, y: list[str], picks: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    """Moment error and MMD of each class, averaged, by the functions of gmmatch.metrics."""
    mine, theirs = by_class(y, picks), by_class(y, reference)
    errors = [metrics.moment_error(X[mine[label]], X[theirs[label]]) for label in mine]
    distances = [metrics.mmd(X[mine[label]], X[theirs[label]]) for label in mine]
    return float(np.mean(errors)), float(np.mean(distances))


def test_the_figures_are_those_of_the_metrics_against_the_rows_that_were_not_screened_out(made):
    page, picks = made.page, made.selection.indices
    good = np.flatnonzero(made.selection.screening.kept)
    error, distance = averages(made.X, made.y, picks, good)
    assert page.figure("figure-moment_error") == pytest.approx(error, rel=1e-12)
    assert page.figure("figure-mmd") == pytest.approx(distance, rel=1e-12)
    covered = metrics.coverage(made.X[good], np.searchsorted(good, picks))
    assert page.figure("figure-coverage_mean") == pytest.approx(covered.mean, rel=1e-9)
    assert page.figure("figure-coverage_max") == pytest.approx(covered.largest, rel=1e-9)
    assert f"Compared with the {len(good)} trusted rows." in page.words()


def test_without_labels_all_rows_are_measured_together(page_of):
    X, _ = blobs(80)
    selection = gm.Herding(k=9, random_state=0).select(X)
    page = page_of(selection, X)
    assert page.figure("figure-moment_error") == pytest.approx(
        metrics.moment_error(X[selection.indices], X), rel=1e-12
    )
    assert page.figure("figure-mmd") == pytest.approx(metrics.mmd(X[selection.indices], X), rel=1e-12)
    assert "Compared with all 80 rows." in page.words()


def test_random_subsets_have_as_many_rows_of_each_class_and_are_measured_alike(made):
    classes = classes_of(made.y, len(made.X)).of_row
    orders = random_orders(made.selection, Yardsticks(made.X, classes, seed=3))
    assert len(orders) == 5 and len({tuple(order) for order in orders}) == 5
    labels = np.array(made.y)
    for order in orders:
        assert len(set(order.tolist())) == made.selection.k
        # The same sequence of classes, so that a prefix of one compares with a prefix of the other.
        assert labels[order].tolist() == labels[made.selection.order].tolist()
    good = made.selection.screening.kept
    against = Yardsticks(made.X, classes, reference=good, seed=3)
    mean = np.mean([averages(made.X, made.y, np.sort(order), np.flatnonzero(good))[0] for order in orders])
    assert np.mean([against.measure(order).moment_error for order in orders]) == pytest.approx(mean)
    assert made.page.figure("random-moment_error") == pytest.approx(mean)


def test_the_curve_of_the_moment_error_is_that_of_the_prefixes(made):
    steps, errors = moment_errors(made.selection.order, Yardsticks(made.X))
    assert steps[0] == 1 and steps[-1] == made.selection.k
    expected = [metrics.moment_error(made.X[made.selection.order[:k]], made.X) for k in steps]
    assert errors == pytest.approx(np.array(expected), rel=1e-10)


def test_large_inputs_are_measured_on_a_sample_and_the_page_says_so(page_of, monkeypatch):
    X, y = blobs(300)
    monkeypatch.setattr(module, "_MMD_ROWS", 40)
    monkeypatch.setattr(module, "_COVERED_ROWS", 50)
    selection = gm.Easy(k=30, random_state=0).select(X, y)
    page = page_of(selection, X, y)
    words = page.words()
    assert "MMD is that of a random sample of 69 rows" in words  # 40 times the root of 3 classes
    assert "Coverage is that of a random sample of 50 rows" in words
    # Means cost little: they stay those of all rows.
    error, _ = averages(X, y, selection.indices, np.arange(300))
    assert page.figure("figure-moment_error") == pytest.approx(error, rel=1e-12)
    exact = metrics.coverage(X, selection)
    assert page.figure("figure-coverage_mean") == pytest.approx(exact.mean, rel=0.3)
    assert page.figure("figure-coverage_max") <= exact.largest


def test_data_far_from_the_origin_keeps_its_digits(made):
    classes = classes_of(made.y, len(made.X)).of_row
    near, far = Yardsticks(made.X, classes), Yardsticks(made.X + 1e6, classes)
    mine, theirs = near.measure(made.selection.order), far.measure(made.selection.order)
    assert theirs.coverage_mean == pytest.approx(mine.coverage_mean, rel=1e-6)
    assert theirs.moment_error == pytest.approx(mine.moment_error, rel=1e-6)


def test_the_table_of_classes_counts_rows_picks_and_screened_rows(made):
    page = made.page
    labels = np.array(made.y)
    kept = made.selection.screening.kept
    lines = page.source.partition('class="classes"')[2].partition("</table>")[0]
    for label in sorted(set(made.y)):
        mine = labels == label
        cells = [
            int(mine.sum()),
            int(mine[made.selection.order].sum()),
            int((mine & ~kept).sum()),
        ]
        line = lines.partition(f"<bdi>{label}</bdi>")[2].partition("</tr>")[0]
        assert [int(cell) for cell in _cells(line)[:3]] == cells
        assert _cells(line)[3] == f"{100 * mine.mean():.1f}%"


def _cells(line: str) -> list[str]:
    import re

    return re.findall(r'<td class="n">([^<]*)</td>', line)


def test_the_summary_says_what_was_asked_and_what_came_out(made):
    words = made.page.words()
    screened_out = int((~made.selection.screening.kept).sum())
    assert f"24 rows were picked from the {120 - screened_out} that are trusted" in words
    assert f"{screened_out} not trusted" in words
    assert f"{120 - 24 - screened_out} not picked" in words
    facts = dict(
        zip(
            [text for _, text in made.page.all("dt")],
            [text.strip() for _, text in made.page.all("dd")],
            strict=True,
        )
    )
    assert facts["Method"] == "gm-matching" and facts["Seed"] == "3" and facts["Time"] == "1.2 s"
    assert facts["Made by"] == f"gmmatch {gm.__version__}"
    assert facts["Rows"] == "120 of 5 numbers each (float64)"
    assert facts["Asked for"] == "k = 24, proportional over the classes"
