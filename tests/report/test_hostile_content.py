"""Whatever stands in the data is shown as text, and nothing of it is obeyed."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.report import write_comparison
from gmmatch.report.map_data import json_for_page
from gmmatch.report.names import shown
from gmmatch.screening.result import Screening

from .reading import Page

HOSTILE = [
    "<b>bold</b>",
    "</script><script>document.title='broken'</script>",
    "</ScRiPt ><img src=x onerror=\"document.title='broken'\">",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "<!--<script>",
    "]]></style><style>*{display:none}</style>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "&lt;already&gt; &amp; escaped",
    "שלום עולם \u202eevil\u202c",
    "emoji 🦜👩‍👩‍👧 and \u2028 \u2029",
    "back\\slash \\u003cb\\u003e",
    "",
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Page:
    """A page all of whose names, ids, texts, reasons and commands are hostile."""
    n = 4 * len(HOSTILE)
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 3))
    y = [HOSTILE[i % len(HOSTILE)] for i in range(n)]
    ids = [f"{HOSTILE[i % len(HOSTILE)]} {i}" for i in range(n)]
    found = gm.Easy(k=2 * len(HOSTILE), random_state=0).select(X, y, ids=ids)
    kept = np.ones(n, dtype=bool)
    kept[np.setdiff1d(np.arange(n), found.indices)[:12]] = False
    reason = np.where(kept, 0, 1 + np.arange(n) % 2).astype(np.int8)
    looks_like = np.array(y[::-1], dtype=object)
    screening = Screening(kept, random.random(n), reason, ("", HOSTILE[0], HOSTILE[1]), looks_like)
    provenance = {**found.provenance, "method": HOSTILE[1], "embeddings": {"encoder": HOSTILE[2]}}
    selection = gm.Selection(found.order, n, found.groups, found.order_ids, provenance, screening)
    path = tmp_path_factory.mktemp("hostile") / "page.html"
    selection.report(path, X, y, source=y, ids=ids, command=HOSTILE[1])
    return Page(path)


def test_no_element_comes_from_the_data(hostile):
    assert hostile.badly_nested == []
    names = [name for name, _, _ in hostile.elements]
    assert names.count("script") == 2 and names.count("style") == 1 and names.count("b") < 200
    assert [attrs for _, attrs, _ in hostile.elements if any(key.startswith("on") for key in attrs)] == []
    assert [attrs for attrs, _ in hostile.all("img")] == []
    ((_, title),) = hostile.all("title")
    assert title.startswith(HOSTILE[1])


def test_every_text_is_there_word_for_word(hostile):
    quotes = {text for _, text in hostile.all("blockquote")}
    names = {text for _, text in hostile.all("bdi")}
    for text in HOSTILE:
        cleaned = " ".join(text.split())
        assert cleaned in names
        assert (cleaned or "(empty)") in quotes


def test_the_data_of_the_map_are_the_texts_themselves(hostile):
    data = hostile.data()
    assert sorted(data["classes"]) == sorted(" ".join(text.split()) for text in HOSTILE)
    raw = hostile.source.partition('id="map-data">')[2].partition("</script>")[0]
    assert not set("<>&\u2028\u2029") & set(raw)
    assert json.loads(raw) == data


def test_data_of_either_direction_is_set_apart(hostile):
    right_to_left = " ".join(HOSTILE[10].split())
    holders = [name for name, _, text in hostile.elements if "".join(text) == right_to_left]
    assert set(holders) <= {"bdi", "blockquote", "option", "p", "b", "dd", "th", "td", "h3", "span"}
    assert "bdi" in holders
    assert all(attrs.get("dir") == "auto" for attrs, _ in hostile.all("blockquote"))


def test_names_of_methods_are_texts_in_a_comparison_too(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 2))
    found = {name: gm.Random(k=3, random_state=0).select(X) for name in HOSTILE[:4]}
    write_comparison(found, tmp_path / "page.html", X, command=HOSTILE[1])
    page = Page(tmp_path / "page.html")
    assert page.badly_nested == [] and [name for name, _, _ in page.elements].count("script") == 2
    assert set(HOSTILE[:4]) <= {text for _, text in page.all("bdi")}


@pytest.mark.parametrize("text", HOSTILE)
def test_json_survives_the_way_through_a_page(text):
    assert json.loads(json_for_page({text: [text]})) == {text: [text]}


def test_what_no_page_can_hold_is_replaced():
    assert shown("a\x00b\x1bc\ud800d", 20) == "a\ufffdb\ufffdc\ufffdd"
    shown("\udcff", 5).encode("utf-8")


def test_long_texts_are_cut_where_they_say_least():
    assert shown("x" * 1_000_000, 10) == "x" * 9 + "…"
    assert shown("/very/long/path/to/a/file.png", 12, middle=True) == "/very…le.png"
    assert shown("a" + "x" * 1_000_000 + "z", 5, middle=True) == "ax…xz"
    assert shown("short", 5) == "short"
