"""What the README shows is true: its table is the measured one, and its claims hold for it.

That its code runs is tested with that of all other pages, in ``tests/docs``.
"""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path

import pytest

from gmmatch.cli.demo import format_figures

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
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


def test_the_folders_that_contributing_lists_exist():
    table = re.findall(
        r"^\| `([^`]+)` \|", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(table) > 10
    assert [path for path in table if not (ROOT / path).exists()] == []


def test_the_commands_are_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    documented = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    commands = set(re.findall(r"\bmake ([a-z-]+)", documented))
    assert {"demo", "test"} <= commands
    assert [name for name in commands if f"\n{name}:" not in makefile] == []


def test_continuous_integration_calls_the_readme_command():
    assert "\nmake test\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_citation_has_the_version_of_the_package():
    import gmmatch

    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {gmmatch.__version__}\n" in citation
