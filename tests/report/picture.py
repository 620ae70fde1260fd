"""Make the pictures of pages that the guides and the README show: python -m tests.report.picture"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import gmmatch as gm
from tests.report.browser import Browser, find_browser

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
CHOOSE_MISLABELED = """(() => {
  const reason = document.getElementById("by-reason");
  reason.value = "mislabeled";
  reason.dispatchEvent(new Event("change"));
})()"""


def make_report() -> Path:
    """Run the example of the guide to reports; return its page."""
    guide = (ROOT / "docs" / "guides" / "report.md").read_text(encoding="utf-8")
    example = re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL)[0]
    exec(compile(example, "report.md", "exec"), {})
    return Path("digits.html")


def make_review() -> Path:
    """Write the page of a review of digits, a fifth of them mislabeled."""
    digits, random = load_digits(), np.random.default_rng(0)
    wrong = random.random(len(digits.target)) < 0.2
    given = np.where(wrong, (digits.target + random.integers(1, 10, len(wrong))) % 10, digits.target)
    images = (15 * digits.images).astype(np.uint8)
    gm.review(digits.data, given, output="d.csv", source=list(images), static="review.html")
    return Path("review.html")


def save(page: Path, name: str, height: int, script: str = "1") -> None:
    """Save the top of a page as it looks after a script."""
    browser = Browser(str(find_browser()))
    try:
        browser.open(page, width=1180, height=height)
        browser.run(script)
        browser.picture(IMAGES / name)
    finally:
        browser.close()
    with Image.open(IMAGES / name) as picture:
        fewer = picture.convert("RGB").quantize(
            256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE
        )
    fewer.save(IMAGES / name, optimize=True)


def main() -> None:
    """Make both pictures."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        save(make_report(), "report.png", 1190)
        save(make_review(), "review.png", 780, CHOOSE_MISLABELED)
        os.chdir(ROOT)


if __name__ == "__main__":
    main()
