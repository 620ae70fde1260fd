"""Small selections and screenings, and pages about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.screening.result import ScreeningResult

from .browser import Browser, find_browser
from .looking import check_quiet_and_alone, fresh
from .reading import Page


def blobs(n: int = 120, classes: int = 3, features: int = 5) -> tuple[np.ndarray, list[str]]:
    """Rows around a center for each class, every seventh of them with another's label."""
    random = np.random.default_rng(5)
    true = np.arange(n) % classes
    X = random.normal(size=(n, features)) + 6.0 * random.normal(size=(classes, features))[true]
    given = np.where(np.arange(n) % 7 == 3, (true + 1) % classes, true)
    return X, [f"class {label}" for label in given]


def screening_of(y: list[str], **changes: Any) -> ScreeningResult:
    """A screening of ``blobs``: every other wrong label is doubtful; one outlier, one copy, two rows not judged."""
    n, labels = len(y), sorted(set(y))
    given = np.array([labels.index(label) for label in y])
    true = np.arange(n) % len(labels)
    verdicts = np.where(given != true, 2 - np.arange(n) % 2, 0)
    reasons = np.where(given != true, 1, 0)
    duplicate_of = np.full(n, -1)
    good = np.flatnonzero(given == true)
    if len(good) > 4:
        verdicts[good[0]], reasons[good[0]] = 2, 2
        verdicts[good[1:3]] = 3
        duplicate_of[good[4]], reasons[good[4]] = good[3], 4
    probability = np.where(verdicts == 2, 0.97 + 0.02 * np.arange(n) / n, np.where(verdicts == 1, 0.6, 0.02))
    values: dict[str, Any] = {
        "verdict_codes": verdicts, "reason_codes": reasons, "probability": probability,
        "suspicion": np.log(probability / (1 - probability)), "given": given, "suggested_codes": true,
        "confidence": np.full(n, 0.9), "duplicate_of": duplicate_of, "labels": labels, "noise_rate": 0.12,
        "noise_interval": (0.05, 0.2), "notes": ["2 rows were not judged: a class of two rows says too little."],
    }  # fmt: skip
    return ScreeningResult(**{**values, **changes})


def pictures(n: int) -> list[Any]:
    """Pictures of two sizes, the last of them bytes that are no picture."""
    random = np.random.default_rng(1)
    images: list[Any] = [
        random.integers(0, 255, (9, 9, 3) if i % 2 else (70, 90, 3), dtype=np.uint8) for i in range(n)
    ]
    images[-1] = b"this is no picture"
    return images


@dataclass(frozen=True)
class Made:
    """A selection, what it was made from, and the page about it."""

    X: np.ndarray
    y: list[str]
    ids: list[str]
    selection: gm.Selection
    path: Path

    @property
    def page(self) -> Page:
        return Page(self.path)

    @property
    def screening(self) -> ScreeningResult:
        assert self.selection.screening is not None
        return self.selection.screening


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Made:
    """A page with a screening, ids, pictures, two maps and figures."""
    X, y = blobs()
    screening = screening_of(y)
    ids = [f"photos/{label}/{i:04d}.png" for i, label in enumerate(y)]
    selection = gm.GMMatching(k=24, random_state=3).select(X, y, exclude=~screening.trusted, ids=ids)
    selection = selection.change(slice(None), screening=screening)
    path = tmp_path_factory.mktemp("report") / "picks.html"
    gm.write_report(selection, path, X, y, source=pictures(len(X)), ids=ids, projection="tsne")
    return Made(X, y, ids, selection, path)


@pytest.fixture
def page_of(tmp_path) -> Callable[..., Page]:
    """Write a page and read it."""

    def write(subject: Any, X: Any, y: Any = None, **options: Any) -> Page:
        gm.write_report(subject, tmp_path / "page.html", X, y, **options)
        return Page(tmp_path / "page.html")

    return write


@pytest.fixture
def opened(browser: Browser, made: Made) -> Iterator[Browser]:
    """The page of a selection, freshly opened; afterwards it must have been quiet and alone."""
    browser.prefer()
    fresh(browser, made.path)
    yield browser
    check_quiet_and_alone(browser, made.path)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless browser, one for all tests of a process."""
    opened = Browser(str(find_browser()))
    yield opened
    opened.close()
