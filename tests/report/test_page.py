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

from .conftest import blobs, screening_of
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
    assert {attrs["href"][1:] for attrs, _ in page.all("a")} <= set(ids)


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
    drawings = [attrs for attrs, _ in page.all("svg") if attrs.get("aria-hidden") != "true"]
    assert all(attrs.get("role") == "img" for attrs in drawings)


def test_the_map_holds_every_row_with_its_class_id_and_verdict(made):
    data = made.page.data()
    assert [one["name"] for one in data["maps"]] == ["t-SNE", "PCA"]
    for number in (0, 1):
        points = made.page.map(number)
        assert points.shape == (len(made.X), 2) and np.isfinite(points).all()
    assert [data["classes"][i] for i in unpacked(data["class"])] == made.y
    assert data["ids"] == made.ids and data["row"] is None
    (panel,) = data["panels"]
    assert unpacked(panel["picks"]).tolist() == made.selection.order.tolist()
    assert unpacked(panel["numbers"]).tolist() == list(range(1, 25))
    verdicts = data["verdicts"]
    at = unpacked(verdicts["at"])
    is_doubted = np.isin(made.screening.verdict, ["wrong", "doubtful"])
    assert at.tolist() == np.flatnonzero(is_doubted).tolist()
    states = {2: "doubtful", 3: "wrong"}
    assert [states[state] for state in unpacked(verdicts["state"])] == made.screening.verdict[at].tolist()
    reasons = [verdicts["reasons"][i] for i in unpacked(verdicts["reason"])]
    assert reasons == made.screening.reason[at].tolist()
    looks = [
        data["classes"][i - 1] if i else made.y[row]
        for i, row in zip(unpacked(verdicts["looks"]), at, strict=True)
    ]
    assert looks == made.screening.suggested[at].tolist()
    assert np.abs(unpacked(verdicts["chance"]) - 100 * made.screening.probability[at]).max() <= 0.5


def test_pictures_are_thumbnails_and_what_is_none_says_so(made, page_of):
    contents = made.page.data()["contents"]
    assert len(contents) == len(made.X)
    assert contents[str(len(made.X) - 1)][0] == "broken"
    kind, address, is_small = contents["0"]
    assert kind == "image" and not is_small and contents["1"][2] == 1
    assert Image.open(BytesIO(base64.b64decode(address.partition("base64,")[2]))).size == (90, 70)
    X, _ = blobs(8)
    big = [np.zeros((1000, 400, 3), dtype=np.uint8)] * 8
    _, address, _ = page_of(gm.Easy(k=2).select(X), X, source=big).data()["contents"]["0"]
    assert Image.open(BytesIO(base64.b64decode(address.partition(",")[2]))).size == (51, 128)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"path": "picks.parquet"}, InvalidInputError, "ends in .html"),
        ({"path": "nowhere/picks.html"}, DataFileNotFoundError, "no folder nowhere"),
        ({"X": np.zeros((3, 2))}, InvalidInputError, "X has 3 rows, but the selection was made from 8"),
        ({"y": [1, 2]}, InvalidInputError, "y has 2 labels"),
        ({"projection": "map"}, InvalidInputError, "projection='map'"),
        ({"source": ["a"]}, InvalidInputError, "source has 1 rows, but there are 8 to show"),
        ({"source": 5}, InvalidTypeError, "source has type int"),
        ({"ids": ["a"]}, InvalidInputError, "ids has 1 entries for 8 rows"),
        ({"class_names": "cat", "y": [0, 1] * 4}, InvalidTypeError, "class_names has type str"),
        ({"subject": "picks"}, InvalidTypeError, "subject has type str"),
        ({"subject": {}}, InvalidInputError, "nothing to report"),
        ({"subject": gm.Selection([], n_rows=8)}, InvalidInputError, "nothing to report"),
    ],
)
def test_wrong_arguments_are_named_before_anything_is_written(tmp_path, monkeypatch, change, error, words):
    monkeypatch.chdir(tmp_path)
    X, _ = blobs(8)
    arguments = {"subject": gm.Easy(k=2).select(X), "path": "page.html", "X": X, **change}
    with pytest.raises(error, match=re.escape(words)):
        gm.write_report(**arguments)
    assert list(tmp_path.iterdir()) == []


def test_rows_that_are_not_the_selections_own_are_pointed_out(page_of):
    X, y = blobs(30)
    selection = gm.Easy(k=4).select(X, y)
    assert "fingerprints differ" not in page_of(selection, X, y).words()
    assert "fingerprints differ" in page_of(selection, X + 1.0, y).words()
    assert "no labels were given for this page" in page_of(selection, X).words()


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (5, 1), (4, 2)])
@pytest.mark.parametrize("projection", ["pca", "tsne"])
def test_tiny_inputs_have_a_page(page_of, shape, projection):
    X = np.arange(float(np.prod(shape))).reshape(shape)
    page = page_of(gm.Random(k=1, random_state=0).select(X), X, projection=projection)
    assert f"1 of {shape[0]} rows picked" in page.words()


def test_one_row_very_far_out_neither_turns_the_directions_nor_hides_the_others(page_of):
    X, _ = blobs(60)
    X[7] = 1e9
    page = page_of(gm.Random(k=5, random_state=0).select(X), X)
    points = np.delete(page.map(), 7, axis=0)
    left, right, bottom, top = page.data()["maps"][0]["view"]
    assert 0.3 < np.ptp(points[:, 0]) / (right - left) <= 1.0
    assert 0.3 < np.ptp(points[:, 1]) / (top - bottom) <= 1.0
    assert "1 row very far out did not count" in page.words()
    assert "1 row lies outside the first view" in page.words()


def test_picks_with_replacement_count_once_on_the_map(page_of):
    X, _ = blobs(10)
    page = page_of(gm.Selection([4, 2, 4, 4], n_rows=10), X)
    (panel,) = page.data()["panels"]
    assert unpacked(panel["picks"]).tolist() == [4, 2] and unpacked(panel["numbers"]).tolist() == [1, 2]
    assert "4 of 10 rows picked, 2 of them different" in page.words()


def test_more_rows_than_a_browser_draws_are_thinned_and_the_page_says_so(page_of):
    n = 60_000
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 3)).astype(np.float32)
    y = [f"class {label}" for label in np.arange(n) % 3]
    verdicts = np.where(np.arange(n) % 10 == 0, 2, 0)
    screening = screening_of(y, verdict_codes=verdicts, reason_codes=verdicts // 2)
    selection = gm.Selection(np.arange(1, 60_000, 10), n, screening=screening)
    page = page_of(selection, X, y)
    data = page.data()
    rows = unpacked(data["row"])
    assert len(rows) == len(page.map()) == 50_000 and len(set(rows.tolist())) == 50_000
    picks = unpacked(data["panels"][0]["picks"])
    assert rows[picks].tolist() == selection.order.tolist()  # no pick is left away
    assert len(unpacked(data["verdicts"]["at"])) == 6_000  # and no wrong row
    assert "38,000 of 48,000 not picked" in page.words()
    assert len(page.source) < 5_000_000
