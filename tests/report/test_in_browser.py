"""The page in a headless Chromium: what the map draws, what its controls change, every theme, screen and reader."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

import gmmatch as gm

from .conftest import blobs, screening_of
from .looking import (
    DOUBTFUL,
    FRAME,
    PICKED,
    PIXELS,
    WRONG,
    check_quiet_and_alone,
    in_browser,
    pixels,
    saved,
    share,
    text,
)
from .test_hostile_content import hostile

__all__ = ["hostile"]
pytestmark = in_browser

# What can be operated on a page: a control that is none of these needs a test.
CONTROLS = (
    ".skip", "nav a", "#theme", "input.state", "input[name=color]", "#only", "#class-legend button", "#maps canvas",
    "[data-zoom]", "#play", "#upto", "input[name=map]", "#download", ".find", "details > summary",
    ".scroll[tabindex]",
)  # fmt: skip


def test_the_map_is_drawn_and_suspects_are_faint_until_they_are_highlighted(opened):
    assert share(opened, PICKED) > 100
    assert share(opened, WRONG) == 0
    opened.click("input[name=color][value=chance]")
    assert share(opened, WRONG) > 20
    assert "The stronger a mark, the likelier" in text(opened, "#class-legend")
    opened.click("input[name=color][value=state]")
    assert share(opened, WRONG) == 0


def test_states_can_be_hidden(opened):
    opened.click("input[name=color][value=chance]")
    picked, wrong = share(opened, PICKED), share(opened, WRONG)
    opened.click("input.state[value=picked]")
    assert share(opened, PICKED) == 0 and share(opened, WRONG) > wrong / 2
    opened.click("input.state[value=wrong]")
    assert share(opened, WRONG) == 0
    opened.click("input.state[value=picked]")
    opened.click("input.state[value=wrong]")
    assert (share(opened, PICKED), share(opened, WRONG)) == (picked, wrong)


def test_the_other_map_shows_the_same_rows_elsewhere_and_says_what_it_is(opened):
    first = pixels(opened)
    assert text(opened, "#map-text").startswith("t-SNE. Neighbors")
    opened.click("input[name=map][value='1']")
    assert pixels(opened) != first and share(opened, PICKED) > 100
    assert text(opened, "#map-text").startswith("PCA. ")
    opened.click("input[name=map][value='0']")
    opened.run("document.activeElement.blur()")
    assert pixels(opened) == first


def test_a_card_leads_to_its_row_on_the_map(opened, made):
    at = opened.run("Number(document.querySelector('.find').dataset.at)")
    opened.click(".find")
    opened.until("!document.getElementById('tip').hidden")
    assert opened.run("document.activeElement === document.querySelector('#maps canvas')")
    x, y = opened.middle("#maps canvas")
    opened.point("mouseMoved", x + 300, y)  # away, where nothing is chosen
    opened.point("mouseMoved", x, y)
    opened.until("!document.getElementById('tip').hidden")
    shown = text(opened, "#tip")
    assert made.ids[at] in shown and f"class {made.y[at]}" in shown
    assert f"{made.screening.verdict[at]}: mislabeled, " in shown
    assert f"looks like {made.screening.suggested[at]}" in shown
    assert opened.run("document.querySelector('#tip img').naturalWidth") > 0
    opened.point("mouseMoved", 5, 5)
    opened.until("document.getElementById('tip').hidden")


def test_buttons_wheel_and_drag_change_the_view_and_all_of_it_comes_back(opened):
    first = pixels(opened)
    opened.click("[data-zoom=in]")
    assert pixels(opened) != first
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
    # The wheel alone scrolls the page.
    opened.click("[data-zoom=all]")
    x, y = opened.middle("#maps canvas")
    before = opened.run("scrollY")
    opened.point("mouseWheel", x, y, deltaX=0, deltaY=300)
    opened.until(f"Math.abs(scrollY - {before}) > 50")
    opened.point("mouseMoved", 5, 5)
    assert pixels(opened) == first


def test_colors_by_class_come_with_a_legend_that_singles_one_out(opened, made):
    plain = pixels(opened)
    opened.click("input[name=color][value=class]")
    by_class = pixels(opened)
    assert by_class != plain
    assert text(opened, "#class-legend").split("\n") == sorted(set(made.y))
    opened.click("#class-legend li:nth-child(2) button")
    assert pixels(opened) != by_class and opened.run("document.getElementById('only').value") == "1"
    opened.run("document.getElementById('only').focus()")
    opened.press("ArrowUp", 38)
    opened.press("ArrowUp", 38)
    assert opened.run("document.getElementById('only').value") == "-1" and pixels(opened) == by_class
    opened.click("input[name=color][value=state]")
    assert pixels(opened) == plain and opened.run("document.getElementById('class-legend').hidden")


def test_the_slider_shows_as_many_picks_as_it_says(opened):
    everything = share(opened, PICKED)
    assert text(opened, "#upto-text") == "all 24 picks"
    opened.run("document.getElementById('upto').focus()")
    opened.press("Home", 36)
    opened.until("document.getElementById('upto-text').textContent === 'the first 0 of 24'")
    assert share(opened, PICKED) == 0
    for _ in range(3):
        opened.press("ArrowRight", 39)
    opened.until("document.getElementById('upto-text').textContent === 'the first 3 of 24'")
    assert 0 < share(opened, PICKED) < everything


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_the_replay_runs_from_the_first_pick_and_can_be_stopped(opened, motion):
    opened.middle("#play")
    opened.prefer(prefers_reduced_motion=motion)
    opened.run(
        "window.seen = []; new MutationObserver(() => seen.push(Number(document.getElementById('upto').value)))"
        ".observe(document.getElementById('upto-text'), { childList: true }); 0"
    )
    opened.click("#play")
    opened.until("seen.length > 1")
    opened.click("#play")
    seen = opened.run("seen")
    assert seen == sorted(seen) and seen[0] < 24
    stopped = opened.run("document.getElementById('upto').value")
    opened.run(FRAME)
    assert opened.run("document.getElementById('upto').value") == stopped
    opened.prefer()


def test_the_keyboard_moves_zooms_and_steps_through_the_picks(opened, made):
    first = pixels(opened)
    opened.run("document.querySelector('#maps canvas').focus()")
    opened.press("n", 78)
    opened.press("n", 78)
    second = int(made.selection.order[1])
    opened.until(
        f"document.getElementById('aloud').textContent === '{made.ids[second]}, class {made.y[second]}, pick 2 of 24'"
    )
    opened.press("p", 80)
    opened.until("document.getElementById('aloud').textContent.endsWith('pick 1 of 24')")
    opened.press("Escape", 27)
    assert opened.run("document.getElementById('tip').hidden")
    for key, code in (("+", 187), ("ArrowLeft", 37), ("ArrowUp", 38), ("-", 189)):
        before = pixels(opened)
        opened.press(key, code)
        assert pixels(opened) != before
    opened.press("0", 48)
    assert pixels(opened) == first


def test_two_fingers_zoom(opened):
    opened.send("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
    x, y = opened.middle("#maps canvas")
    before = pixels(opened)

    def touch(kind: str, *gaps: float) -> None:
        points = [{"x": x + gap, "y": y, "id": number} for number, gap in enumerate(gaps)]
        opened.send("Input.dispatchTouchEvent", type=kind, touchPoints=points)

    touch("touchStart", -20, 20)
    for gap in (40, 60, 80):
        touch("touchMove", -gap, gap)
    touch("touchEnd")
    assert pixels(opened) != before
    opened.send("Emulation.setTouchEmulationEnabled", enabled=False)


def test_every_control_is_known_named_and_reached_by_tab(opened):
    unknown = opened.run(
        "[...document.querySelectorAll('a, button, input, select, textarea, canvas, summary, [tabindex=\"0\"]')]"
        f".filter(it => !it.matches({', '.join(CONTROLS)!r})).map(it => it.outerHTML)"
    )
    assert unknown == []
    nodes = opened.send("Accessibility.getFullAXTree")["nodes"]
    controls = {"button", "link", "slider", "checkbox", "radio", "combobox", "application", "image", "region"}
    named = [node for node in nodes if not node["ignored"] and node["role"]["value"] in controls]
    assert [
        node["role"]["value"] for node in named if not node.get("name", {}).get("value", "").strip()
    ] == []
    opened.run("document.body.focus(); window.scrollTo(0, 0)")
    reached: list[str] = []
    for _ in range(200):
        opened.press("Tab", 9)
        name = opened.run(
            "(() => { const it = document.activeElement; return it === document.body ? '' :"
            "(it.id || it.name || it.dataset.zoom || it.className || it.tagName); })()"
        )
        if name == "" and reached:
            break
        reached.append(name)
    assert {"skip", "theme", "state", "color", "only", "in", "out", "all", "play", "find"} <= set(reached)
    assert {"upto", "download"} <= set(reached)
    order = [reached.index(name) for name in ("skip", "theme", "state", "only", "play", "upto")]
    assert order == sorted(order)


def test_links_and_details_open(opened):
    links = opened.run("[...document.querySelectorAll('nav a')].map(it => it.getAttribute('href'))")
    assert links == ["#findings", "#map", "#picks", "#details"]
    for link in links:
        opened.click(f"nav a[href='{link}']")
        opened.until(f"location.hash === '{link}'")
    for number in range(opened.run("document.querySelectorAll('details').length")):
        details = f"document.querySelectorAll('details')[{number}]"
        opened.run(f"{details}.querySelector('summary').focus()")
        opened.press("Enter", 13, "\r")
        assert opened.run(f"{details}.open && {details}.querySelectorAll('tbody tr, .card').length > 0")


def test_the_theme_follows_the_system_until_the_button_says_otherwise(opened, made):
    paper = "getComputedStyle(document.body).backgroundColor"
    light, drawn = opened.run(paper), pixels(opened)
    opened.prefer(prefers_color_scheme="dark")
    dark = opened.run(paper)
    assert dark != light and pixels(opened) != drawn
    opened.prefer()
    assert opened.run(paper) == light and pixels(opened) == drawn
    opened.click("#theme")
    assert opened.run(paper) == dark and text(opened, "#theme") == "Light mode"
    opened.open(made.path)
    assert opened.run(paper) == dark  # it is remembered
    opened.run("localStorage.clear()")


def test_on_paper_it_is_light_and_without_controls(opened):
    opened.prefer(medium="print", prefers_color_scheme="dark")
    for selector in (".tools", ".replay", "#theme", ".actions", ".zoom"):
        assert opened.run(f"getComputedStyle(document.querySelector({selector!r})).display === 'none'")
    assert opened.run("getComputedStyle(document.documentElement).getPropertyValue('--ink')") == "#1c2430"
    opened.send("Page.printToPDF")
    opened.prefer()


@pytest.mark.parametrize("width", [320, 390, 768])
def test_on_narrow_screens_nothing_lies_beyond_the_edge_or_is_too_small(browser, made, width):
    browser.open(made.path, width=width, height=844, touch=True)
    assert browser.run("document.documentElement.scrollWidth") <= width
    tiny = browser.run(
        "[...document.querySelectorAll('main p, main td, main dd, main button, main label')]"
        ".filter(one => one.offsetWidth && parseFloat(getComputedStyle(one).fontSize) < 11).length"
    )
    assert tiny == 0
    small = browser.run(
        "[...document.querySelectorAll('nav a, button, select, summary, .chips label')]"
        ".map(it => [it.className || it.id || it.tagName, it.getBoundingClientRect()])"
        ".filter(([, box]) => box.width && (box.height < 44 || box.width < 24)).map(([name]) => name)"
    )
    assert width != 390 or small == []
    check_quiet_and_alone(browser, made.path)


def test_the_table_of_suspects_can_be_saved(opened, made):
    lines = list(csv.DictReader(io.StringIO(saved(opened, "#download"))))
    assert len(lines) == np.isin(made.screening.verdict, ["wrong", "doubtful"]).sum()
    for line in lines:
        row = int(line["row"])
        assert (line["id"], line["label"]) == (made.ids[row], made.y[row])
        assert line["verdict"] == made.screening.verdict[row]
        assert float(line["probability"]) == pytest.approx(made.screening.probability[row], abs=1e-4)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_what_is_behind_them(browser, made, scheme):
    browser.prefer(prefers_color_scheme=scheme)
    browser.open(made.path)
    faint = browser.run(CONTRAST)
    browser.prefer()
    assert faint == []


# The elements with text of their own whose contrast is below what WCAG AA asks for.
CONTRAST = """(() => {
  const parse = (text) => { const [r, g, b, a = 1] = text.match(/[0-9.]+/g).map(Number);
    const full = text.startsWith('color(') ? 255 : 1; return [r * full, g * full, b * full, a]; };
  const light = ([r, g, b]) => { const f = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const behind = (it) => { // what is not opaque lets through what is behind it
    if (!it) return [255, 255, 255];
    const [r, g, b, a] = parse(getComputedStyle(it).backgroundColor);
    if (a === 1) return [r, g, b];
    return behind(it.parentElement).map((value, i) => value * (1 - a) + [r, g, b][i] * a);
  };
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


def test_a_screening_alone_and_several_selections_have_their_pages(browser, tmp_path):
    X, y = blobs()
    screening = screening_of(y)
    gm.write_report(screening, tmp_path / "screening.html", X, y)
    browser.open(tmp_path / "screening.html")
    assert share(browser, WRONG) > 0 and share(browser, DOUBTFUL) > 0 and share(browser, PICKED) == 0
    check_quiet_and_alone(browser, tmp_path / "screening.html")
    picks = gm.Selection(np.flatnonzero(screening.trusted)[:20], len(X), screening=screening)
    gm.write_report({"first": picks, "none": gm.Selection([0], len(X))}, tmp_path / "both.html", X, y)
    browser.open(tmp_path / "both.html")
    assert pixels(browser, 0) != pixels(browser, 1)
    before = pixels(browser, 1)
    browser.click("[data-zoom=in]")
    assert pixels(browser, 1) != before  # they move together
    check_quiet_and_alone(browser, tmp_path / "both.html")


def test_hostile_and_right_to_left_texts_are_shown_as_they_are(browser, hostile, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(hostile.source, encoding="utf-8")
    browser.open(path, width=390, height=844, touch=True)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert "broken" not in browser.run("document.title").replace("document.title='broken'", "")
    assert browser.run("getComputedStyle(document.body).direction") == "ltr"
    directions = browser.run(
        "[...document.querySelectorAll('blockquote')].map(it => [it.textContent, getComputedStyle(it).direction])"
    )
    assert {direction for words, direction in directions if words.startswith("שלום")} == {"rtl"}
    check_quiet_and_alone(browser, path)


def test_fifty_thousand_rows_open_without_a_word(browser, tmp_path):
    random = np.random.default_rng(0)
    y = random.integers(0, 100, 50_000)
    X = (random.normal(size=(50_000, 8)) + 4.0 * random.normal(size=(100, 8))[y]).astype(np.float32)
    ids = [
        f"a/folder/with/a/long/name/class-{label:03d}/photograph-{i:08d}.jpeg" for i, label in enumerate(y)
    ]
    path = tmp_path / "page.html"
    gm.Random(k="10%", random_state=0).select(X, y, ids=ids).report(path, X, y, ids=ids)
    assert path.stat().st_size < 10_000_000
    browser.open(path)
    assert browser.run("document.querySelector('#upto-text').textContent") == "all 5,000 picks"
    check_quiet_and_alone(browser, path)
