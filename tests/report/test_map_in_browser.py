"""The map in a headless Chromium: what it draws, and what its controls change."""

from __future__ import annotations

import pytest

from .looking import FADED, FRAME, KEPT, PIXELS, SCREENED, needs_browser, pixels, share, text

pytestmark = needs_browser


def test_the_map_is_drawn(opened):
    assert share(opened, KEPT) > 100


def test_rows_that_are_not_trusted_are_faded_until_suspicion_is_highlighted(opened):
    assert share(opened, SCREENED) == 0 and share(opened, FADED) > 20
    opened.click("input[name=colour][value=suspicion]")
    assert share(opened, SCREENED) > 50
    assert "The stronger a cross, the likelier" in text(opened, "#class-legend")
    opened.click("input[name=colour][value=state]")
    assert share(opened, SCREENED) == 0


def test_the_other_map_shows_the_same_rows_elsewhere_and_says_what_it_is(opened, made):
    first, kept = pixels(opened), share(opened, KEPT)
    said = text(opened, "#map-said")
    opened.click("input[name=map][value='1']")
    assert pixels(opened) != first and share(opened, KEPT) > kept / 2
    assert text(opened, "#map-said").startswith("t-SNE. Neighbors") and said.startswith("PCA. ")
    opened.run("document.querySelector('#maps canvas').focus()")
    opened.press("n", 78)
    assert made.ids[int(made.selection.order[0])] in opened.until(
        "document.getElementById('said').textContent"
    )
    opened.press("Escape", 27)
    opened.click("input[name=map][value='0']")
    opened.run("document.activeElement.blur()")
    assert pixels(opened) == first and text(opened, "#map-said") == said


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
    assert "not trusted: likely mislabeled, " in shown
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
    opened.click("input[name=colour][value=suspicion]")
    kept, screened = share(opened, KEPT), share(opened, SCREENED)
    opened.click("input.state[value=kept]")
    assert share(opened, KEPT) == 0 and share(opened, SCREENED) >= screened > 0
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
