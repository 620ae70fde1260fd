"""The measured parts of the page of a study on images, from its committed results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gmmatch_paper.studies.classification.claims import columns_table, statements_table
from gmmatch_paper.studies.classification.image_study import ImageStudy
from gmmatch_paper.studies.classification.tables import study_tables
from gmmatch_paper.studies.markdown import markdown_table
from gmmatch_paper.studies.results import Results

_SOURCES = {
    "cifar10": "uoft-cs/cifar10", "cifar100": "uoft-cs/cifar100", "mnist": "ylecun/mnist",
    "tiny-imagenet": "tiny-imagenet-200",
}  # fmt: skip
# Encoders that no hub has under these names, and the section of index.md that says how they are made.
_TO_MAKE = ("resnet50-imagenet-3stage-160px", "mobilenet_v2-imagenet", "mobilenet_v2-imagenet-96px")
_HOW_TO_MAKE = "encoders-to-make"


def image_study_parts(
    study: ImageStudy, record: dict[str, Any], measured: Mapping[str, Results]
) -> dict[str, str]:
    """Return the measured parts of the page of one study; ``measured`` are the results of all studies."""
    results = "\n\n".join(map(markdown_table, study.tables(measured[study.name], study.paper)))
    statements = statements_table(measured, study.name)
    if statements is not None:
        rules = "[The rule for each word](../index.md#tables-and-figures-on-images)."
        results += f"\n\n{markdown_table(statements)}\n\n{rules}"
        columns = columns_table(measured, study.name)
        results += "" if columns is None else f"\n\n{markdown_table(columns)}"
    return {"results": results, "run": _how(study, record)}


def _how(study: ImageStudy, record: dict[str, Any]) -> str:
    cells = [cell for part in record["parts"].values() for cell in part["cells"]]
    whole = f"gmmatch reproduce {study.name} --full  # the paper's cells by its recipe"
    commands = "\n".join([*map(in_lines, _commands(study, record, cells)), *([whole] if study.paper else [])])
    used = dict.fromkeys(str(cell.get("encoder", "")).removeprefix("hidden:") for cell in cells)
    to_make = ", ".join(f"`{name}`" for name in used if name in _TO_MAKE)
    first = f"{to_make} is a folder to [make first](index.md#{_HOW_TO_MAKE}). " if to_make else ""
    devices, commits = (
        ", ".join(dict.fromkeys(str(cell[name]) for cell in cells if name in cell))
        for name in ("device", "commit")
    )
    where = f", measured on {devices}" if devices else ""
    commits = f" Commits: {commits}, where recorded." if commits else ""
    return (
        f"```\n{commands}\n```\n\n{first}A run resumes if it is interrupted. "
        f"{{download}}`{study.name}.json <../../results/studies/{study.name}.json>` has all {len(cells):,} cells"
        f"{where}.{commits}"
    )


def _commands(study: ImageStudy, record: dict[str, Any], cells: list[dict[str, Any]]) -> list[str]:
    """Return a command for each training that was measured; where cells differ in kind, what was typed."""
    if study.tables is not study_tables:
        return list(dict.fromkeys(run["command"] for run in record["provenance"]["runs"]))
    same = ("dataset", "encoder", "downstream", "network", "recipe")
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for cell in cells:
        groups.setdefault(tuple(cell[name] for name in same), []).append(cell)
    found = []
    for (dataset, encoder, downstream, network, recipe), mine in groups.items():
        # The hub's copies have no labels of people: a file of arrays has them beside the true ones.
        by_people = any(cell["corruption"].startswith("human:") for cell in mine)
        name, limits = _limits_of(dataset)
        source = f"{name}.npz" if by_people else _SOURCES.get(name, name)
        words = {"dataset": source, **limits, "encoder": encoder, "downstream": downstream}
        words |= {"networks": network, "recipe": recipe} if downstream == "scratch" else {}
        for option, name in (("corruptions", "corruption"), ("ratios", "amount"), ("methods", "method")):
            words[option] = ",".join(dict.fromkeys(cell[name] for cell in mine))
        if any(cell["corruption"].startswith("image:") for cell in mine):
            words["severity"] = "mild"
        words["seeds"] = str(1 + max(cell["seed"] for cell in mine))
        options = " ".join(f"--{name} {value}" for name, value in words.items())
        found.append(f"gmmatch reproduce {study.name} --full {options}")
    return found


def _limits_of(dataset: str) -> tuple[str, dict[str, str]]:
    """Return the name of a dataset, and the options that take its first images alone."""
    match = re.fullmatch(r"(.*) \(first ([\d,]+)(?: \+ ([\d,]+) test)?\)", dataset)
    if match is None:
        return dataset, {}
    limits = zip(("limit", "test-limit"), match.groups()[1:], strict=True)
    return match[1], {name: count.replace(",", "") for name, count in limits if count}


def in_lines(command: str, width: int = 100) -> str:
    """Return a command in lines that fit a page, each but the last ending with a backslash.

    Examples
    --------
    >>> print(in_lines("gmmatch reproduce vit --full --seeds 3", width=25))
    gmmatch reproduce vit \\
        --full --seeds 3
    """
    first, *options = command.split(" --")
    lines = [first]
    for option in options:
        if len(lines[-1]) + len(option) + 3 > width:
            lines.append("   ")
        lines[-1] += f" --{option}"
    return " \\\n".join(lines)
