"""Large data are thinned for drawing, and the page says so."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.errors import InvalidInputError, MissingDependencyError
from gmmatch.report import projection as projections
from gmmatch.report.map_data import choose_rows, first_view, row_states
from gmmatch.report.projection import check_projection, project
from gmmatch.rows.rows import Rows

from .conftest import blobs
from .reading import unpacked


@pytest.mark.parametrize("limit", [1, 7, 40, 99, 100])
def test_a_part_of_every_state_is_drawn_and_never_more_than_the_limit(limit):
    states = np.repeat(np.array([0, 1, 2], dtype=np.uint8), [60, 30, 10])
    drawn = choose_rows(states, limit, np.random.default_rng(0))
    assert len(drawn.rows) == limit == sum(count for count, _ in drawn.counts)
    assert len(np.unique(drawn.rows)) == limit and (np.diff(drawn.rows) > 0).all()
    for state, (count, total) in enumerate(drawn.counts):
        assert (states[drawn.rows] == state).sum() == count <= total == (states == state).sum()
    assert drawn.is_everything == (limit == 100)


def test_the_places_of_a_state_with_few_rows_go_to_the_others():
    states = np.repeat(np.array([0, 1], dtype=np.uint8), [5, 95])
    assert choose_rows(states, 50, np.random.default_rng(0)).counts == ((5, 5), (45, 95), (0, 0))


def test_a_row_that_any_method_kept_counts_as_kept():
    states = row_states([gm.Selection([1], n_rows=4), gm.Selection([3, 1], n_rows=4)])
    assert states.tolist() == [0, 1, 0, 1]


def test_the_page_says_what_was_left_away(page_of, monkeypatch):
    monkeypatch.setitem(projections.MOST_POINTS, "pca", 50)
    X, y = blobs(200)
    selection = gm.Easy(k=60, random_state=0).select(X, y)
    page = page_of(selection, X, y)
    assert (
        "Drawn are 25 of 60 picks, and 25 of 140 others, chosen at random: the map is thinned" in page.words()
    )
    data = page.data()
    rows = unpacked(data["row"])
    assert len(rows) == 50 and len(page.map()) == 50
    (panel,) = data["panels"]
    picks, numbers = unpacked(panel["picks"]), unpacked(panel["numbers"])
    assert panel["k"] == 60 and len(picks) == 25
    # Each keeps the number that it has among all picks.
    assert rows[picks].tolist() == selection.order[numbers - 1].tolist()
    assert [data["classes"][i] for i in unpacked(data["class"])] == [y[row] for row in rows]


def test_nothing_is_said_of_thinning_where_there_is_none(made):
    assert "thinned" not in made.page.words()


def test_long_ids_are_kept_for_picks_where_all_would_be_too_many(page_of, monkeypatch):
    from gmmatch.report import map_data

    monkeypatch.setattr(map_data, "_MOST_ID_BYTES", 500)
    X, _ = blobs(100)
    ids = [f"row number {i}" for i in range(100)]
    selection = gm.Easy(k=5).select(X, ids=ids)
    found = page_of(selection, X, ids=ids).data()["ids"]
    assert found == {str(row): ids[row] for row in selection.indices}


def test_principal_components_are_those_of_the_data():
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 6)) * [9.0, 4.0, 0.5, 0.5, 0.5, 0.5] + 1e4
    found = project(Rows(X), np.arange(400), "pca", seed=0)
    for column in (0, 1):
        assert abs(np.corrcoef(found.points[:, column], X[:, column])[0, 1]) > 0.99
    variance = X.var(axis=0)
    assert f"{np.sort(variance)[-2:].sum() / variance.sum():.0%} of the variance" in found.explanation


def test_axes_from_a_sample_are_said_to_be_so(monkeypatch):
    X, _ = blobs(300)
    whole = project(Rows(X), np.arange(300), "pca", seed=0)
    monkeypatch.setattr(projections, "_FITTED_ROWS", 150)
    found = project(Rows(X), np.arange(300), "pca", seed=0)
    assert "Found from a sample of 150 rows" in found.explanation
    assert "sample" not in whole.explanation
    assert abs(np.corrcoef(found.points[:, 0], whole.points[:, 0])[0, 1]) > 0.99


def test_t_sne_keeps_classes_together():
    X, _ = blobs(90)
    true = np.arange(90) % 3
    found = project(Rows(X), np.arange(90), "tsne", seed=0)
    assert found.name == "t-SNE" and found.points.shape == (90, 2)
    gaps = np.linalg.norm(found.points[:, None] - found.points, axis=2)
    np.fill_diagonal(gaps, np.inf)
    assert (true[gaps.argmin(axis=1)] == true).mean() > 0.95
    again = project(Rows(X), np.arange(90), "tsne", seed=0)
    assert np.array_equal(found.points, again.points)


def test_t_sne_of_a_handful_of_rows_falls_back(page_of):
    X, _ = blobs(4)
    page = page_of(gm.Easy(k=1).select(X), X, projection="tsne")
    assert [one["name"] for one in page.data()["maps"]] == ["PCA"]


def test_t_sne_is_offered_of_few_rows_and_made_of_a_sample_of_many_if_asked_for(page_of, monkeypatch):
    monkeypatch.setattr(projections, "SMALL", 39)
    monkeypatch.setitem(projections.MOST_POINTS, "tsne", 25)
    X, y = blobs(40)
    selection = gm.Easy(k=5, random_state=0).select(X, y)
    page = page_of(selection, X, y, projection=None)
    assert [one["name"] for one in page.data()["maps"]] == ["PCA"] and page.all("input", name_="map") == []
    page = page_of(selection, X, y, projection="tsne")
    first, second = page.data()["maps"]
    assert (first["name"], second["name"]) == ("t-SNE", "PCA") and len(page.all("input", name_="map")) == 2
    assert "A random sample of 25 rows." in first["said"] and first["said"] in page.words()
    placed = ~np.isnan(page.map(0)).any(axis=1)
    assert placed.sum() == 25 and placed[selection.indices].all() and np.isfinite(page.map(1)).all()
    assert np.isfinite(first["view"]).all()


def test_a_missing_umap_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(MissingDependencyError, match="pip install umap-learn"):
        check_projection("umap")
    with pytest.raises(InvalidInputError, match="expected 'pca', 'tsne' or 'umap'"):
        check_projection("spherical")


def test_umap_is_asked_for_two_columns(monkeypatch):
    calls = {}

    class UMAP:
        def __init__(self, **options):
            calls.update(options)

        def fit_transform(self, values):
            return values[:, :2] * 2.0

    monkeypatch.setitem(sys.modules, "umap", type(sys)("umap"))
    monkeypatch.setattr(sys.modules["umap"], "UMAP", UMAP, raising=False)
    X, _ = blobs(30)
    found = project(Rows(X), np.arange(30), "umap", seed=7)
    assert found.name == "UMAP" and found.points.dtype == np.float32 and found.points.shape == (30, 2)
    assert calls["n_components"] == 2 and calls["random_state"] == 7


def test_half_precision_rows_and_rows_on_disk_are_drawn(tmp_path, page_of):
    X, _ = blobs(50)
    half = X.astype(np.float16)
    np.save(tmp_path / "x.npy", half)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    selection = gm.Easy(k=4).select(half)
    first, second = page_of(selection, half).data(), page_of(selection, mapped).data()
    assert first["maps"] == second["maps"]


def test_a_view_of_rows_close_together_is_everything():
    places = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
    left, right, bottom, top = first_view(places)
    assert (left, right) == (places[:, 0].min(), places[:, 0].max())
    assert (bottom, top) == (places[:, 1].min(), places[:, 1].max())
