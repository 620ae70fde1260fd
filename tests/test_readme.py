"""The README is short, and what it and CONTRIBUTING name is there.

That its code runs and its number is the measured one is tested with all other pages, in ``tests/docs``.
"""

from __future__ import annotations

import re
from pathlib import Path

import gmmatch

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_it_is_short():
    assert len(README.splitlines()) <= 90


def test_what_contributing_names_exists():
    named = re.findall(r"`((?:src|paper|tests|docs|benchmarks|examples)/[\w/.]+)`", CONTRIBUTING)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_map_has_every_room_of_the_library():
    table = CONTRIBUTING.partition("### The map")[2].partition("### The walk of a row")[0]
    mapped = {name.rstrip("/") for name in re.findall(r"`(\w+/?)`", table)}
    package = ROOT / "src" / "gmmatch"
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    modules = {path.stem for path in package.glob("*.py") if not path.stem.startswith("_")}
    assert folders | modules <= mapped


def test_the_walk_names_files_that_are_there():
    walk = CONTRIBUTING.partition("### The walk of a row")[2].partition("\n## ")[0]
    files = re.findall(r"[a-z_]+/[a-z_]+\.py", walk)
    assert len(files) >= 4
    assert [file for file in files if not (ROOT / "src" / "gmmatch" / file).is_file()] == []


def test_the_commands_are_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    documented = README + CONTRIBUTING
    commands = set(re.findall(r"\bmake ([a-z-]+)", documented))
    assert {"demo", "test"} <= commands
    assert [name for name in commands if f"\n{name}:" not in makefile] == []


def test_the_version_is_the_same_everywhere():
    version = re.escape(gmmatch.__version__)
    for path, pattern in (
        ("CITATION.cff", rf"\nversion: {version}\n"),
        ("paper/pyproject.toml", rf'\nversion = "{version}"\n'),
        ("paper/pyproject.toml", rf'"gmmatch\[report\]=={version}"'),
        ("CHANGELOG.md", rf"\n## \[{version}\]"),
    ):
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(pattern, text), f"{path} has another version than gmmatch"
    assert (ROOT / "LICENSE").read_bytes() == (ROOT / "paper" / "LICENSE").read_bytes()
