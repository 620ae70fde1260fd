"""Make the picture of a page that the guide and the README show: python -m tests.report.picture"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from PIL import Image

from tests.report.browser import Browser, find_browser

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "images" / "report.png"


def main() -> None:
    """Run the guide's example, open its page, and save its top."""
    guide = (ROOT / "docs" / "guides" / "report.md").read_text(encoding="utf-8")
    example = re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL)[0]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        exec(compile(example, "report.md", "exec"), {})
        browser = Browser(str(find_browser()))
        try:
            browser.open(Path("digits.html"), width=1180, height=1190)
            browser.picture(PICTURE)
        finally:
            browser.close()
            os.chdir(ROOT)
    with Image.open(PICTURE) as picture:
        fewer = picture.convert("RGB").quantize(
            256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE
        )
    fewer.save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
