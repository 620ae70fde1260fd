"""What the README shows is true: its table is the measured one, and its claims hold for it.

That its code runs is tested with that of all other pages, in ``tests/docs``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

import gmmatch
from gmmatch.cli.demo import format_figures

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RESULT = json.loads((ROOT / "docs" / "results" / "demo.json").read_text(encoding="utf-8"))


def mean(figure: str) -> dict[str, float]:
    return {row["label"]: row[figure]["mean"] for row in RESULT["rows"]}


def methods_only(figures: dict[str, float]) -> dict[str, float]:
    measured = {row["label"] for row in RESULT["rows"] if row["method"] is not None}
    return {label: value for label, value in figures.items() if label in measured}


def test_the_table_is_the_committed_result():
    table = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in README.splitlines()
        if line.startswith("|")
    ]
    assert table[2:] == [[row["label"], *format_figures(row)] for row in RESULT["rows"]]


def test_the_setting_is_the_committed_one():
    data = RESULT["data"]
    assert f"{data['training_rows']:,} digits of which {data['flipped']:.0%}" in README
    assert f"keeps {data['kept']:.0%}" in README
    assert f"over {len(data['seeds'])} seeds" in README


def test_gm_matching_is_nearest_to_the_centre_and_in_mmd():
    for figure in ("moment_error", "mmd"):
        found = methods_only(mean(figure))
        assert min(found, key=found.__getitem__) == "gm-matching"


def test_it_does_not_weed_out_wrong_labels_but_easy_does():
    found = mean("contamination")
    assert 0.7 * found["all noisy rows"] < found["gm-matching"] < found["all noisy rows"]
    assert found["easy"] < 0.01


def test_unit_length_halves_the_wrong_labels_and_matches_less_well():
    assert (
        0.4 < mean("contamination")["gm-matching (unit length)"] / mean("contamination")["gm-matching"] < 0.6
    )
    assert mean("moment_error")["gm-matching (unit length)"] > mean("moment_error")["gm-matching"]


def test_the_accuracies_called_alike_are_within_their_deviations_and_below_all_rows():
    rows = {row["label"]: row["accuracy"] for row in RESULT["rows"]}
    alike = ["easy", "herding", "kernel-herding", "gm-matching", "gm-matching (unit length)"]
    for one, other in combinations([rows[label] for label in alike], 2):
        assert abs(one["mean"] - other["mean"]) < max(one["deviation"], other["deviation"])
    assert all(rows[label]["mean"] < rows["all noisy rows"]["mean"] for label in alike)


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
