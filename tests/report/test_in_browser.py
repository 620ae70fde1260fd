"""The pages in a headless Chromium: quiet, alone, and every control does what it says."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.report import write_comparison

from .browser import HOW_TO_GET_IT, Browser, find_browser
from .conftest import Made, blobs
from .test_hostile_content import hostile

__all__ = ["hostile"]

if find_browser() is None:
    pytest.skip(HOW_TO_GET_IT, allow_module_level=True)

# The pixels of a map, read from a copy, as a canvas that is drawn to should not be read from.
BYTES = """
  const copy = document.createElement('canvas');
  [copy.width, copy.height] = [canvas.width, canvas.height];
  const pen = copy.getContext('2d', { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  const bytes = pen.getImageData(0, 0, canvas.width, canvas.height).data;
"""
PIXELS = f"""(() => {{
  const canvas = document.querySelectorAll('#maps canvas')[%d];
  {BYTES}
  let sum = 0;
  for (let i = 0; i < bytes.length; i++) sum = (sum * 31 + bytes[i]) >>> 0;
  return sum;
}})()"""
FRAME = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
# How much of the first map is of about this colour.
SHARE = f"""(() => {{
  const canvas = document.querySelector('#maps canvas'), wanted = %s;
  {BYTES}
  let found = 0;
  for (let i = 0; i < bytes.length; i += 4) {{
    if (wanted.every((value, j) => Math.abs(value - bytes[i + j]) < 48)) found++;
  }}
  return found;
}})()"""
KEPT, SCREENED = "[0, 114, 178]", "[213, 94, 0]"


@pytest.fixture
def opened(browser: Browser, made: Made) -> Iterator[Browser]:
    """The page of a selection, freshly opened; afterwards it must have been quiet and alone."""
    browser.prefer()
    browser.open(made.path)
    browser.run("localStorage.clear()")
    browser.open(made.path)
    yield browser
    check_quiet_and_alone(browser, made.path)


def check_quiet_and_alone(browser: Browser, path) -> None:
    assert browser.complaints == []
    asked = [url for url in browser.requests if not url.startswith("data:")]
    assert asked and set(asked) == {path.resolve().as_uri()}


def pixels(browser: Browser, number: int = 0) -> int:
    browser.run(FRAME)
    return browser.run(PIXELS % number)


def share(browser: Browser, color: str) -> int:
    browser.run(FRAME)
    return browser.run(SHARE % color)


def text(browser: Browser, selector: str) -> str:
    return browser.run(f"document.querySelector({json.dumps(selector)}).innerText")


def test_the_map_is_drawn(opened):
    assert share(opened, KEPT) > 100 and share(opened, SCREENED) > 50


def test_hovering_shows_the_row_under_the_pointer(opened, made):
    # The first card of the gallery says where its row is, and brings it to the middle.
    place = opened.run("Number(document.querySelector('.find').dataset.place)")
    opened.click(".find")
    opened.until("!document.getElementById('tip').hidden")
    x, y = opened.middle("#maps canvas")
    opened.point("mouseMoved", x + 300, y)  # away, where nothing is chosen
    opened.point("mouseMoved", x, y)
    opened.until("!document.getElementById('tip').hidden")
    shown = text(opened, "#tip")
    assert made.ids[place] in shown and f"class {made.y[place]}" in shown
    assert "screened out: likely mislabeled" in shown
    assert f"looks like {made.selection.screening.suggested_labels[place]}" in shown
    assert opened.run("document.querySelector('#tip img').naturalWidth") > 0
    opened.point("mouseMoved", 5, 5)
    opened.until("document.getElementById('tip').hidden")


def test_buttons_wheel_and_drag_change_the_view_and_all_of_it_comes_back(opened):
    first = pixels(opened)
    opened.click("[data-zoom=in]")
    nearer = pixels(opened)
    assert nearer != first
    opened.click("[data-zoom=out]")
    assert pixels(opened) == first
    x, y = opened.middle("#maps canvas")
    opened.point("mouseWheel", x, y, deltaX=0, deltaY=-240, modifiers=2)
    opened.until(f"({PIXELS % 0}) !== {first}")
    opened.click("[data-zoom=all]")
    opened.point("mouseMoved", 5, 5)
    assert pixels(opened) == first
    x, y = opened.middle("#maps canvas")
    opened.point("mousePressed", x - 150, y, button="left", clickCount=1)
    opened.point("mouseMoved", x, y, button="left", buttons=1)
    opened.point("mouseReleased", x, y, button="left", clickCount=1)
    opened.point("mouseMoved", 5, 5)
    assert pixels(opened) != first
    opened.click("[data-zoom=all]")
    opened.point("mouseMoved", 5, 5)
    assert pixels(opened) == first


def test_the_wheel_alone_scrolls_the_page_and_leaves_the_map(opened):
    first = pixels(opened)
    x, y = opened.middle("#maps canvas")
    before = opened.run("scrollY")
    opened.point("mouseWheel", x, y, deltaX=0, deltaY=300)
    opened.until(f"Math.abs(scrollY - {before}) > 50")
    opened.point("mouseMoved", 5, 5)
    assert pixels(opened) == first


def test_the_legend_hides_and_shows(opened):
    kept, screened = share(opened, KEPT), share(opened, SCREENED)
    opened.click("input.state[value=kept]")
    assert share(opened, KEPT) == 0 and share(opened, SCREENED) >= screened
    opened.click("input.state[value=screened]")
    assert share(opened, SCREENED) == 0
    opened.click("input.state[value=kept]")
    opened.click("input.state[value=screened]")
    assert (share(opened, KEPT), share(opened, SCREENED)) == (kept, screened)


def test_colours_by_class_come_with_a_legend_that_singles_one_out(opened, made):
    plain = pixels(opened)
    opened.click("input[name=colour][value=class]")
    by_class = pixels(opened)
    assert by_class != plain
    assert text(opened, "#class-legend").split("\n") == sorted(set(made.y))
    opened.click("#class-legend li:nth-child(2) button")
    one = pixels(opened)
    assert one != by_class and opened.run("document.getElementById('only').value") == "1"
    assert opened.run("document.querySelectorAll('#class-legend [aria-pressed=true]').length") == 1
    opened.run(
        "document.getElementById('only').value = '-1';"
        "document.getElementById('only').dispatchEvent(new Event('change'))"
    )
    assert pixels(opened) == by_class
    opened.click("input[name=colour][value=state]")
    assert pixels(opened) == plain and opened.run("document.getElementById('class-legend').hidden")


def test_the_slider_shows_as_many_picks_as_it_says(opened):
    everything = share(opened, KEPT)
    assert text(opened, "#upto-said") == "all 24 picks"
    opened.run("document.getElementById('upto').focus()")
    opened.press("Home", 36)
    opened.until("document.getElementById('upto-said').textContent === 'the first 0 of 24'")
    assert share(opened, KEPT) == 0
    for _ in range(3):
        opened.press("ArrowRight", 39)
    opened.until("document.getElementById('upto-said').textContent === 'the first 3 of 24'")
    assert 0 < share(opened, KEPT) < everything
    opened.press("End", 35)
    opened.until("document.getElementById('upto-said').textContent === 'all 24 picks'")
    assert share(opened, KEPT) == everything


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_the_replay_runs_from_the_first_pick_and_can_be_stopped(opened, motion):
    opened.middle("#play")
    opened.prefer(prefers_reduced_motion=motion)
    opened.run(
        "window.seen = []; new MutationObserver(() => seen.push(Number(document.getElementById('upto').value)))"
        ".observe(document.getElementById('upto-said'), { childList: true }); 0"
    )
    opened.click("#play")
    assert opened.run("document.getElementById('play').getAttribute('aria-pressed')") == "true"
    opened.until("seen.length > 1")
    opened.click("#play")
    seen = opened.run("seen")
    assert seen == sorted(seen) and seen[0] < 24
    stopped = opened.run("document.getElementById('upto').value")
    opened.run(FRAME)
    assert opened.run("document.getElementById('upto').value") == stopped
    assert text(opened, "#play") == "Replay the picks"
    opened.prefer()


def test_the_keyboard_moves_zooms_and_steps_through_the_picks(opened, made):
    first = pixels(opened)
    opened.run("document.querySelector('#maps canvas').focus()")
    opened.press("n", 78)
    opened.press("n", 78)
    said = opened.until("document.getElementById('said').textContent")
    second = int(made.selection.order[1])
    assert said == f"{made.ids[second]}, class {made.y[second]}, pick 2 of 24"
    opened.press("p", 80)
    opened.until("document.getElementById('said').textContent.endsWith('pick 1 of 24')")
    opened.press("Escape", 27)
    assert opened.run("document.getElementById('tip').hidden")
    for key, code in (("+", 187), ("ArrowLeft", 37), ("ArrowUp", 38), ("-", 189)):
        before = pixels(opened)
        opened.press(key, code)
        assert pixels(opened) != before
    opened.press("0", 48)
    assert pixels(opened) == first


def test_every_control_can_be_reached_by_tab_in_the_order_of_the_page(opened):
    opened.run("document.body.focus(); window.scrollTo(0, 0)")
    count = opened.run(
        "document.querySelectorAll('a, button, input, select, canvas, summary, [tabindex=\"0\"]').length"
    )
    reached: list[str] = []
    for _ in range(count + 5):
        opened.press("Tab", 9)
        found = opened.run(
            "(() => { const it = document.activeElement; return it === document.body ? '' :"
            "(it.id || it.name || it.dataset.zoom || it.className || it.tagName); })()"
        )
        if found == "" and reached:
            break
        reached.append(found)
    for wanted in (
        "skip",
        "theme",
        "state",
        "colour",
        "only",
        "in",
        "out",
        "all",
        "play",
        "upto",
        "quiet needs-script find",
    ):
        assert wanted in reached
    order = [reached.index(name) for name in ("skip", "theme", "state", "only", "play", "upto")]
    assert order == sorted(order)


def test_the_gallery_is_filtered_by_reason_and_leads_to_the_map(opened, made):
    reasons = opened.run("[...document.querySelectorAll('.reason')].map(one => one.hidden)")
    assert reasons == [False, False]
    opened.click("input[name=reason][value='2']")
    assert opened.run("[...document.querySelectorAll('.reason')].map(one => one.hidden)") == [True, False]
    opened.click("input[name=reason][value='']")
    opened.click("#typical .find")
    place = opened.run("Number(document.querySelector('#typical .find').dataset.place)")
    assert made.ids[place] in text(opened, "#tip")
    assert opened.run("document.activeElement === document.querySelector('#maps canvas')")
    visible = opened.run(
        "(() => { const box = document.querySelector('#maps canvas').getBoundingClientRect();"
        "return box.top >= 0 && box.bottom <= innerHeight; })()"
    )
    assert visible


def test_the_theme_follows_the_system_until_the_button_says_otherwise(opened, made):
    paper = "getComputedStyle(document.body).backgroundColor"
    light, drawn = opened.run(paper), pixels(opened)
    opened.prefer(prefers_color_scheme="dark")
    dark = opened.run(paper)
    assert dark != light and pixels(opened) != drawn
    opened.prefer()
    assert opened.run(paper) == light and pixels(opened) == drawn
    opened.click("#theme")
    assert opened.run(paper) == dark
    opened.open(made.path)
    assert opened.run(paper) == dark  # it is remembered
    opened.click("#theme")
    assert opened.run(paper) == light
    opened.run("localStorage.clear()")


def test_on_paper_it_is_light_and_without_controls(opened):
    opened.prefer(medium="print", prefers_color_scheme="dark")
    hidden = "getComputedStyle(document.querySelector(%r)).display === 'none'"
    for selector in (".tools", ".replay", "#theme", ".find", ".zoom"):
        assert opened.run(hidden % selector)
    assert opened.run("getComputedStyle(document.documentElement).getPropertyValue('--ink')") == "#1c2430"
    opened.send("Page.printToPDF")
    opened.prefer()


@pytest.mark.parametrize("width", [320, 390, 768])
def test_on_narrow_screens_nothing_lies_beyond_the_edge(browser, made, width):
    browser.open(made.path, width=width, height=800, touch=True)
    assert browser.run("document.documentElement.scrollWidth") <= width
    small = browser.run(
        "[...document.querySelectorAll('main p, main td, main dd, main button, main label')]"
        ".filter(one => one.offsetWidth && parseFloat(getComputedStyle(one).fontSize) < 11).length"
    )
    assert small == 0
    check_quiet_and_alone(browser, made.path)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_what_is_behind_them(browser, made, scheme):
    browser.prefer(prefers_color_scheme=scheme)
    browser.open(made.path)
    faint = browser.run(CONTRAST)
    browser.prefer()
    assert faint == []


# The elements with text of their own whose contrast is below what WCAG AA asks for.
CONTRAST = """(() => {
  const parse = (text) => { const [r, g, b, a = 1] = text.match(/[0-9.]+/g).map(Number); return [r, g, b, a]; };
  const light = ([r, g, b]) => { const f = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const behind = (it) => { for (; it; it = it.parentElement) { const c = getComputedStyle(it).backgroundColor;
    if (c.startsWith('rgb') && parse(c)[3] === 1) return parse(c); } return [255, 255, 255]; };
  const faint = [];
  for (const it of document.querySelectorAll('body *')) {
    const own = [...it.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || !it.offsetWidth || it.closest('.unseen, script, noscript, svg')) continue;
    const one = light(parse(getComputedStyle(it).color)), other = light(behind(it));
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) faint.push(`${it.tagName}.${it.className}: ${ratio.toFixed(2)}`);
  }
  return [...new Set(faint)];
})()"""


def test_a_screen_reader_finds_names_for_everything(opened):
    nodes = opened.send("Accessibility.getFullAXTree")["nodes"]
    controls = {"button", "link", "slider", "checkbox", "radio", "combobox", "application", "image", "region"}
    found = [node for node in nodes if not node["ignored"] and node["role"]["value"] in controls]
    roles = {node["role"]["value"] for node in found}
    assert {"button", "link", "slider", "checkbox", "radio", "application", "image"} <= roles
    unnamed = [node["role"]["value"] for node in found if not node.get("name", {}).get("value", "").strip()]
    assert unnamed == []
    landmarks = {node["role"]["value"] for node in nodes if not node["ignored"]}
    assert {"banner", "main", "navigation", "contentinfo"} <= landmarks


def test_the_copy_button_copies_or_selects(opened):
    opened.click(".copy")
    opened.until("['Copied', 'Selected'].includes(document.querySelector('.copy').textContent)")


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
