"""The page as a document: whole, alone, and readable for people and machines."""

from __future__ import annotations

import base64
import hashlib
import re
from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

import gmmatch as gm
from gmmatch.errors import DataFileNotFoundError, InvalidInputError, InvalidTypeError
from gmmatch.report import write_report

from .conftest import blobs
from .reading import unpacked


def test_it_asks_for_nothing_beyond_itself(made):
    page = made.page
    addresses = [
        value or ""
        for _, attrs, _ in page.elements
        for name, value in attrs.items()
        if name in ("src", "href", "srcset", "action", "poster", "xlink:href")
    ]
    assert addresses
    assert [one[:80] for one in addresses if not one.startswith(("data:", "#"))] == []
    assert "http:" not in page.source.lower().replace("data:", "") and "https:" not in page.source.lower()
    ((_, style),) = page.all("style")
    assert "url(" not in style and "@import" not in style
    assert not {name for name, _, _ in page.elements} & {"iframe", "object", "embed", "base", "form"}


def test_its_policy_allows_its_own_script_and_style_and_nothing_else(made):
    page = made.page
    ((attrs, _),) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    rules = dict(rule.strip().split(" ", 1) for rule in attrs["content"].split(";"))
    (code,) = [text for found, text in page.all("script") if "type" not in found]
    ((_, style),) = page.all("style")
    for rule, text in (("script-src", code), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert rules["default-src"] == "'none'" and rules["img-src"] == "data:"
    # Which the policy would block.
    assert [attrs for _, attrs, _ in page.elements if "style" in attrs] == []
    assert [attrs for _, attrs, _ in page.elements if any(name.startswith("on") for name in attrs)] == []


def test_its_elements_are_closed_in_order_and_its_ids_are_unique(made):
    page = made.page
    assert page.badly_nested == []
    ids = [attrs["id"] for _, attrs, _ in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    references = [
        name
        for _, attrs, _ in page.elements
        for key in ("aria-labelledby", "aria-describedby", "for")
        for name in (attrs.get(key) or "").split()
    ]
    assert references and set(references) <= set(ids)
    targets = {attrs["href"][1:] for attrs, _ in page.all("a")}
    assert targets <= set(ids)


def test_it_has_landmarks_headings_in_order_and_a_text_for_every_picture(made):
    page = made.page
    names = [name for name, _, _ in page.elements]
    for landmark in ("header", "nav", "main", "footer"):
        assert names.count(landmark) == 1
    levels = [int(name[1]) for name in names if re.fullmatch("h[1-6]", name)]
    assert levels.count(1) == 1 and levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert [attrs for attrs, _ in page.all("img") if "alt" not in attrs] == []
    assert [attrs for attrs, _ in page.all("section") if "aria-labelledby" not in attrs] == []
    unnamed = [
        attrs for attrs, text in page.all("button") if not text.strip() and not attrs.get("aria-label")
    ]
    assert unnamed == []
    pictures = [attrs for attrs, _ in page.all("svg") if attrs.get("aria-hidden") != "true"]
    assert pictures and all(attrs.get("role") == "img" for attrs in pictures)


def test_every_chart_has_a_table_with_its_numbers(made):
    page = made.page
    (title,) = [text for _, text in page.all("figcaption")]
    regions = [attrs.get("aria-label") for attrs, _ in page.all("div", role="region")]
    assert f"{title} as a table" in regions
    assert "The first picks as a table" in regions and "Classes before and after" in regions


def test_every_line_and_band_of_a_chart_is_in_its_legend(made):
    page = made.page
    drawn = [attrs["class"] for name, attrs, _ in page.elements if name in ("polyline", "polygon")]
    source = page.source.partition('<ul class="legend">')[2].partition("</ul>")[0]
    legend = re.findall(r'<(?:line|rect) class="([^"]*)"', source)
    assert sorted(drawn) == sorted(legend) == ["band muted", "line kept", "line muted"]


def test_the_map_holds_every_row_with_its_place_class_and_id(made):
    data = made.page.data()
    assert [one["name"] for one in data["maps"]] == ["PCA", "t-SNE"]
    for number in (0, 1):
        places = made.page.map(number)
        assert places.shape == (len(made.X), 2) and np.isfinite(places).all()
    assert [data["classes"][i] for i in unpacked(data["class"])] == made.y
    assert data["ids"] == made.ids and data["row"] is None
    (panel,) = data["panels"]
    assert unpacked(panel["picks"]).tolist() == made.selection.order.tolist()
    assert unpacked(panel["numbers"]).tolist() == list(range(1, 25))
    out = unpacked(panel["screened"])
    assert out.tolist() == np.flatnonzero(~made.selection.screening.kept).tolist()
    assert unpacked(panel["reason"]).tolist() == made.selection.screening.reason[out].tolist()
    looks = [
        data["classes"][i - 1] if i else made.y[at]
        for i, at in zip(unpacked(panel["looks"]), out, strict=True)
    ]
    assert looks == made.selection.screening.suggested_labels[out].tolist()
    chances = 100 * made.selection.screening.probability[out]
    assert np.abs(unpacked(panel["suspicion"]) - chances).max() <= 0.5


def test_rows_far_apart_in_the_data_are_far_apart_on_the_map(made):
    places = made.page.map()
    gaps = np.linalg.norm(places[:, None] - places, axis=2)[np.triu_indices(len(places), 1)]
    true = np.linalg.norm(made.X[:, None] - made.X, axis=2)[np.triu_indices(len(places), 1)]
    assert np.corrcoef(gaps, true)[0, 1] > 0.9


def test_pictures_are_thumbnails_and_what_is_none_says_so(made):
    contents = made.page.data()["contents"]
    assert len(contents) == len(made.X)
    assert contents[str(len(made.X) - 1)][0] == "broken"
    kinds = {kind for kind, _, _ in contents.values()}
    assert kinds == {"image", "broken"}
    kind, address, small = contents["0"]
    picture = base64.b64decode(address.partition("base64,")[2])
    assert kind == "image" and not small
    assert Image.open(BytesIO(picture)).size == (90, 70)
    assert contents["1"][2] == 1


def test_large_pictures_are_made_small(page_of):
    X, _ = blobs(8)
    big = [np.zeros((1000, 400, 3), dtype=np.uint8)] * 8
    contents = page_of(gm.Easy(k=2).select(X), X, source=big).data()["contents"]
    _, address, small = contents["0"]
    assert Image.open(BytesIO(base64.b64decode(address.partition(",")[2]))).size == (51, 128)
    assert small == 0


def test_it_is_replaced_whole_and_leaves_nothing_beside_it(made, tmp_path):
    target = tmp_path / "page.html"
    target.write_text("old")
    write_report(made.selection, target, made.X, made.y)
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"path": "picks.parquet"}, InvalidInputError, "ends in .html"),
        ({"path": "nowhere/picks.html"}, DataFileNotFoundError, "no folder nowhere"),
        ({"X": np.zeros((3, 2))}, InvalidInputError, "X has 3 rows, but the selection was made from 8"),
        ({"y": [1, 2]}, InvalidInputError, "y has 2 labels"),
        ({"projection": "map"}, InvalidInputError, "projection='map'"),
        ({"source": ["a"]}, InvalidInputError, "source has 1 rows, but the selection was made from 8"),
        ({"source": 5}, InvalidTypeError, "source has type int"),
        ({"ids": ["a"]}, InvalidInputError, "ids has 1 entries for 8 rows"),
        ({"class_names": ["zero"], "y": [0, 1] * 4}, InvalidInputError, "the label 1 is no position"),
        ({"class_names": "cat", "y": [0, 1] * 4}, InvalidTypeError, "class_names has type str"),
    ],
)
def test_wrong_arguments_are_named_before_anything_is_written(tmp_path, monkeypatch, change, error, words):
    monkeypatch.chdir(tmp_path)
    X, _ = blobs(8)
    arguments = {"path": "page.html", "X": X, **change}
    with pytest.raises(error, match=re.escape(words)):
        write_report(gm.Easy(k=2).select(X), **arguments)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_selection_has_nothing_to_report(tmp_path):
    with pytest.raises(InvalidInputError, match="empty"):
        gm.Selection([], n_rows=3).report(tmp_path / "page.html", np.eye(3))


def test_rows_that_are_not_the_selections_own_are_pointed_out(page_of):
    X, y = blobs(30)
    selection = gm.Easy(k=4).select(X, y)
    assert "fingerprints differ" not in page_of(selection, X, y).words()
    assert "fingerprints differ" in page_of(selection, X + 1.0, y).words()
    assert "no labels were given for this page" in page_of(selection, X).words()


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (5, 1), (4, 2)])
def test_tiny_inputs_have_a_page(page_of, shape):
    X = np.arange(float(np.prod(shape))).reshape(shape)
    page = page_of(gm.Random(k=1, random_state=0).select(X), X)
    assert f"1 of {shape[0]} rows picked" in page.words()


def test_rows_that_are_all_the_same_have_a_page(page_of):
    X = np.ones((20, 4))
    page = page_of(gm.Random(k=3, random_state=0).select(X), X)
    assert page.figure("figure-moment_error") == 0.0
    assert page.map()[:, 0].tolist() == [0.0] * 20


def test_one_row_very_far_out_neither_turns_the_axes_nor_hides_the_others(page_of):
    X, _ = blobs(60)
    X[7] = 1e9
    page = page_of(gm.Easy(k=5).select(X), X)
    places = np.delete(page.map(), 7, axis=0)
    left, right, bottom, top = page.data()["maps"][0]["view"]
    assert 0.3 < np.ptp(places[:, 0]) / (right - left) <= 1.0
    assert 0.3 < np.ptp(places[:, 1]) / (top - bottom) <= 1.0
    assert "1 row that lies very far out did not count" in page.words()
    assert "1 row lies outside the first view" in page.words()


def test_picks_with_replacement_count_once_on_the_map(page_of):
    X, _ = blobs(10)
    page = page_of(gm.Selection([4, 2, 4, 4], n_rows=10), X)
    (panel,) = page.data()["panels"]
    assert unpacked(panel["picks"]).tolist() == [4, 2] and unpacked(panel["numbers"]).tolist() == [1, 2]
    assert "4 of 10 rows picked, 2 of them different" in page.words()
