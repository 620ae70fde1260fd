"""Small selections, and pages about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.report import write_report
from gmmatch.screening.result import Screening

from .browser import Browser, find_browser
from .looking import check_quiet_and_alone
from .reading import Page


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


def blobs(n: int = 120, classes: int = 3, features: int = 5) -> tuple[np.ndarray, list[str]]:
    """Rows around a centre for each class, every seventh of them with another's label."""
    random = np.random.default_rng(5)
    true = np.arange(n) % classes
    X = random.normal(size=(n, features)) + 6.0 * random.normal(size=(classes, features))[true]
    given = np.where(np.arange(n) % 7 == 3, (true + 1) % classes, true)
    return X, [f"class {label}" for label in given]


def screened(X: np.ndarray, y: list[str]) -> Screening:
    """A screen that rules out rows nearer to another class's median, and the two rows farthest out."""
    names = sorted(set(y))
    labels = np.array([names.index(label) for label in y])
    centres = np.array([np.median(X[labels == label], axis=0) for label in range(len(names))])
    gaps = np.linalg.norm(X[:, None] - centres, axis=2)
    own, nearest = gaps[np.arange(len(X)), labels], gaps.argmin(axis=1)
    reason = np.where(nearest != labels, 1, 0).astype(np.int8)
    inside = np.where(reason == 0, own, 0.0)
    reason[np.argsort(-inside)[:2]] = 4
    suspicion = np.where(reason > 0, own / own.max(), 0.0)
    looks_like = np.array(names, dtype=object)[nearest]
    return Screening(reason == 0, suspicion, reason, suggested_labels=looks_like)


def pictures(n: int) -> list[Any]:
    """Pictures of two sizes, the last of them bytes that are no picture."""
    random = np.random.default_rng(1)
    made: list[Any] = [
        random.integers(0, 255, (9, 9, 3) if i % 2 else (70, 90, 3), dtype=np.uint8) for i in range(n)
    ]
    made[-1] = b"this is no picture"
    return made


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Made:
    """A page with a screen, ids and pictures."""
    X, y = blobs()
    screening = screened(X, y)
    ids = [f"photos/{label}/{i:04d}.png" for i, label in enumerate(y)]
    found = gm.GMMatching(k=24, random_state=3).select(X, y, exclude=~screening.kept, ids=ids)
    selection = gm.Selection(
        found.order, found.n_rows, found.groups, found.order_ids, found.provenance, screening
    )
    path = tmp_path_factory.mktemp("report") / "picks.html"
    write_report(
        selection,
        path,
        X,
        y,
        source=pictures(len(X)),
        ids=ids,
        seconds=1.25,
        command="gmmatch select rows.emb -k 24 -o picks.parquet --report picks.html",
    )
    return Made(X, y, ids, selection, path)


@pytest.fixture
def page_of(tmp_path) -> Callable[..., Page]:
    """Write a page and read it."""

    def write(selection: gm.Selection, X: Any, y: Any = None, **options: Any) -> Page:
        write_report(selection, tmp_path / "page.html", X, y, **{"projection": "pca", **options})
        return Page(tmp_path / "page.html")

    return write


@pytest.fixture
def opened(browser: Browser, made: Made) -> Iterator[Browser]:
    """The page of a selection, freshly opened; afterwards it must have been quiet and alone."""
    browser.prefer()
    browser.open(made.path)
    browser.run("localStorage.clear()")
    browser.open(made.path)
    yield browser
    check_quiet_and_alone(browser, made.path)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless browser, one for all tests of a process."""
    opened = Browser(str(find_browser()))
    yield opened
    opened.close()
