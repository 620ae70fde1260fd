"""The site holds together: links lead somewhere, pages are complete, quoted numbers are the measured ones."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import gmmatch as gm

from .blocks import ROOT, pages

sys.path.insert(0, str(ROOT))  # the scripts of the documentation do not belong to the package

from docs.scripts import choosing, digits, measured, method_figures, promises
from docs.scripts.results import load, of_method

DOCS = ROOT / "docs"
LINKED = [*pages(), "CONTRIBUTING.md", "CHANGELOG.md", "llms.txt", "benchmarks/README.md"]
PACKAGES = (
    "gmmatch.data",
    "gmmatch.encoders",
    "gmmatch.metrics",
    "gmmatch.rows",
    "gmmatch.store",
    "gmmatch_paper.corruption",
)
API = "\n".join(path.read_text(encoding="utf-8") for path in sorted((DOCS / "api").glob("*.md")))


def prose(page: str) -> str:
    """A page's text without its code."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"^ *```(?!\{)\w*\n.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]+`(?!\])", "", text)


def anchors(page: Path) -> set[str]:
    """What can be linked to on a page: its headings, as code hosts and MyST write them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#{1,6} +(.+?) *$", text, flags=re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def broken_links(page: str) -> list[str]:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"\w+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", LINKED)
def test_links_lead_to_files_and_headings_that_are_there(page):
    assert broken_links(page) == []


@pytest.mark.parametrize("page", [page for page in pages() if page.startswith("docs/")])
def test_figures_and_downloads_are_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"```\{figure\} (\S+)", text) + re.findall(r"\{download\}`[^`<]*<([^>]+)>`", text)
    assert [name for name in named if not ((ROOT / page).parent / name).exists()] == []


@pytest.mark.parametrize("page", pages())
def test_names_in_references_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for name in re.findall(r"\{py:\w+\}`~?([\w.]+)`", text):
        assert resolves(name), f"{page} refers to {name}"


def resolves(name: str) -> bool:
    """Whether a dotted name is that of a module, or of something inside one."""
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        for name_within in parts[split:]:
            if not hasattr(value, name_within):
                return False
            value = getattr(value, name_within)
        return True
    return False


@pytest.mark.parametrize("name", [*method_figures.names(), *method_figures.WITHOUT_FIGURE])
def test_every_method_has_a_page_with_its_figure(name):
    text = (DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8")
    method, _ = method_figures.VARIANTS.get(name, (name, {}))
    cls = gm.method_class(method)
    module = "gmmatch" if hasattr(gm, cls.__name__) else cls.__module__
    assert f"{{py:class}}`{module}.{cls.__name__}`" in text
    if name not in method_figures.WITHOUT_FIGURE:
        assert f"../images/methods/{name}.png" in text
        assert (DOCS / "images" / "methods" / f"{name}.png").stat().st_size < 100_000


@pytest.mark.parametrize(
    "name", ["easy", "moderate", "herding", "matching", "gm-matching", "gm-matching-authors"]
)
def test_the_figures_show_what_the_methods_keep(name):
    committed = of_method(load("docs/results/methods.json")["methods"], name)
    for state, corrupted in (("clean", False), ("spoilt", True)):
        data = method_figures.toy(corrupted)
        measured_now = method_figures.measure(data, method_figures.pick(name, data))
        assert measured_now == pytest.approx(committed[state], abs=2e-4), state


def test_every_figure_has_its_numbers():
    committed = load("docs/results/methods.json")["methods"]
    assert [name for name in method_figures.names() if of_method(committed, name) is None] == []


def test_the_measured_parts_of_the_pages_are_those_of_the_results():
    assert measured.outdated() == [], "run `python -m docs.scripts.measured`"


def test_every_promise_names_tests_that_are_there():
    assert promises.missing() == []


def test_a_method_that_is_recommended_was_the_best_of_those_compared():
    committed = load("docs/results/methods.json")["methods"]
    figures = {name: numbers["spoilt"] for name, numbers in committed.items()}
    for field in ("bad_picks", "mmd"):
        assert figures["robust"][field] == min(numbers[field] for numbers in figures.values())
    errors = {
        name: choosing.gaussian(name, 0.4, "mean_error") for name in ("random", "easy", "moderate", "herding")
    }
    assert choosing.gaussian("gm-matching", 0.4, "mean_error") < min(errors.values())


def test_numbers_in_the_text_of_the_methods_are_the_measured_ones():
    def text(name: str) -> str:
        return " ".join((DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8").split())

    linear = digits.digits_row("gm-matching")["contamination"]["mean"]
    assert f"With 35% of the labels of digits wrong, {linear:.1%} of its picks" in text("gm-matching")
    (passes,) = {
        round(one["median_passes_mean"])
        for one in load("benchmarks/results/gpu.json")["workloads"]
        if "median_passes_mean" in one
    }
    assert passes == 6 and "about six for a gap" in text("gm-matching")
    wrong = digits.digits_row("hard")["contamination"]["mean"]
    assert f"35% wrong labels {wrong:.0%} of its picks are wrong" in text("hard")
    ratio = digits.digits_row("gm-matching (unit length)")["contamination"]["mean"] / linear
    assert f"about {ratio:.1f} times as many wrong labels" in text("gm-matching-authors")
    figures = load("docs/results/methods.json")["methods"]
    assert f"In the figure {figures['robust']['spoilt']['bad_picks']:.0%} of its picks are bad" in text(
        "robust"
    )
    assert f"in the figure, {figures['moderate']['spoilt']['bad_picks']:.0%} of its picks" in text("moderate")
    for name in ("forgetting", "el2n"):
        assert figures[name]["spoilt"]["bad_picks"] == 1.0 and "all picks on the right" in text(name)
    assert choosing.probe("easy", "accuracy") < choosing.probe("random", "accuracy")
    assert choosing.probe("easy", "contamination") < 0.25 * choosing.probe("random", "contamination")


def test_every_public_name_is_in_the_reference():
    public = [name for name in gm.__all__ if name not in ("__version__", "errors", "metrics")]
    for package in PACKAGES:
        module = importlib.import_module(package)
        defined = [name for name in vars(module) if hasattr(getattr(module, name), "__qualname__")]
        public += getattr(module, "__all__", defined)
    assert [name for name in public if not re.search(rf"^ +(\w+\.)?{name}$", API, re.MULTILINE)] == []


def test_every_name_of_the_reference_exists():
    for body in re.findall(r"```\{eval-rst\}\n(.*?)```", API, re.DOTALL):
        (module,) = re.findall(r"currentmodule:: (\S+)", body)
        for name in re.findall(r"^ {3}(\w[\w.]*)$", body, re.MULTILINE):
            if module.startswith("gmmatch_paper.training") and find_spec("torch") is None:
                continue
            assert resolves(f"{module}.{name}"), f"{module}.{name}"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_asks_no_server(tmp_path):
    for package in (
        "sphinx",
        "myst_parser",
        "pydata_sphinx_theme",
        "sphinx_gallery",
        "sphinx_copybutton",
        "sphinx_design",
        "torch",
    ):
        pytest.importorskip(package, reason="needs the extra gmmatch[docs]")
    # The examples are run by their own tests, and what Sphinx generates must not meet that of `make docs`.
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-D", "plot_gallery=0"]
    site = tmp_path / "html"
    copied = tmp_path / "project"
    ignored = ("_build", "generated", "auto_examples", "__pycache__", "sg_execution_times.rst")
    for folder in ("docs", "examples", "benchmarks"):
        shutil.copytree(ROOT / folder, copied / folder, ignore=shutil.ignore_patterns(*ignored))
    for path in ROOT.glob("*.*"):
        if path.is_file():
            (copied / path.name).write_bytes(path.read_bytes())
    done = subprocess.run(
        [*command, str(copied / "docs"), str(site)],
        capture_output=True, text=True, timeout=900, check=False, env={**os.environ, "MPLBACKEND": "agg"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    written = list(site.rglob("*.html"))
    assert len(written) > 150
    fetched = re.compile(r'<(?:script|link|img)[^>]+(?:src|href)="(?:https?:)?//')
    assert [page.name for page in written if fetched.search(page.read_text(encoding="utf-8"))] == []
    assert "<math" in (site / "methods" / "gm-matching.html").read_text(encoding="utf-8")
