"""The page of `certify` in a headless Chromium: every key does what it says, and no answer is lost."""

from __future__ import annotations

import csv
import io
import json
from types import SimpleNamespace

import numpy as np
import pytest

from gmmatch.report.content import open_contents
from gmmatch.review.page import write_check_page

from .looking import check_quiet_and_alone, fresh, in_browser, saved

pytestmark = in_browser
HOSTILE = '</script><script>document.title = "taken"</script>, "quoted"'


@pytest.fixture
def page(tmp_path):
    rows = np.random.default_rng(0).permutation(30)[:12]
    labels = ["cat" if row % 2 else HOSTILE for row in rows]
    sample = SimpleNamespace(
        rows=rows, labels=labels, ids=[f"photo, {i}" for i in rows], n_picks=30, name="12-0-r-a"
    )
    items = [np.full((32, 32, 3), 8 * i, dtype=np.uint8) for i in range(30)]
    items[rows[1]], items[rows[2]] = HOSTILE, b""
    write_check_page(sample, tmp_path / "check.html", open_contents(items, 30))
    return sample, tmp_path / "check.html"


def press(browser, letters):
    for letter in letters:
        if letter in "<>":
            browser.press("ArrowLeft" if letter == "<" else "ArrowRight", 37 if letter == "<" else 39)
        else:
            browser.press(letter, ord(letter.upper()), letter)


def test_answers_by_key_are_kept_and_saved(browser, page):
    sample, path = page
    fresh(browser, path)
    assert browser.run("document.title").startswith("Check 12 of 30 picks")
    assert browser.until("(document.querySelector('.content img') || {}).complete")
    press(browser, "r")
    assert browser.run("document.querySelector('.content').textContent") == HOSTILE
    press(browser, "w")
    assert "cannot be shown: there is no image" in browser.run(
        "document.querySelector('.content').textContent"
    )
    press(browser, "u<<")
    assert browser.run("document.querySelector('[data-answer=wrong]').getAttribute('aria-pressed')") == "true"
    progress = "document.getElementById('progress-text').textContent"
    assert browser.run(progress) == "This row: wrong. 3 answered, 1 wrong; 9 left"
    browser.open(path)  # the browser was closed in between
    assert browser.run(progress) == "3 answered, 1 wrong; 9 left"
    press(browser, ">")
    browser.click("[data-answer=right]")
    press(browser, "rrrrrrrr")
    assert "All are answered" in browser.run("document.getElementById('message').textContent")
    lines = list(csv.DictReader(io.StringIO(saved(browser, "#save"))))
    assert [int(line["row"]) for line in lines] == sample.rows.tolist()
    assert [line["answer"] for line in lines[:4]] == ["right", "wrong", "unsure", "right"]
    assert [line["id"] for line in lines] == sample.ids and [line["given"] for line in lines] == sample.labels
    check_quiet_and_alone(browser, path)


def test_saved_answers_can_be_loaded_elsewhere(browser, page):
    _, path = page
    fresh(browser, path)
    press(browser, "rw")
    text = saved(browser, "#save")
    fresh(browser, path)
    load = (
        "(text => {{ const files = new DataTransfer(); files.items.add(new File([text], 'answers.csv')); "
        "const input = document.getElementById('load'); input.files = files.files; "
        "input.dispatchEvent(new Event('change')); }})({})"
    )
    browser.run(load.format(json.dumps("sample,row,id,given,answer\nother,1,a,b,right\n")))
    browser.until("document.getElementById('message').textContent.includes('no answers about these rows')")
    browser.run(load.format(json.dumps(text)))
    browser.until("document.getElementById('message').textContent.startsWith('2 answers were loaded')")
    assert "2 answered, 1 wrong" in browser.run("document.getElementById('progress-text').textContent")


def test_it_fits_a_phone_and_the_dark(browser, page):
    _, path = page
    browser.prefer(prefers_color_scheme="dark")
    browser.open(path, width=360, height=740, touch=True)
    assert browser.run("document.documentElement.scrollWidth") <= 360
    assert browser.run("document.getElementById('theme').textContent") == "Light mode"
    browser.prefer()
