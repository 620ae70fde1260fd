"""A person at the page of `review` who knows the truth, and presses keys."""

from __future__ import annotations

import json
from collections.abc import Mapping

from .browser import Browser

PROGRESS = "document.getElementById('progress-text').textContent"
_SHOWN = (
    "[Array.from(document.querySelectorAll('article .hint:last-child'), hint => hint.textContent),"
    " Array.from(document.querySelectorAll('article .question b'), label => label.textContent),"
    " document.querySelector('[data-answer=wrong]').firstChild.textContent.trim()]"
)


def answer_like_a_person(browser: Browser, truth: Mapping[str, str]) -> str:
    """Answer the question that is shown; return the name of the row.

    ``truth`` has the right label of each file by its name; what is not there belongs nowhere.
    """
    names, given, wrong = browser.run(_SHOWN)
    right = [truth.get(name.rpartition("/")[2]) for name in names]
    before = browser.run(PROGRESS)
    if len(names) == 2 and right[0] == given[0]:
        browser.press("a", 65, "a")
    elif len(names) == 2 and right[1] == given[1]:
        browser.press("b", 66, "b")
    elif len(names) == 2 or right[0] is None:
        browser.press("d", 68, "d")
    elif right == given:
        browser.press("r", 82, "r")
    elif wrong == f"Wrong: {right[0]}":
        browser.press("w", 87, "w")
    else:
        browser.press("l" if wrong != "Wrong" else "w", 76 if wrong != "Wrong" else 87)
        browser.until("document.activeElement.id === 'label'")
        browser.send("Input.insertText", text=right[0])
        browser.press("Enter", 13, "\r")
    browser.until(f"{PROGRESS} !== {json.dumps(before)}")
    return str(names[0])
