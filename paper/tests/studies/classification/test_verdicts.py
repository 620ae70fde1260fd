"""The committed verdicts, computed a second time from the committed cells by the rules that the page states."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

DOCS = Path(__file__).parents[4] / "docs"
IN_TABLES = {
    "random",
    "herding",
    "forgetting",
    "grand",
    "el2n",
    "optimization",
    "self-supervised",
    "moderate",
}
OTHERS = sorted(IN_TABLES | {"easy", "hard"})
IN_FIGURES = {"random", "easy", "hard", "moderate", "herding"}
# Study, data, training, corruptions, what the text claims, the words of its row, the methods of the paper.
ROWS: tuple[tuple[str, str, str, tuple[str, ...], float, str, set[str]], ...] = (
    ("clean-classification", "cifar100", "fast:1000", ("none",), 2.0, "Clean", IN_TABLES),
    ("image-corruption", "cifar100", "fast:1000", ("image:5%", "image:10%", "image:20%"), 3.0, "Corrupted images",
     IN_TABLES),
    ("label-noise", "cifar100", "fast:1000", ("label:20%", "label:35%"), 12.0, "Label noise", IN_TABLES),
    ("adversarial", "cifar100", "fast:1000", ("pgd:100%", "fgsm:100%"), 3.0, "Attacked images", IN_TABLES),
    ("vit", "cifar100", "fast-adamw:1000", ("none", "image:20%", "label:20%"), 10.0, "ViT-S", IN_TABLES),
    ("network-transfer", "cifar100", "fast:1000", ("none",), 0.0, "Other networks, clean", IN_TABLES),
    ("domain-transfer", "cifar10", "fast", ("none", "label:20%", "label:40%"), 0.0,
     "Frozen encoder, trained from scratch", IN_FIGURES),
    ("domain-transfer", "cifar10", "", ("none", "label:20%", "label:40%"), 0.0, "Frozen encoder, linear probe",
     IN_FIGURES),
    ("clip-transfer", "cifar10", "fast:1000", ("label:40%",), 3.0, "CLIP, 40% label noise", IN_FIGURES),
)  # fmt: skip


def accuracies(
    study: str, dataset: str, recipe: str, corruptions: tuple[str, ...]
) -> dict[tuple[str, ...], Any]:
    """Return, by column and method, the accuracies of the seeds in percent."""
    record = json.loads((DOCS / "results" / "studies" / f"{study}.json").read_text(encoding="utf-8"))
    columns: dict[tuple[str, ...], Any] = {}
    for cell in record["parts"]["cells"]["cells"]:
        frozen = study == "domain-transfer" and cell["encoder"].startswith("in-domain")
        if (cell["dataset"], cell["recipe"]) != (dataset, recipe) or frozen:
            continue
        if cell["corruption"] in corruptions and "accuracy" in cell and cell["amount"] != "100%":
            key = (cell["network"], cell["corruption"], cell["amount"])
            columns.setdefault(key, {}).setdefault(cell["method"], []).append(100 * cell["accuracy"])
    return columns


def verdict(columns: dict[tuple[str, ...], Any], own: str, claimed: float, compared: set[str]) -> str:
    """Return what the rules make of the columns, as the page prints it."""
    margins = []
    for methods in columns.values():
        if own in methods:
            best = max((name for name in OTHERS if name in methods), key=lambda name: np.mean(methods[name]))
            margins.append((methods[own], methods[best], set(methods)))
    margins = [one for one in margins if min(len(one[0]), len(one[1])) > 1] or margins
    points = np.mean([np.mean(ours) - np.mean(theirs) for ours, theirs, _ in margins])
    shown = f"{points:+.1f}".replace("-", "−")
    samples = [sample for ours, theirs, _ in margins for sample in (ours, theirs)]
    if min(map(len, samples)) == 1:
        return f"**one seed** ({shown})"
    terms = np.array([stats.sem(sample) ** 2 / len(margins) ** 2 for sample in samples])
    freedom = terms.sum() ** 2 / sum(terms**2 / [len(sample) - 1 for sample in samples])
    half = stats.t.ppf(0.975, freedom) * terms.sum() ** 0.5
    all_run = all(compared <= run for _, _, run in margins)
    word = (
        "unclear" if abs(points) <= half
        else "no" if points < 0
        else "less" if points + half < claimed
        else "yes" if all_run else "above those run"
    )  # fmt: skip
    return f"**{word}** ({shown} ± {half:.1f})"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[5])
def test_the_page_says_what_its_rules_make_of_the_committed_cells(row: tuple[Any, ...]) -> None:
    study, dataset, recipe, corruptions, claimed, words, compared = row
    page = (DOCS / "studies" / "index.md").read_text(encoding="utf-8").replace("\u00a0", " ")
    [line] = [one for one in page.splitlines() if re.search(rf"\| \[{re.escape(words)}:", one)]
    columns = accuracies(study, dataset, recipe, corruptions)
    expected = [verdict(columns, own, claimed, compared) for own in ("gm-matching", "gm-matching-authors")]
    assert line.split(" | ")[2:4] == expected


def test_what_was_not_run_is_named() -> None:
    page = (DOCS / "studies" / "index.md").read_text(encoding="utf-8")
    missing = page[page.index("### Not run") :]
    for number in (1, 4, 5, 6, 7, 9, 10):
        [line] = [one for one in missing.splitlines() if one.startswith(f"| Table {number} |")]
        assert "Tiny-ImageNet" in line
    for number in (1, 3):
        [line] = [one for one in missing.splitlines() if one.startswith(f"| Table {number} |")]
        assert "100% kept" in line


def frozen(study: str) -> dict[tuple[str, ...], Any]:
    """Return, by column and method, accuracy and share of corrupted picks of the cells on frozen features."""
    record = json.loads((DOCS / "results" / "studies" / f"{study}.json").read_text(encoding="utf-8"))
    columns: dict[tuple[str, ...], Any] = {}
    for cell in record["parts"]["cells"]["cells"]:
        if cell["downstream"] == "head":
            pair = (100 * cell["accuracy"], 100 * cell["contamination"])
            column = columns.setdefault((cell["dataset"], cell["corruption"], cell["amount"]), {})
            column.setdefault(cell["method"], []).append(pair)
    return columns


def above_the_control(study: str, names: tuple[str, str]) -> str:
    """Return the points of the authors' variant above Herding with a unit target, as the page prints them."""
    samples = []
    for methods in frozen(study).values():
        samples.append([np.array(methods[name])[:, 0] for name in names])
    points = np.mean([own.mean() - control.mean() for own, control in samples])
    flat = [sample for pair in samples for sample in pair]
    terms = np.array([stats.sem(sample) ** 2 / len(samples) ** 2 for sample in flat])
    freedom = terms.sum() ** 2 / sum(terms**2 / [len(sample) - 1 for sample in flat])
    half = stats.t.ppf(0.975, freedom) * terms.sum() ** 0.5
    return f"{points:+.1f} ± {half:.1f}".replace("-", "−")


def test_the_first_paragraph_says_what_the_median_adds_in_committed_numbers() -> None:
    page = (DOCS / "studies" / "index.md").read_text(encoding="utf-8").replace("\u00a0", " ")
    [answer] = [line for line in page.splitlines() if line.startswith("**Does it reproduce, and what")]
    columns = frozen("label-noise").values()
    for method in ("gm-matching-authors", "herding-authors", "easy-unit", "herding", "gm-matching"):
        share = np.mean([np.mean([cell[1] for cell in methods[method]]) for methods in columns])
        assert f"{share:.1f}%" in answer
    for study in ("label-noise", "clean-classification"):
        for end in ("authors", "exact"):
            assert above_the_control(study, (f"gm-matching-{end}", f"herding-{end}")) in answer
        corruptions = ("label:20%", "label:35%") if study == "label-noise" else ("none",)
        for own in ("gm-matching", "gm-matching-authors"):
            word = verdict(accuracies(study, "cifar100", "fast:1000", corruptions), own, 0.0, IN_TABLES)
            assert word.partition("(")[2].rstrip(")") in answer
    studies = (
        "clean-classification", "image-corruption", "label-noise", "domain-transfer", "clip-transfer", "human-noise",
    )  # fmt: skip
    margins = [
        above_the_control(study, (f"gm-matching-{end}", f"herding-{end}"))
        for study in studies
        for end in ("authors", "exact")
    ]
    margins.sort(key=lambda margin: float(margin.split(" ")[0].replace("−", "-")))
    assert f"over all 6 studies that have the control, {margins[0]} to {margins[-1]}." in answer
    record = json.loads((DOCS / "results" / "studies" / "unit-target.json").read_text(encoding="utf-8"))
    for kind in ("scattered", "clustered"):
        for center in ("mean", "median"):
            shares = [
                cell["contamination"]
                for cell in record["parts"]["picks"]["cells"]
                if (cell["kind"], cell["psi"], cell["method"]) == (kind, 0.4, f"{center}, unit target")
            ]
            assert f"{100 * np.mean(shares):.0f}%" in answer
