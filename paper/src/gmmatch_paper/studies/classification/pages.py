"""The page of a study on images, written from its committed results; its text is the study's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gmmatch_paper.studies.classification.claims import statements_table
from gmmatch_paper.studies.classification.image_study import ImageStudy
from gmmatch_paper.studies.classification.running import has_numbers, pictures_of
from gmmatch_paper.studies.classification.tables import study_tables
from gmmatch_paper.studies.labels import cite_all
from gmmatch_paper.studies.markdown import figure, markdown_table, three_lines
from gmmatch_paper.studies.records import as_results
from gmmatch_paper.studies.results import Results
from gmmatch_paper.studies.study import Table

_HUB = {"cifar10": "uoft-cs/cifar10", "cifar100": "uoft-cs/cifar100", "mnist": "ylecun/mnist"}


def result_tables(study: ImageStudy, results: Results | None) -> list[Table]:
    """Return the tables of a study that has results."""
    if results is None:
        return []
    return study_tables(results, study.paper) if study.tables is None else study.tables(study, results)


def image_study_page(
    study: ImageStudy, record: dict[str, Any] | None, others: Mapping[str, Results], note: str
) -> str:
    """Return the page of one study, in MyST Markdown; ``others`` are the results of all studies on images."""
    results = as_results(record) if record is not None else None
    paper = f"In the paper: {cite_all(study.paper)}." if study.paper else "Not in the paper."
    sections = [
        f"# {study.title}",
        note,
        f"**{study.question}** {paper}",
        three_lines(study),
        *map(markdown_table, result_tables(study, results)),
    ]
    statements = statements_table(others, study.name)
    if statements is not None and results is not None:
        sections.append(markdown_table(statements))
    if results is not None and has_numbers(results):
        sections += [
            figure(f"../../images/studies/{name}", one.caption) for name, one in pictures_of(study).items()
        ]
    sections += ["## Method", f"{study.method} What all studies on images share is [told once](index.md)."]
    sections += ["## Run it", _how(study, record)]
    return "\n\n".join(sections) + "\n"


def _how(study: ImageStudy, record: dict[str, Any] | None) -> str:
    if record is None:
        return f"```\ngmmatch reproduce {study.name} --full\n```\n\nNot run yet. A run resumes if it is interrupted."
    cells = [cell for part in record["parts"].values() for cell in part["cells"]]
    whole = f"gmmatch reproduce {study.name} --full  # the paper's cells by its recipe"
    commands = "\n".join([*_commands(study, record, cells), *([whole] if study.paper else [])])
    devices = ", ".join(dict.fromkeys(str(cell["device"]) for cell in cells if "device" in cell))
    commits = ", ".join(dict.fromkeys(str(cell["commit"]) for cell in cells if "commit" in cell))
    commits = f" Commits: {commits}, where recorded." if commits else ""
    return (
        f"```\n{commands}\n```\n\nA run resumes if it is interrupted. "
        f"{{download}}`{study.name}.json <../../results/studies/{study.name}.json>` has all {len(cells):,} cells"
        f"{f', measured on {devices}' if devices else ''}.{commits}"
    )


def _commands(study: ImageStudy, record: dict[str, Any], cells: list[dict[str, Any]]) -> list[str]:
    """Return a command for each training that was measured; where cells differ in kind, what was typed."""
    if study.tables is not None:
        return list(dict.fromkeys(run["command"] for run in record["provenance"]["runs"]))
    same = ("dataset", "encoder", "downstream", "network", "recipe")
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for cell in cells:
        groups.setdefault(tuple(cell[name] for name in same), []).append(cell)
    found = []
    for (dataset, encoder, downstream, network, recipe), mine in groups.items():
        words = {"dataset": _HUB.get(dataset, dataset), "encoder": encoder, "downstream": downstream}
        words |= {"networks": network, "recipe": recipe} if downstream == "scratch" else {}
        for option, name in (("corruptions", "corruption"), ("ratios", "amount"), ("methods", "method")):
            words[option] = ",".join(dict.fromkeys(cell[name] for cell in mine))
        words["seeds"] = str(1 + max(cell["seed"] for cell in mine))
        options = " ".join(f"--{name} {value}" for name, value in words.items())
        found.append(f"gmmatch reproduce {study.name} --full {options}")
    return found
