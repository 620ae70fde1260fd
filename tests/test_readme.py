"""The README is short, and what it and CONTRIBUTING name is there.

That its code runs and its number is the measured one is tested with all other pages, in ``tests/docs``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import gmmatch

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_it_is_short():
    assert len(README.splitlines()) <= 90


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_between_files_lead_somewhere(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if not link.startswith("http")]
    missing = [link for link in links if not (ROOT / link).exists()]
    assert missing == []


def test_what_contributing_names_exists():
    """When a file moves, this says where it went, as far as a name can tell."""
    named = re.findall(r"`((?:src|paper|tests|docs|benchmarks|examples)/[\w/.]+)`", CONTRIBUTING)
    assert len(named) > 30
    for path in named:
        alike = [str(one.relative_to(ROOT)) for one in (ROOT / "src").rglob(Path(path).name)]
        assert (ROOT / path).exists(), (
            f"CONTRIBUTING.md names {path}; of that name there is {alike or 'nothing'}"
        )


def test_the_map_has_every_folder_of_both_packages():
    mapped = set(re.findall(r"^\| `([^`]+)` \|", CONTRIBUTING, re.MULTILINE))
    for package in ("src/gmmatch", "paper/src/gmmatch_paper"):
        folders = {f"{package}/{file.parent.name}" for file in (ROOT / package).glob("*/__init__.py")}
        assert folders - {"src/gmmatch/backends"} <= mapped


WALK = """
import sys
from gmmatch.cli import main
for line in sys.argv[1:]:
    sys.argv = ["gmmatch", *line.split()]
    try:
        main()
    except SystemExit as end:
        assert not end.code, line
print("MODULES", *sys.modules)
"""


def test_the_walk_names_files_that_its_commands_run(tmp_path):
    image = pytest.importorskip("PIL.Image")
    walk = CONTRIBUTING.partition("## From a row to the report")[2].partition("\n## ")[0]
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for shade in (0, 90, 250):
            image.new("RGB", (8, 8), (shade, 9, 9)).save(tmp_path / "photos" / name / f"{shade}.png")
    commands = re.findall(r"`gmmatch ((?:embed|select) [^`]+)`", walk)
    assert len(commands) == 2
    commands[0] += " --encoder pixels"  # in place of a model from a hub
    done = subprocess.run(
        [sys.executable, "-c", WALK, *commands], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.rpartition("MODULES ")[2].split()
    steps = re.findall(r"^\d+\. .*", walk, re.MULTILINE)
    assert len(steps) == 10 and (tmp_path / "picks.html").is_file()
    for step in steps:
        files = re.findall(r"`src/([\w/]+)\.py`", step)
        assert files
        for file in files:
            assert file.replace("/", ".") in loaded, (
                f"{file}.py takes no part in {' and '.join(commands)}: {step}"
            )


def test_the_commands_are_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    documented = README + CONTRIBUTING
    commands = set(re.findall(r"\bmake ([a-z-]+)", documented))
    assert {"demo", "test"} <= commands
    assert [name for name in commands if f"\n{name}:" not in makefile] == []


def test_continuous_integration_calls_the_readme_command():
    assert "\nmake test\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


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
