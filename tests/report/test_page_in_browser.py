"""The page in a headless Chromium: for every screen, every theme, every reader, and on paper."""

from __future__ import annotations

import base64
import csv
import io

import numpy as np
import pytest
from PIL import Image

from .looking import check_quiet_and_alone, needs_browser, pixels, text

pytestmark = needs_browser


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
        "find",
        "download",
    ):
        assert wanted in reached
    order = [reached.index(name) for name in ("skip", "theme", "state", "only", "play", "upto")]
    assert order == sorted(order)


def test_the_pictures_lead_to_the_map(opened, made):
    opened.click("#picks .find")
    place = opened.run("Number(document.querySelector('#picks .find').dataset.place)")
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
    assert text(opened, "#theme") == "Dark mode"
    opened.click("#theme")
    assert opened.run(paper) == dark and text(opened, "#theme") == "Light mode"
    opened.open(made.path)
    assert opened.run(paper) == dark  # it is remembered
    opened.click("#theme")
    assert opened.run(paper) == light
    opened.run("localStorage.clear()")


def test_on_paper_it_is_light_and_without_controls(opened):
    opened.prefer(medium="print", prefers_color_scheme="dark")
    hidden = "getComputedStyle(document.querySelector(%r)).display === 'none'"
    for selector in (".tools", ".replay", "#theme", ".actions", ".zoom"):
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


@pytest.fixture
def on_a_phone(browser, made):
    """The page on a narrow screen that is touched."""
    browser.send("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
    browser.open(made.path, width=390, height=844, touch=True)
    yield browser
    browser.send("Emulation.setTouchEmulationEnabled", enabled=False)


def test_on_a_phone_every_link_is_seen_and_every_control_is_as_large_as_a_finger(on_a_phone):
    cut = on_a_phone.run(
        "[...document.querySelectorAll('nav a')].map(it => it.getBoundingClientRect())"
        ".filter(box => box.left < 0 || box.right > innerWidth).length"
    )
    assert cut == 0
    small = on_a_phone.run(
        "[...document.querySelectorAll('nav a, button, select, summary, .chips label')]"
        ".map(it => [it.className || it.id || it.tagName, it.getBoundingClientRect()])"
        ".filter(([, box]) => box.width && (box.height < 44 || box.width < 24)).map(([name]) => name)"
    )
    assert small == []


def test_a_table_that_is_cut_has_a_shadow_at_that_edge(on_a_phone):
    box = on_a_phone.run(
        "(() => { const it = document.querySelector('.matrix').parentElement;"
        "it.scrollIntoView({ block: 'center', behavior: 'instant' });"
        "const { right, top, height } = it.getBoundingClientRect();"
        "return [right, top + scrollY + height / 2, it.scrollWidth > it.clientWidth]; })()"
    )
    assert box[2]
    # Where it was cut, and where it ends.
    shadows = []
    for where in ("0", "it.scrollWidth"):
        on_a_phone.run(
            f"(() => {{ const it = document.querySelector('.matrix').parentElement; it.scrollLeft = {where}; }})()"
        )
        shadows.append(darkness(on_a_phone, box[0] - 2, box[1]))
    assert shadows[0] > shadows[1] + 20


def darkness(browser, x: float, y: float) -> float:
    """How much darker than white the page is there, on a line of forty pixels downwards."""
    clip = {"x": x, "y": y - 20, "width": 1, "height": 40, "scale": 1}
    data = browser.send("Page.captureScreenshot", format="png", clip=clip)["data"]
    with Image.open(io.BytesIO(base64.b64decode(data))) as picture:
        return 255.0 - float(np.asarray(picture.convert("L")).max())


def test_the_table_of_suspects_can_be_saved(opened, made):
    opened.run(
        "window.files = []; const make = URL.createObjectURL;"
        "URL.createObjectURL = (blob) => { blob.text().then((text) => files.push(text)); return make(blob); }; 0"
    )
    opened.click("#download")
    lines = list(csv.DictReader(io.StringIO(opened.until("files[0]"))))
    screening = made.selection.screening
    out = np.flatnonzero(~screening.kept)
    assert sorted(int(line["row"]) for line in lines) == out.tolist()
    for line in lines:
        row = int(line["row"])
        assert (line["id"], line["label"]) == (made.ids[row], made.y[row])
        assert line["suggested_label"] == screening.suggested_labels[row]
        assert line["reason"] == screening.reasons[screening.reason[row]]
        assert float(line["probability"]) == pytest.approx(screening.probability[row], abs=1e-4)


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
