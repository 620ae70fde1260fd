"""The documentation's pages of the studies, written from the committed results.

``python -m gmmatch_paper.studies.pages`` writes them again; with ``--draw`` it also draws the figures again, and with
``--take FOLDER`` it first adds what ``gmmatch reproduce`` measured there. No number on a page is written by hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gmmatch_paper.studies import image_study_names, load_image_study, load_study, study_names
from gmmatch_paper.studies.classification.pages import image_study_page
from gmmatch_paper.studies.classification.running import pictures_of
from gmmatch_paper.studies.joining import joined_records
from gmmatch_paper.studies.labels import cite, number_of
from gmmatch_paper.studies.markdown import figure, markdown_table, three_lines
from gmmatch_paper.studies.records import as_results, read_record, write_results
from gmmatch_paper.studies.results import Results
from gmmatch_paper.studies.study import Study, Table
from gmmatch_paper.studies.style import draw_pictures
from gmmatch_paper.studies.summary import summary_page

NOTE = (
    "<!-- Written by `python -m gmmatch_paper.studies.pages` from results/studies; do not edit by hand. -->"
)


def write_pages(docs: Path, target: Path | None = None) -> list[Path]:
    """Write a page per study and the summary from ``docs/results/studies``.

    Parameters
    ----------
    docs : Path
        The documentation's folder. A study on images without results there gets a page that says so.
    target : Path, optional
        Where to write; ``docs/studies`` by default.

    Returns
    -------
    list of Path
        The files written.
    """
    folder = target or docs / "studies"
    results = docs / "results" / "studies"
    studies = [load_study(name) for name in study_names()]
    on_images = [load_image_study(name) for name in image_study_names()]
    records = {one.name: read_record(results / f"{one.name}.json") for one in studies}
    image_records = {
        one.name: read_record(path) for one in on_images if (path := results / f"{one.name}.json").exists()
    }
    measured = {name: as_results(record) for name, record in image_records.items()}
    pages = {f"{one.name}.md": study_page(one, records[one.name]) for one in studies}
    for one in on_images:
        pages[f"images/{one.name}.md"] = image_study_page(one, image_records.get(one.name), measured, NOTE)
    pages["index.md"] = summary_page(studies, records, on_images, measured, NOTE)
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in pages]


def take_results(source: Path, docs: Path) -> None:
    """Add the results that ``source`` has to those of the documentation, and draw their figures."""
    taken = [name for name in (*study_names(), *image_study_names()) if (source / f"{name}.json").exists()]
    for name in taken:
        target = docs / "results" / "studies" / f"{name}.json"
        record = read_record(source / target.name)
        if name in image_study_names() and target.exists():
            record = joined_records(read_record(target), record)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_results(target, record)
    draw_figures(docs, taken)


def draw_figures(docs: Path, names: Sequence[str]) -> None:
    """Draw the figures of studies from the results in the documentation."""
    for name in names:
        results = as_results(read_record(docs / "results" / "studies" / f"{name}.json"))
        study = load_study(name) if name in study_names() else load_image_study(name)
        draw_pictures(pictures_of(study, results), results, docs / "images" / "studies")


def study_page(study: Study, record: dict[str, Any]) -> str:
    """Return the page of one study, in MyST Markdown."""
    results = as_results(record)
    sections = [
        f"# {study.title}",
        NOTE,
        f"**{study.question}** In the paper: {cite(study.paper)}.",
        three_lines(study),
        *(
            figure(f"../images/studies/{name}", picture.caption)
            for name, picture in study.named_pictures().items()
        ),
        "## What the paper says",
        markdown_table(verdicts_table(study, results)),
        "## The numbers",
        *(markdown_table(table(results)) for table in study.tables),
        "## Method",
        study.method,
        "## Run it",
        _how(record),
    ]
    return "\n\n".join(sections) + "\n"


def verdicts_table(study: Study, results: Results) -> Table:
    """Return the paper's statements and ours, whether they hold, and the numbers that say so."""
    rows = []
    for claim in sorted(study.claims, key=lambda claim: claim.source == "ours"):
        verdict = claim.check(results)
        statement = f"{claim.statement} ({number_of(claim.source)})"
        rows.append([statement, "yes" if verdict.agrees else "**no**", verdict.measured])
    return Table("Statements, and what was measured.", ("statement", "holds", "measured"), rows)


def _how(record: dict[str, Any]) -> str:
    made = record["provenance"]
    libraries = ", ".join(f"{name} {version}" for name, version in made["libraries"].items() if version)
    seeds = ", ".join(f"{count} for *{part}*" for part, count in made["seeds"].items())
    seconds = sum(part["seconds"] for part in record["parts"].values())
    name = record["study"]
    return (
        f"```\n{made['command']}\n```\n\n"
        f"Seeds: {seeds}. {seconds:,.0f} seconds of measuring on {made['cores']} cores of an {made['cpu']}, "
        f"with "
        f"gmmatch {made['gmmatch']}, Python {made['python']}, {libraries}. "
        f"All cells are in {{download}}`{name}.json <../results/studies/{name}.json>`."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the pages; what ``python -m gmmatch_paper.studies.pages`` runs."""
    parser = argparse.ArgumentParser(description="Write the studies' pages of the documentation.")
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="the documentation's folder")
    parser.add_argument("--take", type=Path, help="add the results in this folder to the documentation first")
    parser.add_argument("--draw", action="store_true", help="draw all figures again")
    options = parser.parse_args(arguments)
    if options.take is not None:
        take_results(options.take, options.docs)
    if options.draw:
        draw_figures(
            options.docs, [path.stem for path in (options.docs / "results" / "studies").glob("*.json")]
        )
    write_pages(options.docs)


if __name__ == "__main__":
    main()
