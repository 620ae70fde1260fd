"""Looking at a page in the browser: its pixels, its texts, and that it is quiet and alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .browser import HOW_TO_GET_IT, Browser, find_browser

in_browser = [pytest.mark.slow, pytest.mark.skipif(find_browser() is None, reason=HOW_TO_GET_IT)]
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
# How much of the first map is of about this color.
SHARE = f"""(() => {{
  const canvas = document.querySelector('#maps canvas'), wanted = %s;
  {BYTES}
  let found = 0;
  for (let i = 0; i < bytes.length; i += 4) {{
    if (wanted.every((value, j) => Math.abs(value - bytes[i + j]) < 24)) found++;
  }}
  return found;
}})()"""
# Of picks, and of wrong and doubtful rows where they are highlighted.
PICKED, WRONG, DOUBTFUL = "[0, 114, 178]", "[213, 94, 0]", "[230, 159, 0]"


def check_quiet_and_alone(browser: Browser, path: Path) -> None:
    """The page said nothing to the console and asked nobody for anything."""
    assert browser.complaints == []
    asked = [url for url in browser.requests if not url.startswith("data:")]
    assert asked and set(asked) == {path.resolve().as_uri()}


def pixels(browser: Browser, number: int = 0) -> int:
    """A number that stands for all pixels of a map."""
    browser.run(FRAME)
    return browser.run(PIXELS % number)


def share(browser: Browser, color: str) -> int:
    """How many pixels of the first map have about this colour."""
    browser.run(FRAME)
    return browser.run(SHARE % color)


def text(browser: Browser, selector: str) -> str:
    """What can be read in an element."""
    return browser.run(f"document.querySelector({json.dumps(selector)}).innerText")


def fresh(browser: Browser, page: Path, **screen: Any) -> None:
    """Open a page that keeps nothing of an earlier visit."""
    browser.open(page, **screen)
    browser.run("localStorage.clear()")
    browser.open(page, **screen)


def saved(browser: Browser, button: str) -> str:
    """What the file would hold that a button saves."""
    browser.run(
        "window.blobs = []; window.plain ??= URL.createObjectURL;"
        "URL.createObjectURL = blob => { window.blobs.push(blob); return window.plain.call(URL, blob); };"
        "HTMLAnchorElement.prototype.click = function () {}; 1"
    )
    browser.click(button)
    return str(browser.run("window.blobs[0].text()"))
