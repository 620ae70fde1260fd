"""Other pages in a headless Chromium: several methods, hostile content, and pages without labels or pictures."""

from __future__ import annotations

from importlib.resources import files

import numpy as np

import gmmatch as gm
from gmmatch.report import write_comparison

from .conftest import blobs
from .looking import check_quiet_and_alone, needs_browser, pixels, text
from .test_hostile_content import hostile

__all__ = ["hostile"]

pytestmark = needs_browser


def test_hostile_content_stays_content(browser, hostile, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(hostile.source, encoding="utf-8")
    browser.open(path)
    assert browser.run("document.title").startswith("</script><script>document.title='broken'")
    assert browser.run("document.querySelectorAll('script').length") == 2
    browser.run("document.querySelector('#maps canvas').focus()")
    for _ in range(28):
        browser.press("n", 78)
    assert browser.complaints == []
    assert not browser.run("document.getElementById('tip').hidden")
    assert browser.run("document.querySelectorAll('#tip b, #tip script, #tip svg, #tip style').length") == 0
    browser.click("input[name=colour][value=class]")
    assert browser.run("document.querySelectorAll('#class-legend bdi').length") == 14
    assert browser.run("document.querySelectorAll('#class-legend bdi *').length") == 0
    check_quiet_and_alone(browser, path)


def test_no_cell_of_a_table_that_is_saved_is_a_formula(browser, hostile, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(hostile.source, encoding="utf-8")
    browser.open(path)
    source = (files("gmmatch.report") / "assets" / "csv.js").read_text(encoding="utf-8")
    table = "download('x.csv', ['a', '=1+1'], [['@x', -1], ['-2', 'c']])"
    saved = browser.run(
        f"(() => {{ {source}; let text; const make = window.Blob;"
        "window.Blob = function (parts, kind) { text = parts[0]; return new make(parts, kind); };"
        f"{table}; window.Blob = make; return text; }})()"
    )
    assert saved == "a,'=1+1\n'@x,-1\n'-2,c\n"


def test_methods_share_the_view_the_replay_and_the_pointer(browser, tmp_path):
    X, y = blobs()
    found = {
        name: gm.select(X, y=y, k=20, method=name, random_state=0) for name in ("random", "easy", "herding")
    }
    path = tmp_path / "page.html"
    write_comparison(found, path, X, y)
    browser.open(path)
    first = [pixels(browser, number) for number in range(3)]
    assert len(set(first)) == 3
    browser.click("[data-zoom=in]")
    assert all(pixels(browser, number) != first[number] for number in range(3))
    browser.click("[data-zoom=all]")
    browser.run("document.getElementById('upto').focus()")
    browser.press("Home", 36)
    assert len({pixels(browser, number) for number in range(3)}) == 1  # without picks the maps are one
    browser.press("End", 35)
    browser.run("document.querySelectorAll('#maps canvas')[1].focus()")
    browser.press("n", 78)
    row = int(found["easy"].order[0])
    lines = text(browser, "#tip").split("\n")
    assert lines[0] == f"row {row}" and "easy: pick 1 of 20" in lines
    assert len([line for line in lines if line.startswith(("random: ", "easy: ", "herding: "))]) == 3
    browser.open(path, width=390, height=844, touch=True)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    check_quiet_and_alone(browser, path)


def test_an_unscreened_page_without_labels_or_pictures_works_too(browser, tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 3))
    path = tmp_path / "page.html"
    gm.GMMatching(k=20, random_state=0).select(X).report(path, X)
    browser.open(path)
    first = pixels(browser)
    browser.click("input.state[value=left]")
    assert pixels(browser) != first
    check_quiet_and_alone(browser, path)
