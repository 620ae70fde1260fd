"""Whatever texts the data hold, they stay texts."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.report.subject import shorten

from .conftest import screening_of
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
    """A page all of whose names, ids, texts and notes are hostile."""
    n = 4 * len(HOSTILE)
    X = np.random.default_rng(0).normal(size=(n, 3))
    y = [HOSTILE[i % len(HOSTILE)] for i in range(n)]
    ids = [f"{HOSTILE[i % len(HOSTILE)]} {i}" for i in range(n)]
    verdicts = np.arange(n) % 3
    labels = sorted(set(y))
    suggested = np.array([labels.index(label) for label in y[::-1]])
    screening = screening_of(
        y,
        verdict_codes=verdicts,
        reason_codes=np.minimum(verdicts, 1),
        suggested_codes=suggested,
        notes=HOSTILE,
    )
    picks = gm.Easy(k=2 * len(HOSTILE), random_state=0).select(X, y, ids=ids)
    provenance = {**picks.provenance, "method": HOSTILE[1], "embeddings": {"encoder": HOSTILE[2]}}
    selection = picks.change(slice(None), screening=screening, provenance=provenance)
    path = tmp_path_factory.mktemp("hostile") / "page.html"
    gm.write_report({HOSTILE[1]: selection, HOSTILE[3]: selection}, path, X, y, source=y, ids=ids)
    compared = Page(path)
    selection.report(path, X, y, source=y, ids=ids)
    page = Page(path)
    page.badly_nested += compared.badly_nested
    assert [name for name, _, _ in compared.elements].count("script") == 2
    return page


def test_no_element_comes_from_the_data(hostile):
    assert hostile.badly_nested == []
    names = [name for name, _, _ in hostile.elements]
    assert names.count("script") == 2 and names.count("style") == 1
    assert [attrs for _, attrs, _ in hostile.elements if any(key.startswith("on") for key in attrs)] == []
    assert [attrs for attrs, _ in hostile.all("img")] == []
    ((_, title),) = hostile.all("title")
    assert title.startswith(HOSTILE[1])


def test_every_text_is_there_word_for_word(hostile):
    quotes = {text for _, text in hostile.all("blockquote")}
    names = {text for _, text in hostile.all("bdi")}
    notes = {" ".join(text.split()) for _, text in hostile.all("li")}
    for text in HOSTILE:
        cleaned = " ".join(text.split())
        assert cleaned in names and cleaned in notes
        assert (cleaned or "(empty)") in quotes


def test_the_data_of_the_map_are_the_texts_themselves(hostile):
    data = hostile.data()
    assert sorted(data["classes"]) == sorted(" ".join(text.split()) for text in HOSTILE)
    raw = hostile.source.partition('id="page-data">')[2].partition("</script>")[0]
    assert not set("<>&\u2028\u2029") & set(raw)
    assert json.loads(raw) == data


def test_data_of_either_direction_is_isolated(hostile):
    right_to_left = " ".join(HOSTILE[10].split())
    holders = [name for name, _, text in hostile.elements if "".join(text) == right_to_left]
    assert "bdi" in holders
    assert all(attrs.get("dir") == "auto" for attrs, _ in hostile.all("blockquote"))


def test_what_no_page_can_hold_is_replaced():
    assert shorten("a\x00b\x1bc\ud800d", 20) == "a\ufffdb\ufffdc\ufffdd"
    shorten("\udcff", 5).encode("utf-8")


def test_long_texts_are_cut_where_they_say_least():
    assert shorten("x" * 1_000_000, 10) == "x" * 9 + "…"
    assert shorten("/very/long/path/to/a/file.png", 12, middle=True) == "/very…le.png"
    assert shorten("a" + "x" * 1_000_000 + "z", 5, middle=True) == "ax…xz"
    assert shorten("short", 5) == "short"
