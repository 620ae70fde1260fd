"""The measured parts of the pages, written between their marks from the committed results.

``python -m docs.scripts.measured`` writes them; with ``--check`` it only fails if they are out of date.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from docs.scripts import (
    audit,
    choosing,
    cleaning,
    costs,
    digits,
    duplicates,
    label_errors,
    labels,
    noise,
    picks,
    promises,
    scaling,
    screening,
    support,
    texts,
)
from docs.scripts.results import DOCS

PAGES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "../README.md": {"audit": partial(audit.front, "docs/results-speed.md")},
    "index.md": {"audit": partial(audit.front, "results-speed.md")},
    "results-audit.md": {"audit": audit.tables, "label-errors": label_errors.tables},
    "choose.md": {"decisions": choosing.decisions},
    "results-methods.md": {"digits": digits.tables, "corrupt-rows": choosing.corrupt_rows},
    "results-robust.md": {"robust": screening.robust, "texts": texts.tables},
    "results-labels.md": {"labels": labels.labels},
    "results-noise.md": {"noise": noise.noise, "pred-probs": noise.pred_probs},
    "results-duplicates.md": {"duplicates": duplicates.duplicates},
    "results-picks.md": {"picks": picks.picks},
    "promises.md": promises.COUNTS,
    "results-speed.md": {
        "scaling": scaling.scaling,
        "support": support.cells,
        "gpu": costs.gpu,
        "store": costs.store,
        "within": support.within,
    },
    "guides/clean.md": {"cleaning": cleaning.steps},
    "methods/index.md": {"methods": costs.methods},
}


def filled(page: str) -> str:
    """Return a page's text with its measured parts as the results have them now."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for name, write in PAGES[page].items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        fresh = f"{begin}\n\n{write()}\n\n{end}"
        text, count = re.subn(f"{begin}.*?{end}", lambda _, fresh=fresh: fresh, text, flags=re.DOTALL)
        if count != 1:
            raise ValueError(
                f"docs/{page} should have the marks of {name!r} once, and has them {count} times."
            )
    return text


def outdated() -> list[str]:
    """Return the pages whose measured parts differ from the results."""
    return [page for page in PAGES if filled(page) != (DOCS / page).read_text(encoding="utf-8")]


def main() -> None:
    """Write the pages, or only say whether they are up to date."""
    parser = argparse.ArgumentParser(prog="python -m docs.scripts.measured", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a page is out of date")
    if parser.parse_args().check:
        if outdated():
            sys.exit(f"{', '.join(outdated())}: out of date. Run `python -m docs.scripts.measured`.")
        return
    for page in PAGES:
        Path(DOCS / page).write_text(filled(page), encoding="utf-8")


if __name__ == "__main__":
    main()
