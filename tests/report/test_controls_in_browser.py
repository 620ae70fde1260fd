"""The pages in a headless Chromium, continued: fingers, keys, links, tables, and content that is hard to show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gmmatch as gm
from gmmatch.report import write_report

from .browser import HOW_TO_GET_IT
from .conftest import blobs, pictures
from .looking import check_quiet_and_alone, needs_browser, pixels, text
from .test_hostile_content import HOSTILE, hostile

__all__ = ["hostile"]

ROOT = Path(__file__).parents[2]
# What can be operated on a page. A control that is none of these needs a test, here or in a file beside this one.
CONTROLS = (
    ".skip", "nav a", "#theme", "input.state", "input[name=colour]", "#only", "#class-legend button", "#maps canvas",
    "[data-zoom]", "#play", "#upto", "input[name=map]", "#download", ".find", ".copy", "details > summary",
    "pre[tabindex]", ".scroll[tabindex]",
)  # fmt: skip


def touch(browser, kind: str, *places: tuple[float, float]) -> None:
    points = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(places)]
    browser.send("Input.dispatchTouchEvent", type=kind, touchPoints=points)


@pytest.fixture
def touched(opened):
    """The page on a screen that is touched."""
    opened.send("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
    yield opened
    opened.send("Emulation.setTouchEmulationEnabled", enabled=False)


@needs_browser
def test_there_is_no_control_that_these_tests_do_not_know(opened):
    unknown = opened.run(
        "[...document.querySelectorAll('a, button, input, select, textarea, canvas, summary, [tabindex=\"0\"]')]"
        f".filter(it => !it.matches({', '.join(CONTROLS)!r})).map(it => it.outerHTML)"
    )
    assert unknown == []


@needs_browser
def test_a_double_click_zooms_in_and_with_shift_out(opened):
    first = pixels(opened)
    x, y = opened.middle("#maps canvas")
    for modifiers in (0, 8):
        for count in (1, 2):
            for kind in ("mousePressed", "mouseReleased"):
                opened.point(kind, x, y, button="left", clickCount=count, modifiers=modifiers)
        opened.point("mouseMoved", 5, 5)
        opened.run("document.querySelector('#maps canvas').blur()")
        assert (pixels(opened) == first) == bool(modifiers)


@needs_browser
def test_a_tap_shows_a_row_and_two_fingers_zoom(touched, made):
    touched.click(".find")  # its row is now in the middle
    place = touched.run("Number(document.querySelector('.find').dataset.place)")
    touched.press("Escape", 27)
    x, y = touched.middle("#maps canvas")
    touch(touched, "touchStart", (x, y))
    touch(touched, "touchEnd")
    touched.until("!document.getElementById('tip').hidden")
    assert made.ids[place] in text(touched, "#tip")
    touched.press("Escape", 27)
    before = pixels(touched)
    touch(touched, "touchStart", (x - 20, y), (x + 20, y))
    for gap in (40, 60, 80):
        touch(touched, "touchMove", (x - gap, y), (x + gap, y))
    touch(touched, "touchEnd")
    assert pixels(touched) != before
    touched.click("[data-zoom=all]")


@needs_browser
def test_links_lead_to_their_sections_and_the_first_skips_the_head(opened):
    links = opened.run("[...document.querySelectorAll('nav a')].map(it => it.getAttribute('href'))")
    assert links == ["#findings", "#map", "#picks", "#quality", "#details"]
    for link in links:
        opened.click(f"nav a[href='{link}']")
        opened.until(f"location.hash === '{link}'")
        seen = f"document.querySelector('{link}').getBoundingClientRect()"
        assert opened.run(f"{seen}.top < innerHeight && {seen}.bottom > 0")
    opened.run("document.querySelector('.skip').focus()")
    opened.press("Enter", 13, "\r")
    opened.until("document.activeElement === document.getElementById('main')")


@needs_browser
def test_every_table_opens_by_mouse_and_by_key(opened):
    count = opened.run("document.querySelectorAll('details').length")
    assert count == 3  # more suspects, the first picks, the chart
    for number in range(count):
        it = f"document.querySelectorAll('details')[{number}]"
        opened.run(f"{it}.querySelector('summary').id = 'tried'")
        assert not opened.run(f"{it}.open")
        opened.click("#tried")
        assert opened.run(f"{it}.open && {it}.querySelectorAll('tbody tr, .card').length > 0")
        opened.run(f"{it}.querySelector('summary').focus()")
        opened.press("Enter", 13, "\r")
        assert not opened.run(f"{it}.open")
        opened.run(f"{it}.querySelector('summary').removeAttribute('id')")


@needs_browser
def test_choices_are_made_by_arrow_keys(opened):
    plain = pixels(opened)
    opened.run("document.querySelector('input[name=colour][value=state]').focus()")
    opened.press("ArrowRight", 39)
    assert opened.run("document.querySelector('input[name=colour]:checked').value") == "class"
    opened.press("ArrowLeft", 37)
    assert pixels(opened) == plain
    opened.run("document.getElementById('only').focus()")
    opened.press("ArrowDown", 40)
    assert opened.run("document.getElementById('only').value") == "0" and pixels(opened) != plain
    opened.press("ArrowUp", 38)
    assert opened.run("document.getElementById('only').value") == "-1" and pixels(opened) == plain
    opened.run("document.querySelector('input.state[value=kept]').focus()")
    opened.press(" ", 32, " ")
    assert pixels(opened) != plain


@needs_browser
def test_pictures_that_cannot_be_decoded_are_named_and_leave_no_hole(browser, tmp_path):
    X, y = blobs(30)
    shown = pictures(30)
    broken = (b"this is no picture", b"\x89PNG\r\n\x1a\n" + bytes(40), b"", b"\xff\xd8\xff\xe0 cut off")
    picks = [4, 9, 14, 19, 21]
    for row, content in zip(picks, broken, strict=False):
        shown[row] = content
    path = tmp_path / "page.html"
    write_report(gm.Selection(picks, n_rows=30), path, X, y, source=shown)
    browser.open(path)
    sizes = browser.run("[...document.images].map(it => it.complete && it.naturalWidth)")
    assert sizes and all(sizes)
    assert browser.run("document.querySelectorAll('.broken').length") >= len(broken)
    browser.run("document.querySelector('#maps canvas').focus()")
    for row in picks:
        browser.press("n", 78)
        browser.until(f"document.getElementById('said').textContent.startsWith('row {row},')")
        assert ("cannot be shown" in text(browser, "#tip")) == (row != 21)
        assert browser.run("document.querySelectorAll('#tip img').length") == int(row == 21)
    check_quiet_and_alone(browser, path)


@needs_browser
def test_emoji_and_right_to_left_texts_are_shown_as_they_are(browser, hostile, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(hostile.source, encoding="utf-8")
    browser.open(path)
    browser.run("document.querySelector('#maps canvas').focus()")
    names = set()
    for _ in range(28):
        browser.press("n", 78)
        names.add(browser.run("document.querySelector('#tip .id bdi').textContent"))
    for content in HOSTILE[10:12]:  # of the right-to-left text and of the emoji there are two picks each
        cleaned = " ".join(content.split())
        assert len([name for name in names if name.startswith(cleaned)]) == 2
    # Text of the one direction does not turn what stands beside it.
    assert browser.run("getComputedStyle(document.body).direction") == "ltr"
    directions = browser.run("[...document.querySelectorAll('blockquote')].map(it => [it.textContent, "
                             "getComputedStyle(it).direction])")  # fmt: skip
    hebrew = {direction for words, direction in directions if words.startswith("שלום")}
    assert hebrew == {"rtl"}
    browser.open(path, width=390, height=844, touch=True)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    check_quiet_and_alone(browser, path)


def test_without_a_browser_the_tests_say_what_is_left_out_and_how_to_get_it(tmp_path, request):
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "-k", f"not {request.node.name}"]
    places = [f"tests/report/{path.name}" for path in Path(__file__).parent.glob("test_*_in_browser.py")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *places],
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if HOW_TO_GET_IT in line]
    assert "apt-get install chromium" in HOW_TO_GET_IT
    assert all(any(place in line for line in said) for place in places), done.stdout + done.stderr
    assert not re.search("passed|failed|error", done.stdout.splitlines()[-1])
